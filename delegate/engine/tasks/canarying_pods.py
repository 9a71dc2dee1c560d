"""How the pods of a new version come about, as the driver of a canary asks for it.

The driver knows steps, evidence, holds and the journal; what stands beside or inside the stable set is whoever's who implements this. All
of it may be asked for again after a crash, and then finds its work done.
"""

from typing import Protocol

from delegate.engine.tasks.canarying_sets import Wait
from delegate.model.resources import JsonObject
from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.shares import Share


class NewPods(Protocol):
    """The new version's pods, and the way back from them."""

    kind: str
    name: str
    """Of the workload whose newest revision the new pods are."""

    counts_pods: bool
    """Whether what is counted in the journal are pods."""

    def share_of(self, stable: JsonObject, journal: Journal, weight: float) -> Share:
        """The share that is reached for a weight. Raises UnreachableShareError."""

    async def size(self, stable: JsonObject, count: int) -> None:
        """Has as many new pods wanted. The journal says so already."""

    async def await_ready(self, count: int, wait: Wait) -> None:
        """Raises CanaryUnreadyError, early where it is known that they don't come up."""

    async def restarts(self) -> int:
        """How often containers of the new pods have been restarted."""

    async def check(self, stable: JsonObject, journal: Journal) -> int | None:
        """How many new pods serve now; None where its own controller minds that.

        Raises CanaryFailedError, ForeignSetError where it isn't as the journal says: a hand of somebody else.
        """

    def covering(self, stable: JsonObject) -> int:
        """How many new pods have to stand while the stable set is rolled over; 0 where that is not theirs to do."""

    async def fill(self, journal: Journal, wait: Wait) -> None:
        """Before a source is synced as a whole: has each pod that would read what the sync changes be a new one.

        Nothing where the stable set keeps its pods until then. Raises CanaryUnreadyError, CanaryFailedError.
        """

    async def promote(self, journal: Journal) -> None:
        """Has the stable set take the new version; where a sync has brought it, what that leaves to do."""

    async def await_promoted(self, wait: Wait) -> None:
        """Until the new version is all that runs. Raises CanaryUnreadyError, CanaryFailedError."""

    async def restore(self, journal: Journal, wait: Wait) -> None:
        """The stable set as it was, able to bear all of the load, and read back. Nothing where it was never changed."""

    async def remove(self, seconds: float) -> None:
        """Takes away what stands beside the stable set, and waits until it is gone."""
