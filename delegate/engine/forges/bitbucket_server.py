"""Bitbucket Server and Data Center (developer.atlassian.com/server/bitbucket/rest): the core interface 1.0, and build statuses."""

from delegate.engine.forges.calls import Caller, ForgeAccess, list_of, number_of, text_of
from delegate.engine.forges.places import Place
from delegate.engine.forges.requests import CommitStatus, Forge, MergeRequest, NewMergeRequest, StatusState

_STATES = {StatusState.PENDING: "INPROGRESS", StatusState.SUCCEEDED: "SUCCESSFUL", StatusState.FAILED: "FAILED"}


class BitbucketServer(Forge):
    def __init__(self, place: Place, access: ForgeAccess) -> None:
        headers = {"Authorization": access.basic_or_bearer(), "X-Atlassian-Token": "no-check"}
        super().__init__(place, Caller(place.api, access, headers))
        self._pulls = f"/api/1.0/projects/{place.path.replace('/', '/repos/', 1)}/pull-requests"

    async def find(self, source_branch: str, target_branch: str) -> MergeRequest | None:
        query = {"direction": "OUTGOING", "at": f"refs/heads/{source_branch}", "state": "OPEN"}
        answer = await self._caller.get(self._pulls, **query)
        found = list_of(answer.get("values") if isinstance(answer, dict) else None, self._pulls)
        fitting = [each for each in found if text_of(each, "toRef", "id") == f"refs/heads/{target_branch}"]
        return _read(fitting[0]) if fitting else None

    async def _create(self, wanted: NewMergeRequest) -> MergeRequest:
        repository = {"slug": self._place.name, "project": {"key": self._place.owner}}
        body = {
            "title": wanted.title,
            "description": wanted.text,
            "fromRef": {"id": f"refs/heads/{wanted.source_branch}", "repository": repository},
            "toRef": {"id": f"refs/heads/{wanted.target_branch}", "repository": repository},
        }
        return _read(await self._caller.call("POST", self._pulls, body))

    async def comment(self, request: MergeRequest, text: str) -> None:
        await self._caller.call("POST", f"{self._pulls}/{request.number}/comments", {"text": text})

    async def close(self, request: MergeRequest) -> None:
        current = await self._caller.get(f"{self._pulls}/{request.number}")
        version = number_of(current, "version", "pull request")
        await self._caller.call("POST", f"{self._pulls}/{request.number}/decline?version={version}", {})

    async def set_status(self, commit: str, status: CommitStatus) -> None:
        body = {
            "state": _STATES[status.state],
            "key": status.name,
            "name": status.name,
            "description": status.short_text,
            "url": status.url or self._place.api,  # it wants one
        }
        await self._caller.call("POST", f"/build-status/1.0/commits/{commit}", body)


def _read(answer: object) -> MergeRequest:
    version = number_of(answer, "version", "pull request")
    return MergeRequest(number_of(answer, "id", "pull request"), text_of(answer, "links", "self", 0, "href"), version)
