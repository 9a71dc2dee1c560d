"""Bitbucket Cloud, interface 2.0 (developer.atlassian.com/cloud/bitbucket/rest)."""

from delegate.engine.forges.calls import Caller, ForgeAccess, list_of, number_of, text_of
from delegate.engine.forges.places import Place
from delegate.engine.forges.requests import CommitStatus, Forge, MergeRequest, NewMergeRequest, StatusState, shorten

_STATES = {StatusState.PENDING: "INPROGRESS", StatusState.SUCCEEDED: "SUCCESSFUL", StatusState.FAILED: "FAILED"}
_KEY_CHARACTERS = 40


class Bitbucket(Forge):
    def __init__(self, place: Place, access: ForgeAccess) -> None:
        super().__init__(place, Caller(place.api, access, {"Authorization": access.basic_or_bearer()}))
        self._repository = f"/repositories/{place.path}"

    async def find(self, source_branch: str, target_branch: str) -> MergeRequest | None:
        source, target = source_branch.replace('"', ""), target_branch.replace('"', "")
        query = f'source.branch.name="{source}" AND destination.branch.name="{target}" AND state="OPEN"'
        answer = await self._caller.get(f"{self._repository}/pullrequests", q=query)
        found = list_of(answer.get("values") if isinstance(answer, dict) else None, self._repository)
        return _read(found[0]) if found else None

    async def _create(self, wanted: NewMergeRequest) -> MergeRequest:
        body = {
            "title": wanted.title,
            "description": wanted.text,
            "source": {"branch": {"name": wanted.source_branch}},
            "destination": {"branch": {"name": wanted.target_branch}},
            "close_source_branch": True,
        }
        return _read(await self._caller.call("POST", f"{self._repository}/pullrequests", body))

    async def comment(self, request: MergeRequest, text: str) -> None:
        await self._caller.call("POST", f"{self._repository}/pullrequests/{request.number}/comments", {"content": {"raw": text}})

    async def close(self, request: MergeRequest) -> None:
        await self._caller.call("POST", f"{self._repository}/pullrequests/{request.number}/decline")

    async def set_status(self, commit: str, status: CommitStatus) -> None:
        body = {
            "key": shorten(status.name, _KEY_CHARACTERS),
            "state": _STATES[status.state],
            "name": status.name,
            "description": status.short_text,
            "url": status.url or f"https://bitbucket.org/{self._place.path}/commits/{commit}",  # it wants one
        }
        await self._caller.call("POST", f"{self._repository}/commit/{commit}/statuses/build", body)


def _read(answer: object) -> MergeRequest:
    return MergeRequest(number_of(answer, "id", "pull request"), text_of(answer, "links", "html", "href"))
