"""What a prune has to be confirmed for: more is lost by one that nobody meant than by one that waits."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from delegate.model.plan import PlannedChange
from delegate.model.strict import Strict

_NAMED = 5


class PruneGuard(Strict, frozen=True):
    """A prune of at least `count` objects which are more than `share` percent of all wants to be confirmed."""

    share: Annotated[int, msgspec.Meta(ge=0, le=100)] = 50
    count: Annotated[int, msgspec.Meta(ge=1)] = 10


def asks_to_confirm(guard: PruneGuard, prunes: Sequence[PlannedChange], owned: int) -> str:
    """Why a prune wants to be confirmed, in words; empty where it doesn't. `owned` counts all that the Application owns."""
    if len(prunes) < guard.count or len(prunes) * 100 <= guard.share * owned:
        return ""
    named = ", ".join(str(prune.key) for prune in prunes[:_NAMED])
    more = f" and {len(prunes) - _NAMED} more" if len(prunes) > _NAMED else ""
    return f"{len(prunes)} of {owned} objects would be pruned ({named}{more}), more than {guard.share} % of them"
