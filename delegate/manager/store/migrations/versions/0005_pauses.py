"""What a running attempt pauses at, as its delegate says."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempts", sa.Column("pause", sa.Text(), nullable=False, server_default=""))
