"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("delegate_id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("confirmed", sa.Boolean(), nullable=False),
        sa.Column("missed", sa.Integer(), nullable=False),
        sa.Column("lease_expires_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("reported_state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
    )
    op.create_index(
        "ix_attempts_active",
        "attempts",
        ["delegate_id"],
        unique=False,
        sqlite_where=sa.text("state = 'active'"),
        postgresql_where=sa.text("state = 'active'"),
    )
    op.create_index(
        "ix_attempts_lease",
        "attempts",
        ["lease_expires_at"],
        unique=False,
        sqlite_where=sa.text("state = 'active'"),
        postgresql_where=sa.text("state = 'active'"),
    )
    op.create_index("ix_attempts_request", "attempts", ["delegate_id", "request_id"], unique=False)
    op.create_index("ix_attempts_task_id", "attempts", ["task_id"], unique=False)

    op.create_table(
        "clusters",
        sa.Column("delegate_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uid", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("delegate_id", "name", name="pk_clusters"),
    )
    op.create_index("ix_clusters_name", "clusters", ["name"], unique=False)

    op.create_table(
        "commands",
        sa.Column("sequence", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("delegate_id", sa.Text(), nullable=False),
        sa.Column("attempt_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_commands"),
        sa.UniqueConstraint("id", name="uq_commands_id"),
    )
    op.create_index("ix_commands_attempt_id", "commands", ["attempt_id"], unique=False)
    op.create_index("ix_commands_delegate_id", "commands", ["delegate_id"], unique=False)

    op.create_table(
        "credentials",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("delegate_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_credentials"),
    )
    op.create_index("ix_credentials_delegate_id", "credentials", ["delegate_id"], unique=False)
    op.create_index("ix_credentials_expires_at", "credentials", ["expires_at"], unique=False)

    op.create_table(
        "delegates",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("token_labels", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("kinds", sa.Text(), nullable=False),
        sa.Column("capacity", sa.Integer(), nullable=False),
        sa.Column("free_slots", sa.Integer(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("python", sa.Text(), nullable=False),
        sa.Column("protocol", sa.Integer(), nullable=False),
        sa.Column("features", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("incarnation", sa.Text(), nullable=False),
        sa.Column("incarnations", sa.Text(), nullable=False),
        sa.Column("boot_count", sa.Integer(), nullable=False),
        sa.Column("enrolled_at", sa.Double(), nullable=False),
        sa.Column("session_at", sa.Double(), nullable=True),
        sa.Column("heartbeat_at", sa.Double(), nullable=True),
        sa.Column("heartbeat_sequence", sa.Integer(), nullable=False),
        sa.Column("heartbeat", sa.Text(), nullable=False),
        sa.Column("stalled", sa.Boolean(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("left_at", sa.Double(), nullable=True),
        sa.Column("left_reason", sa.Text(), nullable=False),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_delegates"),
        sa.UniqueConstraint("instance", name="uq_delegates_instance"),
    )
    op.create_index("ix_delegates_token_id", "delegates", ["token_id"], unique=False)

    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("attempt_id", sa.Text(), nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sa.UniqueConstraint("attempt_id", "sequence", name="uq_events_attempt_id_sequence"),
    )
    op.create_index("ix_events_task", "events", ["task_id", "id"], unique=False)

    op.create_table(
        "history",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("attempt_id", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_history"),
    )
    op.create_index("ix_history_task", "history", ["task_id", "id"], unique=False)

    op.create_table(
        "keys",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_keys"),
    )
    op.create_table(
        "results",
        sa.Column("attempt_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("received_at", sa.Double(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", name="pk_results"),
    )
    op.create_index("ix_results_task_id", "results", ["task_id"], unique=False)

    op.create_table(
        "selectors",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_selectors"),
        sa.UniqueConstraint("labels", name="uq_selectors_labels"),
    )
    op.create_table(
        "tasks",
        sa.Column("sequence", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=False),
        sa.Column("destination", sa.Text(), nullable=False),
        sa.Column("cluster_uid", sa.Text(), nullable=True),
        sa.Column("lock_key", sa.Text(), nullable=True),
        sa.Column("selector_id", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Double(), nullable=False),
        sa.Column("timeout_seconds", sa.Double(), nullable=False),
        sa.Column("supersedes", sa.Boolean(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("eligible", sa.Boolean(), nullable=False),
        sa.Column("ready_at", sa.Double(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("begun", sa.Integer(), nullable=False),
        sa.Column("requeues", sa.Integer(), nullable=False),
        sa.Column("attempt_id", sa.Text(), nullable=True),
        sa.Column("stop", sa.Text(), nullable=False),
        sa.Column("stop_reason", sa.Text(), nullable=False),
        sa.Column("stop_at", sa.Double(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("first_started_at", sa.Double(), nullable=True),
        sa.Column("deadline_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.Column("retry_of", sa.Text(), nullable=True),
        sa.Column("superseded_by", sa.Text(), nullable=True),
        sa.Column("submitted_by", sa.Text(), nullable=False),
        sa.Column("submission_key", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("sequence", name="pk_tasks"),
        sa.UniqueConstraint("id", name="uq_tasks_id"),
        sa.UniqueConstraint("submission_key", name="uq_tasks_submission_key"),
    )
    op.create_index("ix_tasks_application", "tasks", ["application", "sequence"], unique=False)
    op.create_index(
        "ix_tasks_deadline",
        "tasks",
        ["deadline_at"],
        unique=False,
        sqlite_where=sa.text("state <> 'finished' AND deadline_at IS NOT NULL"),
        postgresql_where=sa.text("state <> 'finished' AND deadline_at IS NOT NULL"),
    )
    op.create_index(
        "ix_tasks_eligible",
        "tasks",
        ["rank", "sequence"],
        unique=False,
        sqlite_where=sa.text("eligible"),
        postgresql_where=sa.text("eligible"),
    )
    op.create_index(
        "ix_tasks_queued",
        "tasks",
        ["lock_key", "rank", "sequence"],
        unique=False,
        sqlite_where=sa.text("state = 'queued'"),
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_index(
        "ix_tasks_unresolved",
        "tasks",
        ["destination"],
        unique=False,
        sqlite_where=sa.text("state = 'queued' AND cluster_uid IS NULL"),
        postgresql_where=sa.text("state = 'queued' AND cluster_uid IS NULL"),
    )
    op.create_index(
        "uq_tasks_head", "tasks", ["lock_key"], unique=True, sqlite_where=sa.text("eligible"), postgresql_where=sa.text("eligible")
    )
    op.create_index(
        "uq_tasks_running",
        "tasks",
        ["lock_key"],
        unique=True,
        sqlite_where=sa.text("state = 'running'"),
        postgresql_where=sa.text("state = 'running'"),
    )

    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.Column("max_uses", sa.Integer(), nullable=True),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("last_used_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("hash", name="uq_tokens_hash"),
    )
    op.create_index(
        "uq_tokens_name",
        "tokens",
        ["name"],
        unique=True,
        sqlite_where=sa.text("revoked_at IS NULL"),
        postgresql_where=sa.text("revoked_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_table("tokens")
    op.drop_table("tasks")
    op.drop_table("selectors")
    op.drop_table("results")
    op.drop_table("keys")
    op.drop_table("history")
    op.drop_table("events")
    op.drop_table("delegates")
    op.drop_table("credentials")
    op.drop_table("commands")
    op.drop_table("clusters")
    op.drop_table("attempts")
