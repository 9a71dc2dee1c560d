"""Gitea and Forgejo, interface v1 (docs.gitea.com/api)."""

from urllib.parse import quote

from delegate.engine.forges.calls import Caller, ForgeAccess, list_of, text_of
from delegate.engine.forges.errors import ForgeNotFoundError
from delegate.engine.forges.github import pull_body, read_pull
from delegate.engine.forges.places import Place
from delegate.engine.forges.requests import CommitStatus, Forge, MergeRequest, NewMergeRequest, StatusState

_STATES = {StatusState.PENDING: "pending", StatusState.SUCCEEDED: "success", StatusState.FAILED: "failure"}


class Gitea(Forge):
    def __init__(self, place: Place, access: ForgeAccess) -> None:
        super().__init__(place, Caller(place.api, access, {"Authorization": access.header("token")}))
        self._repository = f"/repos/{place.path}"

    async def find(self, source_branch: str, target_branch: str) -> MergeRequest | None:
        branches = f"{quote(target_branch, safe='')}/{quote(source_branch, safe='')}"
        try:
            found = await self._caller.get(f"{self._repository}/pulls/{branches}")
        except ForgeNotFoundError:
            found = None  # there is none, or the server is older than 1.22 and doesn't know the question
        if text_of(found, "state") == "open":
            return read_pull(found)
        listed = list_of(await self._caller.get(f"{self._repository}/pulls", state="open", sort="recentupdate", limit="50"), "pulls")
        fitting = [
            each for each in listed if (text_of(each, "head", "ref"), text_of(each, "base", "ref")) == (source_branch, target_branch)
        ]
        return read_pull(fitting[0]) if fitting else None

    async def _create(self, wanted: NewMergeRequest) -> MergeRequest:
        return read_pull(await self._caller.call("POST", f"{self._repository}/pulls", pull_body(wanted)))

    async def comment(self, request: MergeRequest, text: str) -> None:
        await self._caller.call("POST", f"{self._repository}/issues/{request.number}/comments", {"body": text})

    async def close(self, request: MergeRequest) -> None:
        await self._caller.call("PATCH", f"{self._repository}/pulls/{request.number}", {"state": "closed"})

    async def set_status(self, commit: str, status: CommitStatus) -> None:
        body = {"state": _STATES[status.state], "context": status.name, "description": status.short_text, "target_url": status.url}
        await self._caller.call("POST", f"{self._repository}/statuses/{commit}", body)
