"""What the manager goes by. The settings of the program are in `foundation.settings`; these are the values derived from them."""

import msgspec

_COME_BACK_A_SECOND = 20
_LEAST_COME_BACK_SECONDS = 1.0


class Rhythm(msgspec.Struct, frozen=True, kw_only=True):
    """Every duration and count of the queue. All durations are seconds; tests use fractions of them."""

    lease_seconds: float = 45.0
    """Life of a lease since the last heartbeat that named the attempt."""
    heartbeat_seconds: float = 10.0
    """Interval that delegates are asked to report in."""
    poll_seconds: float = 45.0
    """Longest time that a poll is held open; below what proxies cut."""
    grace_seconds: float = 45.0
    """After a start no lease ends before that, so that delegates can come back."""
    requeues: int = 5
    """Times that a task is handed out again after its delegate was lost."""
    requeue_base_seconds: float = 1.0
    """First wait before it is; doubled each time."""
    requeue_max_seconds: float = 60.0
    """Cap of that wait."""
    sweep_seconds: float = 1.0
    """Interval of the sweep that ends leases and deadlines; also the safety net under every wake-up."""
    verdict_grace_seconds: float = 60.0
    """How long after a deadline verdict the delegate's own result is waited for before the task ends as timed_out."""
    winding_seconds: float = 3600.0
    """The same where the task has to take back first what it did (a canary)."""
    session_token_seconds: float = 900.0
    """Life of a session token."""
    refresh_token_seconds: float = 90 * 86400.0
    """Life of a refresh token that is not used; each use renews it."""
    attempt_token_seconds: float = 86400.0
    """How long after the task's deadline a result is still authorized by its attempt token."""
    request_memory_seconds: float = 600.0
    """How long a retry of an acquire with the same request id gets the same batch."""
    delegate_memory_seconds: float = 86400.0
    """How long the clusters of a delegate that is away still count when a destination is resolved."""
    keep_tasks_seconds: float = 30 * 86400.0
    """How long finished tasks are kept, with their attempts, results, events and history."""
    keep_tasks: int = 100_000
    """How many of them are kept; the oldest go first."""
    keep_letters_seconds: float = 90 * 86400.0
    """How long the index of dead letters holds one."""
    keep_letters: int = 200_000
    """How many of them."""
    unroutable_seconds: float = 86400.0
    """How long a task waits that no connected delegate could take, before it ends as refused."""
    ageing_seconds: float = 60.0
    """One step of priority outweighs that much waiting, so that the lowest priority never starves."""

    def come_back_seconds(self, delegates: int) -> float:
        """Over how long so many delegates shall come back when the manager was away: twenty in a second, all between two heartbeats."""
        return min(self.heartbeat_seconds, max(_LEAST_COME_BACK_SECONDS, delegates / _COME_BACK_A_SECOND))

    @property
    def connected_seconds(self) -> float:
        """How old the last sign of life of a connected delegate may be."""
        return 3 * self.heartbeat_seconds

    def requeue_wait(self, requeues: int) -> float:
        """The wait before hand-out number `requeues` + 1, `requeues` counting from 1."""
        return float(min(self.requeue_max_seconds, self.requeue_base_seconds * 2 ** min(requeues - 1, 30)))


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of what a request may carry and a table may grow to."""

    document_bytes: int = 2**20
    events_per_attempt: int = 1000
    event_bytes: int = 16 * 2**10
    page_size: int = 500
    batch_tasks: int = 128
    """Most tasks in one answer. A delegate with more free slots asks again at once, and works on the first ones meanwhile."""
    attempts_named: int = 10_000
    """Most attempts that one message may name."""
    labels: int = 64
    clusters: int = 256
    batch_bytes: int = 4 * 2**20
    """Most bytes of documents in one answer, below what a delegate reads of one; a single task always fits."""
    blob_bytes: int = 64 * 2**20
    """Largest result."""
    all_blob_bytes: int = 2 * 2**30
    """All results that are too large for one call, together."""
    header_seconds: float = 30.0
    """How long a client may take to send a request."""
