"""Certificates of delegates, the authorities that sign them, what was revoked, and keys of clusters whose accounts may enrol."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("delegates", sa.Column("bound_at", sa.Double(), nullable=True))
    op.create_table(
        "authorities",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("certificate", sa.Text(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("signs_from", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_authorities"),
    )
    op.create_table(
        "certificates",
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("serial", sa.Text(), nullable=False),
        sa.Column("key_fingerprint", sa.Text(), nullable=False),
        sa.Column("delegate_id", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.Text(), nullable=False),
        sa.Column("chain", sa.Text(), nullable=False),
        sa.Column("not_before", sa.Double(), nullable=False),
        sa.Column("not_after", sa.Double(), nullable=False),
        sa.Column("issued_at", sa.Double(), nullable=False),
        sa.Column("first_used_at", sa.Double(), nullable=True),
        sa.Column("superseded_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("fingerprint", name="pk_certificates"),
    )
    op.create_index("ix_certificates_serial", "certificates", ["serial"], unique=False)
    op.create_index("ix_certificates_key_fingerprint", "certificates", ["key_fingerprint"], unique=False)
    op.create_index("ix_certificates_delegate", "certificates", ["delegate_id", "issued_at"], unique=False)
    op.create_table(
        "revocations",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "value", name="pk_revocations"),
    )
    op.create_table(
        "cluster_keys",
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("audience", sa.Text(), nullable=False),
        sa.Column("accounts", sa.Text(), nullable=False),
        sa.Column("keys", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("token_id", name="pk_cluster_keys"),
    )
    op.create_index("ix_cluster_keys_issuer", "cluster_keys", ["issuer"], unique=False)


def downgrade() -> None:
    op.drop_table("cluster_keys")
    op.drop_table("revocations")
    op.drop_table("certificates")
    op.drop_table("authorities")
    op.drop_column("delegates", "bound_at")
