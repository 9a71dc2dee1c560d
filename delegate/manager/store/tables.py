"""The tables. Times are seconds since the epoch on the manager's clock, documents are JSON as text: the same in every dialect.

What must never happen is forbidden here and not only in the code: two running tasks, or two heads of the queue, for one
application and cluster (`lock_key`).
"""

import sqlalchemy as sa

from delegate.model.tasks import WINDING_KINDS

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _partial(name: str, *columns: str, where: str, unique: bool = False) -> sa.Index:
    return sa.Index(name, *columns, unique=unique, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


selectors = sa.Table(
    "selectors",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("labels", sa.Text, nullable=False, unique=True),
)

tasks = sa.Table(
    "tasks",
    metadata,
    sa.Column("sequence", _SERIAL, primary_key=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("application", sa.Text, nullable=False),
    sa.Column("environment", sa.Text, nullable=False),
    sa.Column("destination", sa.Text, nullable=False),  # the name asked for
    sa.Column("cluster_uid", sa.Text),  # null until known, empty where none is needed
    sa.Column("lock_key", sa.Text),  # null until the cluster is known
    sa.Column("selector_id", sa.Integer, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("rank", sa.Double, nullable=False),  # smaller goes first
    sa.Column("timeout_seconds", sa.Double, nullable=False),
    sa.Column("supersedes", sa.Boolean, nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # queued, running, finished
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("eligible", sa.Boolean, nullable=False),  # queued and the first of its lock key
    sa.Column("ready_at", sa.Double, nullable=False),
    sa.Column("fence", sa.Integer, nullable=False),
    sa.Column("begun", sa.Integer, nullable=False),  # hand-outs that were not given back before they began
    sa.Column("requeues", sa.Integer, nullable=False),  # of those, how many lost their delegate
    sa.Column("attempt_id", sa.Text),  # of the latest hand-out
    sa.Column("stop", sa.Text, nullable=False),  # a lease verdict, or empty
    sa.Column("stop_reason", sa.Text, nullable=False),
    sa.Column("stop_at", sa.Double),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("first_started_at", sa.Double),
    sa.Column("deadline_at", sa.Double),
    sa.Column("finished_at", sa.Double),
    sa.Column("retry_of", sa.Text),
    sa.Column("superseded_by", sa.Text),
    sa.Column("submitted_by", sa.Text, nullable=False),
    sa.Column("submission_key", sa.Text, unique=True),
    sa.Column("flow_id", sa.Integer),  # null until the cluster is known
    sa.Column("concurrency_key", sa.Text, nullable=False),
    sa.Column("quarantined", sa.Boolean, nullable=False),  # given up, because it took its delegates with it
    _partial("ix_tasks_flow", "flow_id", "rank", "sequence", where="eligible"),
    _partial("ix_tasks_suspects", "rank", "sequence", where="eligible AND requeues >= 2"),
    _partial("ix_tasks_keyed", "concurrency_key", "rank", where="eligible AND concurrency_key > ''"),
    _partial("ix_tasks_holders", "concurrency_key", where="state = 'running' AND concurrency_key > ''"),
    _partial("uq_tasks_head", "lock_key", unique=True, where="eligible"),
    _partial("uq_tasks_running", "lock_key", unique=True, where="state = 'running'"),
    _partial("ix_tasks_queued", "lock_key", "rank", "sequence", where="state = 'queued'"),
    _partial("ix_tasks_unresolved", "destination", where="state = 'queued' AND cluster_uid IS NULL"),
    _partial("ix_tasks_deadline", "deadline_at", where="state <> 'finished' AND deadline_at IS NOT NULL"),
    _partial("ix_tasks_finished", "finished_at", where="state = 'finished'"),
    sa.Index("ix_tasks_application", "application", "sequence"),
)
WINDS = tasks.c.kind.in_(sorted(WINDING_KINDS))
"""Whether a task takes back what it did when its time is over."""

flows = sa.Table(
    "flows",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("cluster_uid", sa.Text, nullable=False),
    sa.Column("selector_id", sa.Integer, nullable=False),
    sa.Column("submitter", sa.Text, nullable=False),
    sa.Column("environment", sa.Text, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("served_at", sa.Double, nullable=False),  # when one of its tasks was handed out while others waited
    sa.UniqueConstraint("cluster_uid", "kind", "selector_id", "submitter", "environment", "priority", name="uq_flows_key"),
)

limits = sa.Table(
    "limits",
    metadata,
    sa.Column("kind", sa.Text, primary_key=True),  # environment, cluster (by uid), key
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("max_parallel", sa.Integer, nullable=False),
    sa.Column("set_by", sa.Text, nullable=False),
    sa.Column("set_at", sa.Double, nullable=False),
)

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("task_id", sa.Text, nullable=False, index=True),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("fence", sa.Integer, nullable=False),
    sa.Column("delegate_id", sa.Text, nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("request_id", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # AttemptState of manager.attempts
    sa.Column("confirmed", sa.Boolean, nullable=False),  # the delegate has shown that it knows of it
    sa.Column("missed", sa.Integer, nullable=False),  # heartbeats that did not name it before it was confirmed
    sa.Column("lease_expires_at", sa.Double, nullable=False),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("ended_at", sa.Double),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("reported_state", sa.Text, nullable=False),
    sa.Column("pause", sa.Text, nullable=False),  # what it stands at, as store.pauses keeps it; empty while it is on its way
    sa.Index("ix_attempts_request", "delegate_id", "request_id"),
    _partial("ix_attempts_active", "delegate_id", where="state = 'active'"),
    _partial("ix_attempts_lease", "lease_expires_at", where="state = 'active'"),
)

results = sa.Table(
    "results",
    metadata,
    sa.Column("attempt_id", sa.Text, primary_key=True),
    sa.Column("task_id", sa.Text, nullable=False, index=True),
    sa.Column("received_at", sa.Double, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", _SERIAL, primary_key=True),
    sa.Column("task_id", sa.Text, nullable=False),
    sa.Column("attempt_id", sa.Text, nullable=False),
    sa.Column("sequence", sa.Integer, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.UniqueConstraint("attempt_id", "sequence"),
    sa.Index("ix_events_task", "task_id", "id"),
)

history = sa.Table(
    "history",
    metadata,
    sa.Column("id", _SERIAL, primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("operation", sa.Text, nullable=False),
    sa.Column("task_id", sa.Text, nullable=False),
    sa.Column("attempt_id", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Index("ix_history_task", "task_id", "id"),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),  # comma separated
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("description", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False, unique=True),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("expires_at", sa.Double),
    sa.Column("revoked_at", sa.Double),
    sa.Column("max_uses", sa.Integer),
    sa.Column("uses", sa.Integer, nullable=False),
    sa.Column("last_used_at", sa.Double),
    _partial("uq_tokens_name", "name", unique=True, where="revoked_at IS NULL"),
)

delegates = sa.Table(
    "delegates",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("instance", sa.Text, nullable=False, unique=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("token_id", sa.Text, nullable=False, index=True),
    sa.Column("token_labels", sa.Text, nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("kinds", sa.Text, nullable=False),  # that it asked for and its scopes allow
    sa.Column("capacity", sa.Integer, nullable=False),
    sa.Column("free_slots", sa.Integer, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("python", sa.Text, nullable=False),
    sa.Column("protocol", sa.Integer, nullable=False),
    sa.Column("features", sa.Text, nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("incarnation", sa.Text, nullable=False),
    sa.Column("incarnations", sa.Text, nullable=False),  # JSON: the latest ones with their times
    sa.Column("boot_count", sa.Integer, nullable=False),
    sa.Column("enrolled_at", sa.Double, nullable=False),
    sa.Column("session_at", sa.Double),
    sa.Column("heartbeat_at", sa.Double),
    sa.Column("heartbeat_sequence", sa.Integer, nullable=False),
    sa.Column("heartbeat", sa.Text, nullable=False),  # JSON: the latest one's facts
    sa.Column("stalled", sa.Boolean, nullable=False),
    sa.Column("draining", sa.Boolean, nullable=False),
    sa.Column("left_at", sa.Double),
    sa.Column("left_reason", sa.Text, nullable=False),
    sa.Column("revoked_at", sa.Double),
    sa.Column("bound_at", sa.Double),  # from then on its calls come with a certificate
)

clusters = sa.Table(
    "clusters",
    metadata,
    sa.Column("delegate_id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Index("ix_clusters_name", "name"),
)

credentials = sa.Table(
    "credentials",
    metadata,
    sa.Column("hash", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),  # session, refresh
    sa.Column("delegate_id", sa.Text, nullable=False, index=True),
    sa.Column("number", sa.Integer, nullable=False),  # counts the ones of a kind that a delegate got
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False, index=True),
)

commands = sa.Table(
    "commands",
    metadata,
    sa.Column("sequence", _SERIAL, primary_key=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("delegate_id", sa.Text, nullable=False, index=True),
    sa.Column("attempt_id", sa.Text, nullable=False, index=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("data", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
)

keys = sa.Table(
    "keys",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
)

authorities = sa.Table(
    "authorities",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("certificate", sa.Text, nullable=False),  # PEM
    sa.Column("key", sa.LargeBinary, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("signs_from", sa.Double, nullable=False),  # announced before that
)

certificates = sa.Table(
    "certificates",
    metadata,
    sa.Column("fingerprint", sa.Text, primary_key=True),
    sa.Column("serial", sa.Text, nullable=False, index=True),
    sa.Column("key_fingerprint", sa.Text, nullable=False, index=True),
    sa.Column("delegate_id", sa.Text, nullable=False),
    sa.Column("request_digest", sa.Text, nullable=False),
    sa.Column("chain", sa.Text, nullable=False),  # PEM
    sa.Column("not_before", sa.Double, nullable=False),
    sa.Column("not_after", sa.Double, nullable=False),
    sa.Column("issued_at", sa.Double, nullable=False),
    sa.Column("first_used_at", sa.Double),
    sa.Column("superseded_at", sa.Double),  # a newer one is in use; this one ends then
    sa.Index("ix_certificates_delegate", "delegate_id", "issued_at"),
)

revocations = sa.Table(
    "revocations",
    metadata,
    sa.Column("kind", sa.Text, primary_key=True),  # serial, key, certificate (the last two by fingerprint)
    sa.Column("value", sa.Text, primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
)

cluster_keys = sa.Table(
    "cluster_keys",
    metadata,
    sa.Column("token_id", sa.Text, primary_key=True),  # carries scope and labels of whoever enrols by these keys
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("issuer", sa.Text, nullable=False, index=True),
    sa.Column("audience", sa.Text, nullable=False),
    sa.Column("accounts", sa.Text, nullable=False),  # JSON: namespace/name of the service accounts that may
    sa.Column("keys", sa.Text, nullable=False),  # JSON Web Key Set
    sa.Column("updated_at", sa.Double, nullable=False),
)

dead_letters = sa.Table(
    "dead_letters",
    metadata,
    sa.Column("sequence", _SERIAL, primary_key=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("delegate_id", sa.Text, nullable=False),  # empty: written by the manager itself
    sa.Column("delegate", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("error_code", sa.Text, nullable=False),
    sa.Column("error_category", sa.Text, nullable=False),
    sa.Column("task_id", sa.Text, nullable=False, index=True),
    sa.Column("attempt_id", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("application", sa.Text, nullable=False),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("written_at", sa.Double, nullable=False),
    sa.Column("indexed_at", sa.Double, nullable=False),
    sa.Column("url", sa.Text, nullable=False),  # empty: on the delegate's disk
    sa.Column("sha256", sa.Text, nullable=False),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("masked", sa.Integer, nullable=False),
    sa.Column("document", sa.Text),  # the task's, for the letter may outlive it; null where it was not known
    sa.Column("generation", sa.Integer, nullable=False),  # redrives that led to this task
    sa.Column("state", sa.Text, nullable=False),  # open, redriven, purged
    sa.Column("redriven_as", sa.Text, nullable=False),  # the task that it became
    sa.Index("ix_dead_letters_state", "state", "sequence"),
)

redrives = sa.Table(
    "redrives",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),  # running, finished, cancelled
    sa.Column("filter", sa.Text, nullable=False),  # JSON
    sa.Column("rate", sa.Double, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("ended_at", sa.Double),
    sa.Column("ended_by", sa.Text, nullable=False),
    sa.Column("paced_at", sa.Double, nullable=False),  # until when the rate is used up
    sa.Column("cursor", sa.BigInteger, nullable=False),  # of the letter that was looked at last
    sa.Column("last", sa.BigInteger, nullable=False),  # of the last letter when it began: what comes back is not sent round
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("moved", sa.Integer, nullable=False),
    sa.Column("skipped", sa.Text, nullable=False),  # JSON: how many, by why
    _partial("uq_redrives_running", "state", unique=True, where="state = 'running'"),
)

redriven = sa.Table(
    "redriven",
    metadata,
    sa.Column("letter_id", sa.Text, primary_key=True),
    sa.Column("redrive_id", sa.Text, primary_key=True),
    sa.Column("task_id", sa.Text, nullable=False, index=True),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
)

blobs = sa.Table(
    "blobs",
    metadata,
    sa.Column("attempt_id", sa.Text, primary_key=True),  # one for each attempt: its whole result
    sa.Column("task_id", sa.Text, nullable=False),
    sa.Column("sha256", sa.Text, nullable=False, index=True),
    sa.Column("size", sa.BigInteger, nullable=False),
    sa.Column("received", sa.BigInteger, nullable=False),
    sa.Column("complete", sa.Boolean, nullable=False),  # all is there, and is what its digest says
    sa.Column("touched_at", sa.Double, nullable=False, index=True),
)

blob_pieces = sa.Table(
    "blob_pieces",
    metadata,
    sa.Column("attempt_id", sa.Text, primary_key=True),
    sa.Column("offset", sa.BigInteger, primary_key=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
