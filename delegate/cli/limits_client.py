"""The calls of `delegate limits`."""

from urllib.parse import quote

from delegate.cli.manager_client import ManagerClient
from delegate.manager.views import LimitList, LimitView


class LimitsClient(ManagerClient):
    """Calls about limits, while the context is entered."""

    async def list_limits(self) -> LimitList:
        return await self._call("GET", "/api/v1/limits", LimitList)

    async def set_limit(self, kind: str, name: str, most: int) -> LimitView:
        return await self._call("PUT", f"/api/v1/limits/{kind}/{quote(name, safe='')}", LimitView, body={"maxParallel": most})

    async def remove_limit(self, kind: str, name: str) -> LimitList:
        """The limits that are left. Made once: a repeated call would not find it any more."""
        return await self._call("DELETE", f"/api/v1/limits/{kind}/{quote(name, safe='')}", LimitList, repeat=False)
