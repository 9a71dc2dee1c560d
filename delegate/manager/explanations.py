"""Why a task is still queued, in words. Pure: what is asked here is what the hand-out goes by, in the same order."""

from collections.abc import Sequence

import msgspec

from delegate.manager.clocks import to_rfc3339
from delegate.manager.selectors import matches, missing, show_labels

_NAMED = 3


class HeldBack(msgspec.Struct, frozen=True, kw_only=True):
    """A limit that leaves nothing: `what` it holds for, how many it lets run, who runs, and how many come first."""

    what: str
    most: int
    running: tuple[str, ...] = ()
    ahead: int = 0


class WaitingTask(msgspec.Struct, frozen=True, kw_only=True):
    """`cluster_uid` None: unknown yet; empty: none needed. `ahead` is the task that goes first, and whether it runs. `alone`: it lost
    its delegate again and again, and runs beside no other such task."""

    kind: str
    application: str
    selector: dict[str, str]
    destination: str
    cluster_uid: str | None
    ready_at: float
    requeues: int = 0
    message: str = ""
    ahead: str = ""
    ahead_runs: bool = False
    held_back: HeldBack | None = None
    alone: bool = False


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A delegate that is not revoked. `kinds` are those that it does, `scoped` those that its token allows; `suspects`
    counts the tasks it runs that lost their delegates before."""

    name: str
    connected: bool
    draining: bool = False
    labels: dict[str, str] = {}
    kinds: frozenset[str] = frozenset()
    scoped: frozenset[str] = frozenset()
    clusters: dict[str, str] = {}
    capacity: int = 0
    running: int = 0
    suspects: int = 0

    @property
    def full(self) -> bool:
        return self.running >= self.capacity > 0


def explain_waiting(task: WaitingTask, delegates: Sequence[Candidate], now: float) -> str:
    """One sentence, without a full stop."""
    if task.ahead:
        verb = "holds" if task.ahead_runs else "is ahead for"
        return f"waiting for task {task.ahead}, which {verb} application {task.application}"
    if task.ready_at > now:
        why = f": {task.message}" if task.message else ""
        count = f" (requeue {task.requeues})" if task.requeues else ""
        return f"backing off until {to_rfc3339(task.ready_at)}{count}{why}"
    if task.held_back is not None:
        return _behind(task.held_back)
    return _unfitting(task, delegates) or _occupied(task, _fitting(task, delegates))


def explain_unroutable(task: WaitingTask, delegates: Sequence[Candidate]) -> str:
    """Why none could; empty where one could."""
    return _unfitting(task, delegates)


def _behind(held: HeldBack) -> str:
    if not held.most:
        return f"{held.what} is paused (limit 0)"
    number = len(held.running) + held.ahead
    tasks = "task" if number == 1 else "tasks"
    shown = ", ".join(held.running[:_NAMED]) + (f" and {len(held.running) - _NAMED} more" if len(held.running) > _NAMED else "")
    verb = "runs" if len(held.running) == 1 else "run"
    first = f", {held.ahead} more come first" if held.ahead > 1 else ", 1 more comes first" if held.ahead else ""
    return f"waiting behind {number} {tasks} of {held.what} (limit {held.most}): {shown} {verb}{first}"


def _unfitting(task: WaitingTask, delegates: Sequence[Candidate]) -> str:
    connected = [each for each in delegates if each.connected]
    if not connected:
        known = f"; {_names(delegates)} {'is' if len(delegates) == 1 else 'are'} disconnected" if delegates else ""
        return f"no delegate is connected{known}"
    labelled = [each for each in connected if matches(task.selector, each.labels)]
    if not labelled:
        return _lacking(task, connected)
    reaching = _reaching(task, labelled)
    if not reaching:
        return _unreached(task, labelled, delegates)
    return "" if any(task.kind in each.kinds for each in reaching) else _unable(task, reaching)


def _fitting(task: WaitingTask, delegates: Sequence[Candidate]) -> list[Candidate]:
    labelled = [each for each in delegates if each.connected and matches(task.selector, each.labels)]
    return [each for each in _reaching(task, labelled) if task.kind in each.kinds]


def _occupied(task: WaitingTask, able: Sequence[Candidate]) -> str:
    working = [each for each in able if not each.draining]
    if not working:
        return f"{_all(able)} draining"
    if all(each.full for each in working):
        taken = sum(each.running for each in working)
        return f"{_all(working)} full ({taken} of {sum(each.capacity for each in working)} slots taken)"
    if task.alone and all(each.suspects for each in working):
        return f"it lost its delegate {task.requeues} times, so that it waits until no other such task runs at {_names(working)}"
    return f"ready: {_names([each for each in working if not each.full])} gets it with the next poll"


def _all(delegates: Sequence[Candidate]) -> str:
    if len(delegates) == 1:
        return f"the only fitting delegate, {delegates[0].name}, is"
    return f"all {len(delegates)} fitting delegates are"


def _names(delegates: Sequence[Candidate]) -> str:
    shown = ", ".join(each.name for each in delegates[:_NAMED])
    return shown + (f" and {len(delegates) - _NAMED} more" if len(delegates) > _NAMED else "")


def _lacking(task: WaitingTask, connected: Sequence[Candidate]) -> str:
    nearest = min(connected, key=lambda each: len(missing(task.selector, each.labels)))
    lacks = show_labels(missing(task.selector, nearest.labels))
    return f"no connected delegate has {show_labels(task.selector)} (nearest: {nearest.name} lacks {lacks})"


def _reaching(task: WaitingTask, labelled: Sequence[Candidate]) -> list[Candidate]:
    if task.cluster_uid == "":
        return list(labelled)
    if task.cluster_uid is None:
        return []
    return [each for each in labelled if task.cluster_uid in each.clusters.values()]


def _unreached(task: WaitingTask, labelled: Sequence[Candidate], delegates: Sequence[Candidate]) -> str:
    among = f" with {show_labels(task.selector)}" if task.selector else ""
    if task.cluster_uid is not None:
        away = [each for each in delegates if task.cluster_uid in each.clusters.values() and not each.connected]
        where = f"cluster {task.destination or task.cluster_uid}"
        if away:
            return f"{where} is reached by {_names(away)} alone, which {'is' if len(away) == 1 else 'are'} disconnected"
        return f"no connected delegate{among} reaches {where} (uid {task.cluster_uid})"
    uids = {uid for each in labelled for name, uid in each.clusters.items() if task.destination in ("", name)}
    if len(uids) > 1:
        what = f"destination {task.destination!r}" if task.destination else "a task without a destination"
        return f"{what} fits {len(uids)} clusters{among}; submit it again with a selector that leaves one"
    known = sorted({name for each in labelled for name in each.clusters})
    names = f"known are {', '.join(known[:10])}" if known else "none is known"
    what = f"a cluster named {task.destination!r}" if task.destination else "any cluster"
    return f"no connected delegate{among} knows {what} ({names})"


def _unable(task: WaitingTask, reaching: Sequence[Candidate]) -> str:
    unscoped = [each for each in reaching if task.kind not in each.scoped]
    if len(unscoped) == len(reaching):
        token = "the token of" if len(unscoped) == 1 else "the tokens of"
        lacks = "lacks" if len(unscoped) == 1 else "lack"
        return f"{token} {_names(unscoped)} {lacks} the scope {task.kind}"
    return f"no fitting delegate does {task.kind} tasks ({_names(reaching)})"
