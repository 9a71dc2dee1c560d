"""The index of dead letters, their redrives, and results that were too large for one call."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "dead_letters",
        sa.Column("sequence", _SERIAL, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("delegate_id", sa.Text(), nullable=False),
        sa.Column("delegate", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("error_code", sa.Text(), nullable=False),
        sa.Column("error_category", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("attempt_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("application", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("written_at", sa.Double(), nullable=False),
        sa.Column("indexed_at", sa.Double(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("masked", sa.Integer(), nullable=False),
        sa.Column("document", sa.Text(), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("redriven_as", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_dead_letters"),
        sa.UniqueConstraint("id", name="uq_dead_letters_id"),
    )
    op.create_index("ix_dead_letters_task_id", "dead_letters", ["task_id"], unique=False)
    op.create_index("ix_dead_letters_state", "dead_letters", ["state", "sequence"], unique=False)
    op.create_table(
        "redrives",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("filter", sa.Text(), nullable=False),
        sa.Column("rate", sa.Double(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("ended_by", sa.Text(), nullable=False),
        sa.Column("paced_at", sa.Double(), nullable=False),
        sa.Column("cursor", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("moved", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_redrives"),
    )
    running = sa.text("state = 'running'")
    op.create_index("uq_redrives_running", "redrives", ["state"], unique=True, sqlite_where=running, postgresql_where=running)
    op.create_table(
        "redriven",
        sa.Column("letter_id", sa.Text(), nullable=False),
        sa.Column("redrive_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("letter_id", "redrive_id", name="pk_redriven"),
    )
    op.create_index("ix_redriven_task_id", "redriven", ["task_id"], unique=False)
    op.create_table(
        "blobs",
        sa.Column("attempt_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("touched_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", name="pk_blobs"),
    )
    op.create_index("ix_blobs_sha256", "blobs", ["sha256"], unique=False)
    op.create_index("ix_blobs_touched_at", "blobs", ["touched_at"], unique=False)
    op.create_table(
        "blob_pieces",
        sa.Column("attempt_id", sa.Text(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", "offset", name="pk_blob_pieces"),
    )
    finished = sa.text("state = 'finished'")
    op.create_index("ix_tasks_finished", "tasks", ["finished_at"], unique=False, sqlite_where=finished, postgresql_where=finished)


def downgrade() -> None:
    op.drop_index("ix_tasks_finished", "tasks")
    for table in ("blob_pieces", "blobs", "redriven", "redrives", "dead_letters"):
        op.drop_table(table)
