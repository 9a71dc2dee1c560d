"""What the API shows: tasks, attempts, delegates, tokens, events, history. camelCase on the wire, times in RFC 3339."""

import msgspec

from delegate.model.resources import JsonObject


class View(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The base of everything that is shown."""


class DestinationView(View, frozen=True, kw_only=True):
    """`clusterUid` is empty where the task needs no cluster, null while no delegate is known to reach it."""

    name: str = ""
    cluster_uid: str | None = None


class PauseView(View, frozen=True, kw_only=True):
    """`number` is what a resumption names; `step` is the one that it stands at. `until` is empty where it lasts until somebody says so.
    A pause that is `held` waits for a decision, and `reason` says why."""

    number: int
    step: int
    since: str
    until: str = ""
    held: bool = False
    reason: str = ""


class TaskSummary(View, frozen=True, kw_only=True):
    """`state` is queued, running or finished; a finished task has an `outcome`. `message` says how it ended, or why it waits
    for another attempt. `attempts` counts hand-outs that began. `stopRequested`: cancel, superseded or deadline, while its
    delegate has not answered. `quarantined`: it was given up because it lost its delegate again and again, and would take others
    with it; trying it again is somebody's decision. `paused`: where a running task waits, null while it is on its way."""

    id: str
    kind: str
    application: str
    state: str
    outcome: str = ""
    message: str = ""
    environment: str = ""
    destination: DestinationView
    selector: dict[str, str] = {}
    priority: int = 0
    attempts: int = 0
    requeues: int = 0
    delegate: str = ""
    stop_requested: str = ""
    submitted_by: str = ""
    created_at: str
    started_at: str = ""
    deadline_at: str = ""
    finished_at: str = ""
    retry_of: str = ""
    superseded_by: str = ""
    concurrency_key: str = ""
    quarantined: bool = False
    paused: PauseView | None = None


class AttemptView(View, frozen=True, kw_only=True):
    """One hand-out. `state` is active, expired, unseen, released, finished or lost."""

    id: str
    number: int
    fence: int
    delegate_id: str
    delegate: str
    state: str
    outcome: str = ""
    reason: str = ""
    started_at: str
    ended_at: str = ""
    lease_seconds_left: float | None = None
    reported_state: str = ""


class TaskView(View, frozen=True, kw_only=True):
    """`whyQueued` is empty unless the task is queued, and in the answer to a submission; `result` is null until there is one."""

    task: TaskSummary
    why_queued: str = ""
    document: JsonObject
    attempts: tuple[AttemptView, ...] = ()
    result: JsonObject | None = None


class TaskList(View, frozen=True, kw_only=True):
    """The newest first. `continue` is given back to get the next ones; empty at the end."""

    items: tuple[TaskSummary, ...]
    continue_: str = msgspec.field(default="", name="continue")


class WhyView(View, frozen=True, kw_only=True):
    """`why` is one sentence, empty unless the task is queued."""

    id: str
    state: str
    why: str = ""


class LimitView(View, frozen=True, kw_only=True):
    """`kind` is environment, cluster (`name` is then the uid) or key; `running` counts the tasks that run under it now."""

    kind: str
    name: str
    max_parallel: int
    running: int = 0
    set_by: str = ""
    set_at: str = ""


class LimitList(View, frozen=True, kw_only=True):
    items: tuple[LimitView, ...]


class CancelView(View, frozen=True, kw_only=True):
    """`effect`: cancelled, cancel_requested (the delegate was told), or already_finished."""

    effect: str
    task: TaskSummary


class ResumeView(View, frozen=True, kw_only=True):
    """`effect`: resume_requested (the delegate is told), or already_resumed (that pause was over before)."""

    effect: str
    task: TaskSummary


class EventView(View, frozen=True, kw_only=True):
    id: int
    attempt_id: str
    sequence: int
    at: str
    event: str
    data: JsonObject = {}


class EventList(View, frozen=True, kw_only=True):
    """`next` is the value of `after` for the next call. `finished`: the task has ended and no more will come."""

    items: tuple[EventView, ...]
    next: int
    finished: bool


class HistoryEntry(View, frozen=True, kw_only=True):
    at: str
    actor: str
    operation: str
    attempt_id: str = ""
    detail: JsonObject = {}


class HistoryList(View, frozen=True, kw_only=True):
    items: tuple[HistoryEntry, ...]


class DelegateView(View, frozen=True, kw_only=True):
    """`health` is Healthy or Unhealthy, with `reasons`; `connection` is Connected or Disconnected."""

    id: str
    name: str
    instance: str
    health: str
    connection: str
    reasons: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    kinds: tuple[str, ...] = ()
    clusters: dict[str, str] = {}
    capacity: int = 0
    running: int = 0
    free_slots: int = 0
    draining: bool = False
    duplicate_identity: bool = False
    outbox_entries: int = 0
    version: str = ""
    python: str = ""
    protocol: int = 0
    epoch: int = 0
    token: str = ""
    enrolled_at: str
    heartbeat_at: str = ""
    heartbeat_seconds_ago: float | None = None
    revoked_at: str = ""


class DelegateList(View, frozen=True, kw_only=True):
    items: tuple[DelegateView, ...]


class TokenView(View, frozen=True, kw_only=True):
    """`state` is active, expired, used_up or revoked. The secret itself is never shown again."""

    id: str
    name: str
    state: str
    scopes: tuple[str, ...]
    labels: dict[str, str] = {}
    description: str = ""
    created_by: str = ""
    created_at: str
    expires_at: str = ""
    revoked_at: str = ""
    uses: int = 0
    max_uses: int | None = None
    last_used_at: str = ""


class TokenList(View, frozen=True, kw_only=True):
    items: tuple[TokenView, ...]


class NewTokenView(View, frozen=True, kw_only=True):
    """`secret` is shown this once."""

    token: TokenView
    secret: str
