"""GitLab, interface v4 (docs.gitlab.com: api/merge_requests, api/notes, api/commits "Set commit pipeline status")."""

from delegate.engine.forges.calls import Caller, ForgeAccess, list_of, number_of, text_of
from delegate.engine.forges.places import Place
from delegate.engine.forges.requests import CommitStatus, Forge, MergeRequest, NewMergeRequest, StatusState

_STATES = {StatusState.PENDING: "pending", StatusState.SUCCEEDED: "success", StatusState.FAILED: "failed"}


class Gitlab(Forge):
    def __init__(self, place: Place, access: ForgeAccess) -> None:
        super().__init__(place, Caller(place.api, access, {"Authorization": access.header()}))
        self._project = f"/projects/{place.quoted_path}"

    async def find(self, source_branch: str, target_branch: str) -> MergeRequest | None:
        query = {"state": "opened", "source_branch": source_branch, "target_branch": target_branch}
        found = list_of(await self._caller.get(f"{self._project}/merge_requests", **query), self._project)
        return _read(found[0]) if found else None

    async def _create(self, wanted: NewMergeRequest) -> MergeRequest:
        body = {
            "source_branch": wanted.source_branch,
            "target_branch": wanted.target_branch,
            "title": wanted.title,
            "description": wanted.text,
            "remove_source_branch": True,
        }
        return _read(await self._caller.call("POST", f"{self._project}/merge_requests", body))

    async def comment(self, request: MergeRequest, text: str) -> None:
        await self._caller.call("POST", f"{self._project}/merge_requests/{request.number}/notes", {"body": text})

    async def close(self, request: MergeRequest) -> None:
        await self._caller.call("PUT", f"{self._project}/merge_requests/{request.number}", {"state_event": "close"})

    async def set_status(self, commit: str, status: CommitStatus) -> None:
        body = {"state": _STATES[status.state], "name": status.name, "description": status.short_text}
        if status.url:
            body["target_url"] = status.url
        await self._caller.call("POST", f"{self._project}/statuses/{commit}", body)


def _read(answer: object) -> MergeRequest:
    return MergeRequest(number_of(answer, "iid", "merge request"), text_of(answer, "web_url"))
