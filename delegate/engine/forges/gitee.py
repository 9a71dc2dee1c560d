"""Gitee, interface v5 (gitee.com/api/v5/swagger): as GitHub's, but for comments and statuses, which are check runs there."""

from delegate.engine.forges.calls import Caller, ForgeAccess, list_of, text_of
from delegate.engine.forges.github import pull_body, read_pull
from delegate.engine.forges.places import Place
from delegate.engine.forges.requests import CommitStatus, Forge, MergeRequest, NewMergeRequest, StatusState

_CONCLUSIONS = {StatusState.SUCCEEDED: "success", StatusState.FAILED: "failure"}


class Gitee(Forge):
    def __init__(self, place: Place, access: ForgeAccess) -> None:
        super().__init__(place, Caller(place.api, access, {"Authorization": access.header()}))
        self._repository = f"/repos/{place.path}"

    async def find(self, source_branch: str, target_branch: str) -> MergeRequest | None:
        query = {"state": "open", "head": source_branch, "base": target_branch}
        found = list_of(await self._caller.get(f"{self._repository}/pulls", **query), self._repository)
        fitting = [each for each in found if text_of(each, "head", "ref") == source_branch]
        return read_pull(fitting[0]) if fitting else None

    async def _create(self, wanted: NewMergeRequest) -> MergeRequest:
        body = pull_body(wanted) | {"prune_source_branch": True}
        return read_pull(await self._caller.call("POST", f"{self._repository}/pulls", body))

    async def comment(self, request: MergeRequest, text: str) -> None:
        await self._caller.call("POST", f"{self._repository}/pulls/{request.number}/comments", {"body": text})

    async def close(self, request: MergeRequest) -> None:
        await self._caller.call("PATCH", f"{self._repository}/pulls/{request.number}", {"state": "closed"})

    async def set_status(self, commit: str, status: CommitStatus) -> None:
        body: dict[str, object] = {"name": status.name, "head_sha": commit, "status": "in_progress"}
        if status.state in _CONCLUSIONS:
            body |= {"status": "completed", "conclusion": _CONCLUSIONS[status.state]}
        if status.url:
            body["details_url"] = status.url
        if status.text:
            body["output"] = {"title": status.name, "summary": status.short_text}
        await self._caller.call("POST", f"{self._repository}/check-runs", body)
