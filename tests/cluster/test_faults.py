"""Every call that crosses the network survives what a network does, or says what it was.

Each of the client's calls meets a port where nobody listens, a cut, a hang, a page of HTML, a cut-off answer, and a server
that asks for patience.
"""

import asyncio
import datetime as dt
import email.utils
import socket
from collections.abc import Awaitable, Callable

import pytest

from delegate.engine.clusters import access, errors
from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.registry import read_identity
from delegate.engine.clusters.retrying import ONE_TRY
from delegate.foundation.errors import Category
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.model.resource_types import CONFIG_MAPS, SECRETS
from tests.cluster.servers import client_of, config_map, eventually
from tests.fakes.flaky_api import FlakyApi, hang, html, reply, reset, status_body, truncated
from tests.foundation.clocks import ManualClock

Called = Callable[[ApiClient], Awaitable[object]]
_OBJECT = config_map("demo")

READS: dict[str, Called] = {
    "get": lambda client: client.get(CONFIG_MAPS, "demo", "a"),
    "get_metadata": lambda client: client.get_metadata(CONFIG_MAPS, "demo", "a"),
    "list": lambda client: client.list(CONFIG_MAPS, "demo"),
    "get_path": lambda client: client.get_path("/version"),
    "may": lambda client: access.may(client, access.Access("get", "", "configmaps", "demo")),
    "identity": read_identity,
}
WRITES: dict[str, Called] = {
    "apply": lambda client: client.apply(CONFIG_MAPS, _OBJECT),
    "replace": lambda client: client.replace(CONFIG_MAPS, _OBJECT),
    "patch": lambda client: client.patch(CONFIG_MAPS, "demo", "a", {"data": {}}),
    "delete": lambda client: client.delete(CONFIG_MAPS, "demo", "a", uid="u"),
    "create_dry_run": lambda client: client.create(CONFIG_MAPS, _OBJECT, dry_run=True),
}
UNREPEATABLE: dict[str, Called] = {
    "create": lambda client: client.create(CONFIG_MAPS, _OBJECT),
    "json_patch": lambda client: client.patch(CONFIG_MAPS, "demo", "a", [{"op": "add", "path": "/data/x", "value": "1"}], kind="json"),
}
REPEATABLE = READS | WRITES
EVERY = REPEATABLE | UNREPEATABLE

_GOOD = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}, "items": []}


def every(calls: dict[str, Called]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("call", calls.values(), ids=calls.keys())


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@every(EVERY)
async def test_nobody_listens(call: Called) -> None:
    """A refused connection is tried again, also for a write, and then names the address."""
    address = f"http://127.0.0.1:{_free_port()}"
    codes: list[tuple[str, str]] = []
    async with client_of(address, on_request=lambda verb, code: codes.append((verb, code))) as client:
        with pytest.raises(errors.UnreachableError, match="can't be reached") as caught:
            await call(client)

    assert address in caught.value.message
    assert caught.value.hint
    assert caught.value.category is Category.TRANSIENT
    assert [code for _, code in codes] == ["error"] * 4


@every(REPEATABLE)
async def test_a_cut_connection_is_tried_again(call: Called, flaky: FlakyApi, client: ApiClient) -> None:
    """One cut is not noticed by the caller."""
    flaky.add(reset)
    flaky.add(reply(200, _GOOD), times=100)

    await call(client)

    assert flaky.count() == 2


@every(UNREPEATABLE)
async def test_a_cut_connection_leaves_an_unrepeatable_write_alone(call: Called, flaky: FlakyApi, client: ApiClient) -> None:
    """Whether it took effect is unknown, so it isn't sent again."""
    flaky.add(reset)
    flaky.add(reply(200, _GOOD), times=100)

    with pytest.raises(errors.UnreachableError, match="broke"):
        await call(client)

    assert flaky.count() == 1


@every(EVERY)
async def test_a_hang_ends_at_the_deadline(call: Called, flaky: FlakyApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that never answers costs the timeout, and the error says so."""
    flaky.add(hang, times=100)
    for function in ("get", "get_metadata", "list", "get_path", "apply", "create", "replace", "patch", "delete", "review"):
        method = getattr(ApiClient, function)
        monkeypatch.setitem(method.__kwdefaults__, "timeout", 0.05)
    async with client_of(flaky.url, policy=ONE_TRY) as client:
        with pytest.raises(errors.DeadlineError, match=r"no answer to .* within 0\.05 s") as caught:
            await call(client)

    assert caught.value.category is Category.TIMEOUT
    assert flaky.url in caught.value.message


@every(EVERY)
async def test_html_is_no_answer_of_an_api_server(call: Called, flaky: FlakyApi, client: ApiClient) -> None:
    """A page with status 200 is named as such at once: trying again doesn't mend a wrong address."""
    flaky.add(html(), times=100)

    with pytest.raises(errors.NotJsonError, match="Sign in to the guest network") as caught:
        await call(client)

    assert flaky.count() == 1
    assert "server address" in caught.value.hint


@every(REPEATABLE)
async def test_a_page_of_a_gateway_is_tried_again(call: Called, flaky: FlakyApi, client: ApiClient) -> None:
    """A 502 with HTML is a proxy that can't reach the server for now."""
    flaky.add(html(502))
    flaky.add(reply(200, _GOOD), times=100)

    await call(client)

    assert flaky.count() == 2


@every(EVERY)
async def test_a_page_of_html_for_a_refusal(call: Called, flaky: FlakyApi, client: ApiClient) -> None:
    """A 403 that no API server wrote isn't taken for a lack of permission."""
    flaky.add(html(403), times=100)

    with pytest.raises(errors.NotJsonError, match="answered 403"):
        await call(client)


@every(EVERY)
async def test_a_redirect_is_not_followed(call: Called, flaky: FlakyApi, client: ApiClient) -> None:
    """A redirect could carry our token elsewhere."""
    flaky.add(reply(302, "", content_type="text/html", Location="http://127.0.0.1:9/"), times=100)

    with pytest.raises(errors.NotJsonError, match="answered 302"):
        await call(client)


@every(REPEATABLE)
@pytest.mark.parametrize("fault", [truncated(), reply(200, '{"kind": "Conf')], ids=["cut", "ended_early"])
async def test_a_truncated_answer_is_tried_again(call: Called, fault: Callable[..., object], flaky: FlakyApi, client: ApiClient) -> None:
    """Half an answer is none, whether the connection broke or a proxy closed it neatly."""
    flaky.add(fault)  # type: ignore[arg-type]
    flaky.add(reply(200, _GOOD), times=100)

    await call(client)

    assert flaky.count() == 2


@every(EVERY)
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_in_seconds_is_obeyed(call: Called, status: int, flaky: FlakyApi, clock: ManualClock) -> None:
    """A refusal with Retry-After is waited out and tried again, whatever was asked: the server did nothing."""
    flaky.add(reply(status, status_body(status, "x", "slow down"), Retry_After="7"))
    flaky.add(reply(200, _GOOD), times=100)
    async with client_of(flaky.url, clock=clock) as client:
        await call(client)

    assert flaky.count() == 2
    assert clock.slept[0] >= 7


@every(EVERY)
async def test_retry_after_as_a_date_is_obeyed(call: Called, flaky: FlakyApi, clock: ManualClock) -> None:
    """A date counts from our own clock."""
    when = email.utils.format_datetime(clock.now() + dt.timedelta(seconds=9), usegmt=True)
    flaky.add(reply(503, status_body(503, "ServiceUnavailable", "maintenance"), Retry_After=when))
    flaky.add(reply(200, _GOOD), times=100)
    async with client_of(flaky.url, clock=clock) as client:
        await call(client)

    assert flaky.count() == 2
    assert clock.slept[0] >= 9


@every(UNREPEATABLE)
async def test_a_503_without_retry_after_leaves_an_unrepeatable_write_alone(call: Called, flaky: FlakyApi, client: ApiClient) -> None:
    """It may have taken effect behind the proxy that answered."""
    flaky.add(reply(503, status_body(503, "ServiceUnavailable", "gone")), times=100)

    with pytest.raises(errors.UnavailableError):
        await call(client)

    assert flaky.count() == 1


@every(EVERY)
async def test_patience_has_an_end(call: Called, flaky: FlakyApi, clock: ManualClock) -> None:
    """A server that asks for more time than the policy has gets no second try; the error keeps what it asked for."""
    flaky.add(reply(429, status_body(429, "TooManyRequests", "come back tomorrow"), Retry_After="86400"), times=100)
    async with client_of(flaky.url, clock=clock, policy=Retrying(max_duration_seconds=900.0)) as client:
        with pytest.raises(errors.TooManyRequestsError) as caught:
            await call(client)

    assert flaky.count() == 1
    assert caught.value.retry_after == 86400.0
    assert clock.slept == []


@every(EVERY)
async def test_tries_have_a_limit(call: Called, flaky: FlakyApi, client: ApiClient) -> None:
    """A server that stays busy is asked as often as the policy says, each try counted."""
    flaky.add(reply(429, status_body(429, "TooManyRequests", "busy")), times=100)

    with pytest.raises(errors.TooManyRequestsError):
        await call(client)

    assert flaky.count() == 4
    counts = client.meter.counts
    assert counts.reads + counts.writes + counts.dry_runs == 4


async def test_a_refusal_is_not_tried_again(flaky: FlakyApi, client: ApiClient) -> None:
    """403, 404, 409 and 422 are answers, not accidents."""
    for status in (400, 403, 404, 409, 422):
        before = flaky.count()
        flaky.add(reply(status, status_body(status, "x", "no")))
        with pytest.raises(errors.ApiError):
            await client.apply(CONFIG_MAPS, _OBJECT)
        assert flaky.count() == before + 1


async def test_a_webhook_that_is_down_is_left_to_the_caller(flaky: FlakyApi, client: ApiClient) -> None:
    """It may take long, and the caller knows what else depends on it: retryable, but not by the client."""
    flaky.add(reply(500, status_body(500, "InternalError", 'failed calling webhook "w.example": failed to call webhook')), times=9)

    with pytest.raises(errors.WebhookUnreachableError) as caught:
        await client.apply(CONFIG_MAPS, _OBJECT)

    assert flaky.count() == 1
    assert caught.value.retryable
    assert caught.value.webhook == "w.example"


async def test_an_answer_is_bounded(flaky: FlakyApi, client: ApiClient) -> None:
    """An answer beyond the limit is refused while it arrives."""
    flaky.add(reply(200, b'{"kind": "ConfigMap", "data": "' + b"x" * (17 * 2**20)))

    with pytest.raises(errors.AnswerTooLargeError, match="more than 16777216 bytes"):
        await client.get(CONFIG_MAPS, "demo", "a")


async def test_eight_requests_are_in_flight_at_most(flaky: FlakyApi, client: ApiClient) -> None:
    """More than eight wait their turn; an urgent one doesn't."""
    running, most, gate = 0, 0, asyncio.Event()

    async def fault(api: FlakyApi, request: object, body: bytes) -> object:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 8:
            gate.set()
        await asyncio.sleep(0.02)
        running -= 1
        return await reply(200, _GOOD)(api, request, body)  # type: ignore[arg-type]

    flaky.add(fault, times=100, path="/api/v1/namespaces/demo/configmaps/a")  # type: ignore[arg-type]
    flaky.add(reply(200, _GOOD), path="/api/v1/namespaces/demo/configmaps/urgent")
    waiting = asyncio.gather(*(client.get(CONFIG_MAPS, "demo", "a") for _ in range(40)))
    await gate.wait()
    await client.viewed(urgent=True).get(CONFIG_MAPS, "demo", "urgent")
    urgent_came = [request.path for request in flaky.seen].index("/api/v1/namespaces/demo/configmaps/urgent")
    await waiting

    assert most == 8
    assert urgent_came <= 16


async def test_cancelling_a_call_leaves_the_client_usable(flaky: FlakyApi, client: ApiClient) -> None:
    """A cancelled call gives its place back."""
    flaky.add(hang, path="/api/v1/namespaces/demo/configmaps/slow", times=16)
    flaky.add(reply(200, _GOOD))
    calls = [asyncio.create_task(client.get(CONFIG_MAPS, "demo", "slow")) for _ in range(16)]
    await eventually(lambda: flaky.count() >= 8)
    for call in calls:
        call.cancel()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)

    assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
    assert (await client.get(CONFIG_MAPS, "demo", "a"))["kind"] == "ConfigMap"


async def test_what_a_request_did_is_counted_by_its_effect(flaky: FlakyApi, client: ApiClient) -> None:
    """Reads, writes and dry runs are told apart; a review is posted and still a read."""
    flaky.add(reply(200, _GOOD), times=100)
    await READS["get"](client)
    await READS["may"](client)
    await WRITES["apply"](client)
    await WRITES["create_dry_run"](client)
    await client.delete(CONFIG_MAPS, "demo", "a", uid="u", dry_run=True)
    await client.delete(CONFIG_MAPS, "demo", "a", uid="u")

    counts = client.meter.counts
    assert (counts.reads, counts.writes, counts.dry_runs) == (2, 2, 2)


async def test_views_count_apart(flaky: FlakyApi, client: ApiClient) -> None:
    """Each task's view has a meter of its own over the same connections."""
    from delegate.engine.clusters.metering import RequestMeter

    flaky.add(reply(200, _GOOD), times=100)
    meter = RequestMeter()
    await client.metered(meter).get(CONFIG_MAPS, "demo", "a")
    await client.get(CONFIG_MAPS, "demo", "a")

    assert meter.counts.reads == 1
    assert client.meter.counts.reads == 1


async def test_warnings_of_the_server_are_kept(flaky: FlakyApi, client: ApiClient) -> None:
    """A Warning header's text reaches the meter, once."""
    flaky.add(reply(201, _GOOD, Warning='299 - "unknown field \\"spec.replica\\""'), times=2)
    await client.apply(CONFIG_MAPS, _OBJECT)
    await client.apply(CONFIG_MAPS, _OBJECT)

    assert client.meter.warnings == ('unknown field "spec.replica"',)


async def test_no_token_and_no_secret_gets_into_an_error(flaky: FlakyApi) -> None:
    """Whatever goes wrong, neither our token nor a Secret's value is repeated."""
    faults = [reset, html(), html(401), html(503), truncated(b'{"data": {"p": "hunter2hunter2"'), reply(200, '{"data": "hunter2hunter2"')]
    for fault in faults:
        flaky.add(fault)
        async with client_of(flaky.url, token="very-secret-token", policy=ONE_TRY) as client:
            with pytest.raises(errors.ClusterError) as caught:
                await client.get(SECRETS, "demo", "s")
        told = f"{caught.value} {caught.value.hint} {caught.value!r}"
        assert "very-secret-token" not in told
        assert "hunter2" not in told
    assert all(request.headers["Authorization"] == "Bearer very-secret-token" for request in flaky.seen)
