"""What the demo holds every chapter to: what it says is looked up, and the first thing that isn't so ends the story."""

from collections.abc import Iterable

from delegate.demo.errors import UnexpectedError
from delegate.demo.stages import NAMESPACE, Stage
from delegate.model.resources import JsonObject
from delegate.model.results import Action, Change, TaskResult


def expect(what: str, found: object, expected: object, because: Iterable[str] = ()) -> None:
    """Raises UnexpectedError where they differ."""
    if found != expected:
        reasons = "".join(f"; {reason}" for reason in because)
        raise UnexpectedError(f"{what}: expected {expected!r}, found {found!r}{reasons}")


async def look_up(stage: Stage, place: str) -> JsonObject:
    """An object of the demo's namespace, as the cluster has it. Raises UnexpectedError where there is none."""
    found = await stage.cluster.read(place)
    if found is None:
        raise UnexpectedError(f"the cluster has no {place} in namespace {NAMESPACE}")
    return found


def find_change(result: TaskResult, kind: str, name: str, path: str) -> Change:
    """What a result says of one field. Raises UnexpectedError where it says nothing."""
    changed = [each for each in result.resources if each.action is Action.CONFIGURED and (each.kind, each.name) == (kind, name)]
    for change in (change for each in changed for change in each.changes):
        if change.path == path:
            return change
    raise UnexpectedError(f"the result names no change of {path} in {kind} {name}")
