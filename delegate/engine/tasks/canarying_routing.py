"""The load of one canary, as its router shifts it: never without authority, and read back."""

from delegate.engine.tasks.canarying_sets import Authority
from delegate.engine.traffic.errors import RouteNotInForceError
from delegate.engine.traffic.routers import Router
from delegate.model.rollouts.journals import Journal

_CLOSE_ENOUGH = 0.5


class Traffic:
    """What the journal's `routes` say is what is given back."""

    def __init__(self, router: Router, authority: Authority) -> None:
        self._router = router
        self._authority = authority
        self.separates = router.separates

    async def prepare(self, journal: Journal) -> None:
        await self._router.prepare(journal.routes)

    async def shift(self, weight: float, journal: Journal) -> None:
        """A weight, only to a set that bears it. Without a router the pods have shifted it already."""
        if self.separates:
            self._authority.check()
            await self._router.set_weight(weight, journal.routes)
            await self._read_back(weight)

    async def take_back(self, journal: Journal) -> None:
        """After this no load goes to the new version."""
        await self._router.restore(journal.routes)
        await self._read_back(0.0)

    async def clear(self) -> None:
        """After the drain."""
        await self._router.clear()

    async def _read_back(self, weight: float) -> None:
        stands = await self._router.read_weight()
        if stands is not None and abs(stands - weight) > _CLOSE_ENOUGH:
            raise RouteNotInForceError(f"the weight reads {stands:g}% after {weight:g}% was written", hint="see who else writes the route")
