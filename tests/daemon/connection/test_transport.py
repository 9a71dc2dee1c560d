"""A call succeeds when the manager answered it, and every other ending is told apart and named with its remedy."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from delegate.daemon.connection.errors import (
    InvalidError,
    ManagerFaultError,
    OutdatedError,
    OverloadedError,
    RefusalError,
    RevokedError,
    ScopeMissingError,
    SessionUnknownError,
    SupersededError,
    TokenExpiredError,
    TooLargeError,
    TransportError,
    UnauthorizedError,
    UntrustedError,
)
from delegate.daemon.connection.transport import Endpoint, Limits, Transport
from delegate.daemon.connection.trust import AuthoritiesError, tls_context
from delegate.foundation.secrets import Secret
from delegate.protocol import routes
from delegate.protocol.enrolment import ByeAnswer
from delegate.protocol.work import ResultItem, ResultsAnswer, ResultsRequest
from tests.fakes.scripted_manager import STRANGE_ANSWERS, Json, ScriptedManager, answer, problem, raw, scripted_manager

QUICK = Limits(connect=5.0, stall=0.3, slack=0.3)


@pytest.fixture
async def manager() -> AsyncIterator[ScriptedManager]:
    async with scripted_manager() as manager:
        yield manager


@pytest.fixture
async def transport(manager: ScriptedManager) -> AsyncIterator[Transport]:
    transport = Transport(Endpoint(join=lambda path: manager.url + path), limits=QUICK)
    yield transport
    await transport.close()


def request(size: int = 0, request_id: str = "r-1") -> ResultsRequest:
    item = ResultItem(attempt_id="a", task_id="t", fence=1, attempt_token="", digest="", result={"text": "x" * size})
    return ResultsRequest(request_id=request_id, epoch=1, results=(item,))


async def call(transport: Transport, wanted: ResultsRequest | None = None) -> ResultsAnswer:
    return await transport.call(routes.RESULTS, wanted or request(), ResultsAnswer, token=Secret("s3cret"), delegate_id="d-1")


async def test_an_answer_that_repeats_the_id_is_a_success(manager: ScriptedManager, transport: Transport) -> None:
    """The decoded answer comes back, and the request carried token and id."""
    returned = await call(transport)

    assert [each.verdict for each in returned.results] == ["accepted"]
    assert [(seen.token, seen.body["requestId"]) for seen in manager.seen] == [("s3cret", "r-1")]


@pytest.mark.parametrize("name", STRANGE_ANSWERS)
async def test_nothing_strange_is_a_success(manager: ScriptedManager, transport: Transport, name: str) -> None:
    """Case 36: whoever answers in the manager's place is a transport failure that says who it was, without credentials."""
    manager.on(routes.RESULTS, STRANGE_ANSWERS[name])

    with pytest.raises(TransportError) as caught:
        await call(transport)

    assert caught.value.retryable
    assert caught.value.facts["status"] in (200, 302, 403, 503)
    assert "secret" not in str(caught.value)
    assert "s3cret" not in repr(caught.value.facts)
    assert len(manager.seen) == 1


async def test_a_page_is_shown_by_its_first_printable_characters(manager: ScriptedManager, transport: Transport) -> None:
    """Case 36: status, content type, preview and hop are there for the log; control characters are not."""
    manager.on(routes.RESULTS, STRANGE_ANSWERS["a login page with 200"])

    with pytest.raises(TransportError) as caught:
        await call(transport)

    facts = caught.value.facts
    assert (facts["status"], facts["content_type"], facts["via"]) == (200, "text/html", "1.1 portal")
    assert str(facts["preview"]).startswith("<!doctype html> <title>Sign in</title>")
    assert str(facts["preview"]).isprintable()
    assert "something between" in caught.value.hint


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (401, "unauthorized", UnauthorizedError),
        (401, "token_expired", TokenExpiredError),
        (403, "scope_missing", ScopeMissingError),
        (403, "delegate_revoked", RevokedError),
        (409, "session_superseded", SupersededError),
        (409, "session_unknown", SessionUnknownError),
        (426, "outdated", OutdatedError),
        (413, "too_large", TooLargeError),
        (400, "invalid", InvalidError),
        (429, "overloaded", OverloadedError),
        (503, "a_new_word", OverloadedError),
        (401, "a_new_word", UnauthorizedError),
        (500, "internal", ManagerFaultError),
        (409, "a_new_word", ManagerFaultError),
    ],
)
async def test_each_refusal_is_told_apart(
    manager: ScriptedManager, transport: Transport, status: int, code: str, error: type[RefusalError]
) -> None:
    """The code decides, the status where the code is of a newer version; words and hint are the manager's."""
    manager.on(routes.RESULTS, problem(status, code, hint="do this"))

    with pytest.raises(RefusalError) as caught:
        await call(transport)

    assert type(caught.value) is error
    assert caught.value.status == status
    assert "as scripted" in str(caught.value)
    assert caught.value.hint == "do this"


async def test_a_refusal_of_another_request_is_no_refusal(manager: ScriptedManager, transport: Transport) -> None:
    """A cached 403 for somebody else must not end this delegate."""

    refuse = problem(403, "delegate_revoked")
    manager.on(routes.RESULTS, lambda request, body: refuse(request, {**body, "requestId": "another"}))

    with pytest.raises(TransportError):
        await call(transport)


async def test_a_route_that_asked_for_patience_is_left_alone(manager: ScriptedManager, transport: Transport) -> None:
    """Case 09: the next call of that route comes no earlier than asked; another route is not slowed."""
    manager.on(routes.RESULTS, problem(429, "overloaded", Retry_After="0.4"))
    with pytest.raises(OverloadedError):
        await call(transport)

    await asyncio.gather(call(transport), transport.call(routes.BYE, request(), ByeAnswer, token=Secret("x")))

    asked, bye, again = manager.seen
    assert (bye.route, again.route) == (routes.BYE, routes.RESULTS)
    assert again.at - asked.at >= 0.4


async def test_a_transfer_that_makes_progress_is_not_cut(manager: ScriptedManager, transport: Transport) -> None:
    """Case 37: upload and download take many times the stall limit, and both arrive."""

    async def read_slowly(request: web.Request, body: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        whole = b'{"requestId": "r-1", "results": []}'
        for position in range(0, len(whole), 4):
            await response.write(whole[position : position + 4])
            await asyncio.sleep(0.1)
        return response

    manager.on(routes.RESULTS, read_slowly)

    returned = await call(transport, request(4 * 2**20))

    assert returned.results == ()
    assert len(manager.seen[0].body["results"][0]["result"]["text"]) == 4 * 2**20


async def test_a_peer_that_takes_nothing_is_given_up(transport: Transport, manager: ScriptedManager) -> None:
    """An upload that nobody reads ends with the stall limit instead of never."""
    held = asyncio.Event()

    async def never_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await held.wait()
        writer.close()

    server = await asyncio.start_server(never_read, "127.0.0.1", 0, limit=1024)
    manager.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    silent = Transport(Endpoint(join=lambda path: manager.url + path), limits=Limits(connect=0.1, stall=0.2))
    try:
        with pytest.raises(TransportError, match="silent"):
            await call(silent, request(7 * 2**20))
    finally:
        held.set()
        await silent.close()
        server.close()


async def test_silence_ends_with_its_limit(manager: ScriptedManager, transport: Transport) -> None:
    """Case 02: an answer that never comes is given up, and its connection is not used again."""
    never = asyncio.Event()

    async def say_nothing(request: web.Request, body: Json) -> web.StreamResponse:
        await never.wait()
        return web.Response()

    manager.on(routes.RESULTS, say_nothing)
    short = Transport(Endpoint(join=lambda path: manager.url + path), limits=Limits(connect=0.1, stall=0.2))

    with pytest.raises(TransportError, match="silent"):
        await call(short)

    assert [each.verdict for each in (await call(short)).results] == ["accepted"]
    await short.close()


async def test_a_call_can_be_bounded_as_a_whole(manager: ScriptedManager, transport: Transport) -> None:
    """A heartbeat that trickles is worthless after its time, progress or not."""

    async def trickle(request: web.Request, body: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.05)

    manager.on(routes.RESULTS, trickle)

    with pytest.raises(TransportError, match=r"within 0\.3 s"):
        await transport.call(routes.RESULTS, request(), ResultsAnswer, token=Secret("x"), within_seconds=0.3)


class ClosingServer:
    """Answers once on each connection, keeps it alive, and resets it in the moment of its re-use."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for served in range(2):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            self.requests.append(await reader.readexactly(length))
            if served:
                break
            body = b'{"requestId": "r-1", "results": []}'
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()
        writer.close()


async def test_a_kept_connection_closed_in_the_moment_of_its_use_is_no_fault() -> None:
    """Case 37: the call is made once more at once on a new connection, though it is a POST."""
    closing = ClosingServer()
    server = await asyncio.start_server(closing.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = Transport(Endpoint(join=lambda path: f"http://127.0.0.1:{port}{path}"), limits=QUICK)

    await call(transport)
    await call(transport)

    assert len(closing.requests) == 3
    assert closing.connections == 2
    await transport.close()
    server.close()


async def test_a_new_connection_that_is_cut_is_a_fault() -> None:
    """Without a kept connection there is nothing to retry for free: the cut is told with its age."""

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(cut, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = Transport(Endpoint(join=lambda path: f"http://127.0.0.1:{port}{path}"), limits=QUICK)

    with pytest.raises(TransportError, match="was cut") as caught:
        await call(transport)

    assert caught.value.cut_after is not None
    await transport.close()
    server.close()


async def test_nobody_there_is_named_with_the_address() -> None:
    """A port that refuses: the error names it and says what to check."""
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    transport = Transport(Endpoint(join=lambda path: f"http://127.0.0.1:{port}{path}"), limits=QUICK)

    with pytest.raises(TransportError, match=f"nothing answers at 127.0.0.1:{port}") as caught:
        await call(transport)

    assert "check that the manager runs there" in caught.value.hint
    await transport.close()


async def test_a_name_that_does_not_resolve_is_told_apart() -> None:
    """The resolver's failure is not taken for a refusal."""
    transport = Transport(Endpoint(join=lambda path: f"http://manager.invalid{path}"), limits=QUICK)

    with pytest.raises(TransportError, match=r"manager\.invalid can't be resolved"):
        await call(transport)

    await transport.close()


async def test_goes_through_the_proxy_that_the_rules_name(manager: ScriptedManager) -> None:
    """The manager's name is the proxy's to resolve; its credentials go to the proxy alone."""
    address = manager.url.replace("http://", "http://user:word@")
    transport = Transport(Endpoint(join=lambda path: f"http://manager.invalid{path}", proxy=lambda url: address), limits=QUICK)

    returned = await call(transport)

    assert [each.verdict for each in returned.results] == ["accepted"]
    await transport.close()


async def test_a_proxy_that_is_away_is_named_as_such() -> None:
    """The hint is about the proxy, not about the manager."""
    transport = Transport(Endpoint(join=lambda path: f"http://manager.invalid{path}", proxy=lambda url: "http://127.0.0.1:9"), limits=QUICK)

    with pytest.raises(TransportError, match=r"the proxy for manager\.invalid can't be reached") as caught:
        await call(transport)

    assert "NO_PROXY" in caught.value.hint
    await transport.close()


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


async def serve_tls(authority: trustme.CA, name: str) -> tuple[asyncio.Server, int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    server = await asyncio.start_server(ClosingServer().serve, "127.0.0.1", 0, ssl=context)
    return server, server.sockets[0].getsockname()[1]


async def test_the_private_authority_is_trusted_beside_the_systems(tmp_path: Path, authority: trustme.CA) -> None:
    """SSL_CERT_FILE adds an authority; the system's stay."""
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    server, port = await serve_tls(authority, "127.0.0.1")
    context = tls_context(tmp_path / "ca.pem")
    transport = Transport(Endpoint(join=lambda path: f"https://127.0.0.1:{port}{path}", tls=context), limits=QUICK)

    await call(transport)

    assert context.cert_store_stats()["x509_ca"] >= ssl.create_default_context().cert_store_stats()["x509_ca"]
    await transport.close()
    server.close()


@pytest.mark.parametrize(
    ("name", "trusted", "words"),
    [
        ("manager.example", True, ("is not for the name 127.0.0.1", "use a name in DELEGATE_MANAGER_URL")),
        ("127.0.0.1", False, ("nobody trusted here signed", "SSL_CERT_FILE")),
    ],
    ids=["another name", "another authority"],
)
async def test_a_certificate_that_proves_nothing_is_named_with_the_remedy(
    tmp_path: Path, authority: trustme.CA, name: str, trusted: bool, words: tuple[str, str]
) -> None:
    """The error says whose certificate it is and what would help."""
    (authority if trusted else trustme.CA()).cert_pem.write_to_path(tmp_path / "ca.pem")
    server, port = await serve_tls(authority, name)
    context = tls_context(tmp_path / "ca.pem")
    transport = Transport(Endpoint(join=lambda path: f"https://127.0.0.1:{port}{path}", tls=context), limits=QUICK)

    with pytest.raises(UntrustedError, match=words[0]) as caught:
        await call(transport)

    assert words[1] in caught.value.hint
    assert str(port) in str(caught.value)
    await transport.close()
    server.close()


async def test_a_port_without_tls_is_told_apart(manager: ScriptedManager) -> None:
    """https to a port that speaks http says so."""
    url = manager.url.replace("http:", "https:")
    transport = Transport(Endpoint(join=lambda path: url + path, tls=tls_context(None)), limits=QUICK)

    with pytest.raises(TransportError, match="does not speak TLS") as caught:
        await call(transport)

    assert "http://" in caught.value.hint
    await transport.close()


def test_a_file_without_certificates_stops_the_start(tmp_path: Path) -> None:
    """The file is named."""
    (tmp_path / "empty.pem").write_text("nothing\n")

    with pytest.raises(AuthoritiesError, match=r"empty\.pem"):
        tls_context(tmp_path / "empty.pem")


async def test_answers_of_a_newer_manager_are_read(manager: ScriptedManager, transport: Transport) -> None:
    """Case 25: new fields at every level, null for what may be missing, large numbers and other orders spoil nothing."""
    decision = {"verdict": "a_new_word", "novelty": 2**60, "attemptId": "a", "message": None}
    manager.on(
        routes.RESULTS,
        answer(results=[decision], serverTime=None, novelty={"deep": [1, None]}, huge=2**70),
        answer(results=[]),
        raw(200, b'{"results": [], "requestId": "r-1", "serverTime": null}', Content_Type="application/json; charset=utf-8", X_New="yes"),
    )

    first = await call(transport)
    await call(transport)
    third = await call(transport)

    assert [(each.attempt_id, each.verdict, each.message) for each in first.results] == [("a", "a_new_word", "")]
    assert third.server_time == ""


async def test_an_answer_that_trickles_is_given_up(manager: ScriptedManager) -> None:
    """A byte now and then is no progress: such an answer ends like one that is silent."""

    async def drip(request: web.Request, body: Json) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for character in b'{"requestId": "r-1", "results": []}':
            await response.write(bytes([character]))
            await asyncio.sleep(0.8)
        return response

    manager.on(routes.RESULTS, drip)
    transport = Transport(Endpoint(join=lambda path: manager.url + path), limits=Limits(connect=5.0, stall=1.5))

    with pytest.raises(TransportError, match="all but stopped") as caught:
        await transport.call(routes.RESULTS, request(), ResultsAnswer, token=Secret("x"), within_seconds=20)

    assert caught.value.code == "connection.silent"
    await transport.close()


async def test_connections_are_not_kept_for_ever(manager: ScriptedManager) -> None:
    """Case 30: a kept connection that is too old is replaced between two calls, without a fault."""
    closing = ClosingServer()
    server = await asyncio.start_server(closing.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = Transport(Endpoint(join=lambda path: f"http://127.0.0.1:{port}{path}"), limits=Limits(connect=5.0, stall=5.0, age=0.0))

    await call(transport)
    await call(transport)

    assert closing.connections == 2
    assert len(closing.requests) == 2, "the first connection was not asked again"
    await transport.close()
    server.close()


async def test_a_proxy_that_wants_credentials_for_plain_http_says_where_to_write_them(manager: ScriptedManager) -> None:
    """Without CONNECT the proxy's 407 is the answer."""
    manager.on(routes.RESULTS, raw(407, b"<h1>Who are you?</h1>", Content_Type="text/html"))
    transport = Transport(Endpoint(join=lambda path: f"http://manager.invalid{path}", proxy=lambda url: manager.url), limits=QUICK)

    with pytest.raises(TransportError, match="407") as caught:
        await call(transport)

    assert "HTTP_PROXY" in caught.value.hint
    await transport.close()
