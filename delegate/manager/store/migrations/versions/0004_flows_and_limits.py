"""Whose turn it is (flows), how many tasks of a kind may run at once (limits), and tasks that were given up for good."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_FLOWS = """
INSERT INTO flows (kind, cluster_uid, selector_id, submitter, environment, priority, served_at)
SELECT DISTINCT kind, cluster_uid, selector_id, submitted_by, environment, priority, 0.0
FROM tasks WHERE state <> 'finished' AND cluster_uid IS NOT NULL
"""
_FLOW_OF_TASKS = """
UPDATE tasks SET flow_id = (
    SELECT flows.id FROM flows
    WHERE flows.kind = tasks.kind AND flows.cluster_uid = tasks.cluster_uid AND flows.selector_id = tasks.selector_id
    AND flows.submitter = tasks.submitted_by AND flows.environment = tasks.environment AND flows.priority = tasks.priority
) WHERE state <> 'finished' AND cluster_uid IS NOT NULL
"""


def _partial(name: str, columns: list[str], where: str) -> None:
    op.create_index(name, "tasks", columns, unique=False, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def upgrade() -> None:
    op.create_table(
        "flows",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("cluster_uid", sa.Text(), nullable=False),
        sa.Column("selector_id", sa.Integer(), nullable=False),
        sa.Column("submitter", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("served_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_flows"),
        sa.UniqueConstraint("cluster_uid", "kind", "selector_id", "submitter", "environment", "priority", name="uq_flows_key"),
    )
    op.create_table(
        "limits",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("max_parallel", sa.Integer(), nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.Column("set_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", name="pk_limits"),
    )
    op.add_column("tasks", sa.Column("flow_id", sa.Integer(), nullable=True))
    op.add_column("tasks", sa.Column("concurrency_key", sa.Text(), nullable=False, server_default=""))
    op.add_column("tasks", sa.Column("quarantined", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.execute(_FLOWS)
    op.execute(_FLOW_OF_TASKS)
    op.drop_index("ix_tasks_eligible", table_name="tasks")
    _partial("ix_tasks_flow", ["flow_id", "rank", "sequence"], "eligible")
    _partial("ix_tasks_suspects", ["rank", "sequence"], "eligible AND requeues >= 2")
    _partial("ix_tasks_keyed", ["concurrency_key", "rank"], "eligible AND concurrency_key > ''")
    _partial("ix_tasks_holders", ["concurrency_key"], "state = 'running' AND concurrency_key > ''")


def downgrade() -> None:
    op.drop_index("ix_tasks_holders", table_name="tasks")
    op.drop_index("ix_tasks_keyed", table_name="tasks")
    op.drop_index("ix_tasks_suspects", table_name="tasks")
    op.drop_index("ix_tasks_flow", table_name="tasks")
    _partial("ix_tasks_eligible", ["rank", "sequence"], "eligible")
    op.drop_column("tasks", "quarantined")
    op.drop_column("tasks", "concurrency_key")
    op.drop_column("tasks", "flow_id")
    op.drop_table("limits")
    op.drop_table("flows")
