"""The demo's look into the cluster, and the hand that meddles with it: plain requests to its API, past the delegate."""

from types import TracebackType
from typing import Self

import aiohttp
import msgspec

from delegate.demo.errors import DemoError
from delegate.model.resources import JsonObject

_CALL = aiohttp.ClientTimeout(total=10.0)


class ClusterView:
    """Reads and patches objects of one namespace, by the path below it: `deployments/web`."""

    def __init__(self, url: str, token: str, namespace: str) -> None:
        self._url = url
        self._namespace = namespace
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}, timeout=_CALL)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._session.close()

    async def read(self, place: str) -> JsonObject | None:
        """The object, or list; None where there is none."""
        async with self._session.get(self._address(place)) as answer:
            document = await answer.json(content_type=None)
            if answer.status == 404:
                return None
            return _checked(answer.status, place, document)

    async def patch(self, place: str, change: JsonObject, manager: str) -> JsonObject:
        """A merge patch in the name of a field manager, as `kubectl edit` sends it."""
        body = msgspec.json.encode(change)
        headers = {"Content-Type": "application/merge-patch+json"}
        async with self._session.patch(self._address(place), params={"fieldManager": manager}, data=body, headers=headers) as answer:
            return _checked(answer.status, place, await answer.json(content_type=None))

    async def versions(self) -> dict[str, str]:
        """The version of every object that the application could have: equal before and after, if nobody wrote.

        Where an object has a generation that is it: its controllers may still be writing its status.
        """
        found: dict[str, str] = {}
        for plural in ("configmaps", "secrets", "services", "serviceaccounts", "deployments"):
            listed = await self.read(plural)
            assert listed is not None
            for item in listed["items"]:
                metadata = item["metadata"]
                found[f"{plural}/{metadata['name']}"] = str(metadata.get("generation") or metadata["resourceVersion"])
        return found

    def _address(self, place: str) -> str:
        api = "apis/apps/v1" if place.startswith(("deployments", "replicasets")) else "api/v1"
        return f"{self._url}/{api}/namespaces/{self._namespace}/{place}"


def _checked(status: int, place: str, document: object) -> JsonObject:
    if status >= 400 or not isinstance(document, dict):
        raise DemoError(f"the simulated cluster answered {status} for {place}: {document}")
    return document
