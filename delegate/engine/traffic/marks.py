"""What a route says of the canaries that go through it, in one annotation: by workload, the last load and the fence it was written under.

Whoever finds weights or header rules that the mark does not explain knows that somebody else wrote them, and a mark of a higher fence
tells a late writer.
"""

import msgspec

from delegate.model.resources import JsonObject
from delegate.model.rollouts.loads import HeaderRoute, Load

MARK_ANNOTATION = "delegate.gitops/canaries"


class Mark(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`weight` in percent of the new version."""

    fence: int
    weight: float
    header_routes: tuple[HeaderRoute, ...] = ()

    @property
    def load(self) -> Load:
        return Load(self.weight, self.header_routes)


def mark_for(fence: int, load: Load) -> Mark:
    return Mark(fence, load.weight, load.header_routes)


def mark_of(body: JsonObject, workload: str) -> Mark | None:
    """None where there is none, or none that can be read."""
    return _marks(body).get(workload)


def marked(body: JsonObject, workload: str, mark: Mark | None) -> JsonObject:
    """The body with this mark of a workload, or without one; the marks of others stay."""
    marks = {name: each for name, each in _marks(body).items() if name != workload}
    if mark is not None:
        marks[workload] = mark
    metadata = dict(body.get("metadata") or {})
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(MARK_ANNOTATION, None)
    if marks:
        annotations[MARK_ANNOTATION] = msgspec.json.encode(marks, order="sorted").decode()
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return {**body, "metadata": metadata}


def _marks(body: JsonObject) -> dict[str, Mark]:
    text = ((body.get("metadata") or {}).get("annotations") or {}).get(MARK_ANNOTATION, "")
    try:
        return msgspec.json.decode(str(text), type=dict[str, Mark]) if text else {}
    except (msgspec.DecodeError, msgspec.ValidationError):
        return {}
