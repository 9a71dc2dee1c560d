"""Every kind of forge, by one table: merge requests are made once, found, commented and closed; what goes wrong is told apart."""

import datetime as dt
from collections.abc import AsyncIterator

import pytest

from delegate.engine.forges.calls import ForgeAccess
from delegate.engine.forges.choosing import forge_for
from delegate.engine.forges.errors import (
    ForgeAccessError,
    ForgeAnswerError,
    ForgeError,
    ForgeForbiddenError,
    ForgeLimitError,
    ForgeNotFoundError,
    ForgeRefusedError,
    ForgeUnavailableError,
)
from delegate.engine.forges.places import ForgeKind
from delegate.engine.forges.requests import CommitStatus, Forge, MergeRequest, NewMergeRequest, StatusState
from delegate.foundation.secrets import Secret
from tests.forges.servers import TOKEN, ForgeServer, failing

WANTED = NewMergeRequest("delegate/checkout-1", "main", "deploy(prod): checkout 1.4.0", "error ratio 12 %\n\n- `a`")
COMMIT = "c" * 40


@pytest.fixture(params=list(ForgeKind))
async def server(request: pytest.FixtureRequest) -> AsyncIterator[ForgeServer]:
    async with ForgeServer(request.param).running() as running:
        yield running


@pytest.fixture
def forge(server: ForgeServer) -> Forge:
    return forge_for(server.url, ForgeAccess(token=Secret(TOKEN)), server.known)


async def test_a_merge_request_is_made_once(server: ForgeServer, forge: Forge) -> None:
    """With title and text; who asks again gets the same one, with the page that people see."""
    made = await forge.open(WANTED)
    again = await forge.open(WANTED)

    assert made == again
    assert made.url == f"http://{server.address}/pull/{made.number}"
    (pull,) = server.pulls
    assert (pull["source"], pull["target"], pull["title"], pull["text"]) == (
        WANTED.source_branch,
        WANTED.target_branch,
        WANTED.title,
        WANTED.text,
    )


async def test_who_comes_second_finds_the_first_ones(server: ForgeServer, forge: Forge) -> None:
    """Also where it was made between the look and the wish, which the forge refuses as a duplicate."""
    made = await forge.open(WANTED)
    server.hides_pulls = 1
    found = await forge.open(WANTED)
    assert found == made
    assert len(server.pulls) == 1


async def test_other_branches_are_other_requests(server: ForgeServer, forge: Forge) -> None:
    """The same source for another target, and the other way round."""
    await forge.open(WANTED)
    assert await forge.find("delegate/other", "main") is None
    assert await forge.find(WANTED.source_branch, "release") is None


async def test_it_is_commented_and_closed(server: ForgeServer, forge: Forge) -> None:
    """After which it isn't found any more, and another one can be made."""
    made = await forge.open(WANTED)
    await forge.comment(made, "taken back: errors at 12 %")
    await forge.close(made)

    assert server.comments == [(made.number, "taken back: errors at 12 %")]
    assert server.pulls[0]["state"] == "closed"
    assert await forge.find(WANTED.source_branch, "main") is None
    assert (await forge.open(WANTED)).number != made.number


@pytest.mark.parametrize("state", list(StatusState))
async def test_a_commit_gets_a_status(server: ForgeServer, forge: Forge, state: StatusState) -> None:
    """In the words of each forge, and not longer than it takes."""
    await forge.set_status(COMMIT, CommitStatus(state, "delegate/prod", "x" * 500, "https://d.example/t/1"))
    ((commit, body),) = server.statuses
    words = {
        ForgeKind.GITLAB: ("pending", "success", "failed"),
        ForgeKind.BITBUCKET: ("INPROGRESS", "SUCCESSFUL", "FAILED"),
        ForgeKind.BITBUCKET_SERVER: ("INPROGRESS", "SUCCESSFUL", "FAILED"),
        ForgeKind.GITEE: ("in_progress", "success", "failure"),
    }.get(server.kind, ("pending", "success", "failure"))
    assert commit == COMMIT
    assert (body.get("conclusion") or body.get("state") or body["status"]) == words[list(StatusState).index(state)]
    assert len(body.get("description", "")) <= 140


@pytest.mark.parametrize(
    ("status", "error", "retryable"),
    [
        (401, ForgeAccessError, False),
        (403, ForgeForbiddenError, False),
        (404, ForgeNotFoundError, False),
        (409, ForgeRefusedError, False),
        (422, ForgeRefusedError, False),
        (429, ForgeLimitError, True),
        (500, ForgeUnavailableError, True),
        (503, ForgeUnavailableError, True),
        (302, ForgeAnswerError, False),
    ],
)
async def test_answers_that_are_no_success(
    server: ForgeServer, forge: Forge, status: int, error: type[ForgeError], retryable: bool
) -> None:
    """Each is its own fault, with what was asked and what the forge said; the token is in none."""
    server.answers = [failing(status, {"message": f"because of {TOKEN}"}, Location="http://127.0.0.1:1/")]
    with pytest.raises(error) as raised:
        await forge.comment(MergeRequest(1, ""), "hello")
    assert (raised.value.retryable, raised.value.status) == (retryable, status)
    assert f"127.0.0.1:{server.address.rpartition(':')[2]}" in raised.value.message
    assert str(status) in raised.value.message
    assert len(server.requests) == 1, "redirects are not followed"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"number": "x"}', b"{" * 100_000])
async def test_answers_that_are_no_answer(server: ForgeServer, forge: Forge, body: bytes) -> None:
    """Another page than the interface, a proxy's for one."""
    from aiohttp import web

    missing = web.json_response([] if "bitbucket" not in server.kind else {"values": []})
    server.answers = [missing, web.Response(status=201, body=body)]
    if server.kind is ForgeKind.GITEA:
        server.answers = [failing(404), missing, web.Response(status=201, body=body)]
    with pytest.raises(ForgeAnswerError):
        await forge.open(WANTED)


class TestLimits:
    """One kind speaks for all here: the headers are told apart, not the forges."""

    @pytest.fixture
    async def limited(self) -> AsyncIterator[ForgeServer]:
        async with ForgeServer(ForgeKind.GITHUB).running() as running:
            yield running

    async def wait(self, server: ForgeServer, status: int, **headers: str) -> float | None:
        server.answers = [failing(status, {"message": "API rate limit exceeded"}, **headers)]
        with pytest.raises(ForgeLimitError, match="rate limit exceeded") as raised:
            await forge_for(server.url, ForgeAccess(token=Secret(TOKEN)), server.known).find("a", "b")
        return raised.value.retry_after

    async def test_seconds(self, limited: ForgeServer) -> None:
        """As a number, and not for ever."""
        assert await self.wait(limited, 429, Retry_After="17") == 17
        assert await self.wait(limited, 403, Retry_After="17") == 17
        assert await self.wait(limited, 429, Retry_After="999999999") == 3600
        assert await self.wait(limited, 429) is None

    async def test_a_time(self, limited: ForgeServer) -> None:
        """As a date, or as seconds since 1970; one that is past is no wait."""
        soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=600)
        for headers in (
            {"Retry_After": soon.strftime("%a, %d %b %Y %H:%M:%S GMT")},
            {"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": str(int(soon.timestamp()))},
            {"RateLimit_Reset": str(int(soon.timestamp()))},
        ):
            wait = await self.wait(limited, 429, **headers)
            assert wait is not None
            assert 500 < wait <= 601
        assert await self.wait(limited, 403, X_RateLimit_Remaining="0", X_RateLimit_Reset="1") == 0

    async def test_a_refusal_is_no_limit(self, limited: ForgeServer) -> None:
        """403 with requests left."""
        limited.answers = [failing(403, None, X_RateLimit_Remaining="41", X_RateLimit_Reset="99999999999")]
        with pytest.raises(ForgeForbiddenError):
            await forge_for(limited.url, ForgeAccess(token=Secret(TOKEN)), limited.known).find("a", "b")


async def test_nobody_there() -> None:
    """Can be tried again."""
    async with ForgeServer(ForgeKind.GITLAB).running() as server:
        forge = forge_for(server.url, ForgeAccess(token=Secret(TOKEN)), server.known)
    with pytest.raises(ForgeUnavailableError) as raised:
        await forge.find("a", "b")
    assert raised.value.retryable


def test_without_a_token() -> None:
    """It is said where one is given."""
    with pytest.raises(ForgeAccessError) as raised:
        forge_for("https://gitlab.com/shop/config.git", ForgeAccess())
    assert "DELEGATE_REPOSITORIES_DIR" in raised.value.hint
