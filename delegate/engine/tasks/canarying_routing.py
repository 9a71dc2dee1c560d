"""The load of one canary, as its router shifts it: never without authority, and read back."""

from delegate.engine.tasks.canarying_sets import Authority
from delegate.engine.traffic.errors import ForeignRouteError, RouteNotInForceError
from delegate.engine.traffic.routers import Router
from delegate.engine.traffic.services import preview_of
from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.loads import Load

_CLOSE_ENOUGH = 0.5


class Traffic:
    """What the journal's `routes` say is what is given back."""

    def __init__(self, router: Router, authority: Authority, namespace: str) -> None:
        self._router = router
        self._authority = authority
        self._namespace = namespace
        self.separates = router.separates

    async def prepare(self, journal: Journal) -> None:
        await self._router.prepare(journal.routes)

    async def shift(self, load: Load, journal: Journal) -> None:
        """Only to a set that bears it. Without a router the pods have shifted it already."""
        if self.separates:
            self._authority.check()
            await self._router.set_load(load, journal.routes)
            await self._read_back(load, journal)

    async def open_preview(self, journal: Journal) -> None:
        """Before anything is seen of them: the new pods are reachable by a Service of theirs. Without a router, or pods, there is none."""
        if self.separates and journal.count:
            self._authority.check()
            await self._router.open_preview(journal.routes)

    def preview(self, journal: Journal) -> str:
        """The host of that Service in its cluster; empty without a router."""
        name = preview_of(journal.routes) if self.separates else ""
        return f"{name}.{self._namespace}.svc" if name else ""

    async def mind(self, journal: Journal) -> None:
        """What is seen counts for the load that was wanted, and the new pods alone.

        Raises ForeignRouteError where somebody else has written another load, or led the preview elsewhere.
        """
        if words := await self._foreign_hand(journal):
            raise ForeignRouteError(
                f"somebody else shifts the load of {journal.workload}: {words}",
                hint="let nobody else write the route (a GitOps tool has to ignore its weights), then resume or cancel the task",
            )

    async def renew(self, journal: Journal) -> None:
        """The journal's load again, and its preview, whatever somebody else has made of them: at the word of who resumes."""
        if await self._foreign_hand(journal):
            self._authority.check()
            await self._router.restore(journal.routes)
            await self.shift(journal.load, journal)
            await self.open_preview(journal)

    async def take_back(self, journal: Journal) -> None:
        """After this no load goes to the new version."""
        await self._router.restore(journal.routes)
        await self._read_back(Load(), journal)

    async def clear(self, journal: Journal) -> None:
        """After the drain."""
        await self._router.clear(journal.routes)

    async def _foreign_hand(self, journal: Journal) -> str:
        """What of it reads otherwise; empty for nothing."""
        if not self.separates:
            return ""
        return await self._difference(journal.load, journal) or await self._router.preview_strays(journal.routes)

    async def _read_back(self, load: Load, journal: Journal) -> None:
        if words := await self._difference(load, journal):
            raise RouteNotInForceError(words, hint="see who else writes the route")

    async def _difference(self, load: Load, journal: Journal) -> str:
        """How what stands is not this load; empty where it is, or nobody can tell."""
        stands = await self._router.read_load(journal.routes)
        if stands is None:
            return ""
        if abs(stands.weight - load.weight) > _CLOSE_ENOUGH:
            return f"the weight reads {stands.weight:g}% after {load.weight:g}% was written"
        if stands.header_routes != load.header_routes:
            return f"the header routes read {_listed(stands)} after {_listed(load)} were written"
        return ""


def _listed(load: Load) -> str:
    return ", ".join(load.names) or "none"
