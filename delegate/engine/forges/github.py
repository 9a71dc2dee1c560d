"""GitHub and what speaks like it (docs.github.com: rest/pulls, rest/issues/comments, rest/commits/statuses)."""

from delegate.engine.forges.calls import Caller, ForgeAccess, list_of, number_of, text_of
from delegate.engine.forges.places import Place
from delegate.engine.forges.requests import CommitStatus, Forge, MergeRequest, NewMergeRequest, StatusState

_STATES = {StatusState.PENDING: "pending", StatusState.SUCCEEDED: "success", StatusState.FAILED: "failure"}


class Github(Forge):
    def __init__(self, place: Place, access: ForgeAccess) -> None:
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28", "Authorization": access.header()}
        super().__init__(place, Caller(place.api, access, headers))
        self._repository = f"/repos/{place.path}"

    async def find(self, source_branch: str, target_branch: str) -> MergeRequest | None:
        query = {"state": "open", "head": f"{self._place.owner}:{source_branch}", "base": target_branch}
        found = list_of(await self._caller.get(f"{self._repository}/pulls", **query), self._repository)
        # A head that the server can't read is left out of its filter.
        fitting = [each for each in found if text_of(each, "head", "ref") == source_branch]
        return read_pull(fitting[0]) if fitting else None

    async def _create(self, wanted: NewMergeRequest) -> MergeRequest:
        return read_pull(await self._caller.call("POST", f"{self._repository}/pulls", pull_body(wanted)))

    async def comment(self, request: MergeRequest, text: str) -> None:
        await self._caller.call("POST", f"{self._repository}/issues/{request.number}/comments", {"body": text})

    async def close(self, request: MergeRequest) -> None:
        await self._caller.call("PATCH", f"{self._repository}/pulls/{request.number}", {"state": "closed"})

    async def set_status(self, commit: str, status: CommitStatus) -> None:
        body = {"state": _STATES[status.state], "context": status.name, "description": status.short_text}
        if status.url:
            body["target_url"] = status.url
        await self._caller.call("POST", f"{self._repository}/statuses/{commit}", body)


def pull_body(wanted: NewMergeRequest) -> dict[str, object]:
    return {"title": wanted.title, "head": wanted.source_branch, "base": wanted.target_branch, "body": wanted.text}


def read_pull(answer: object) -> MergeRequest:
    return MergeRequest(number_of(answer, "number", "pull request"), text_of(answer, "html_url"))
