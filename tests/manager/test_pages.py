"""The pages: who sees them, what they show, and that nothing in them is taken for markup."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import msgspec
import pytest

from delegate.manager.service import Manager
from delegate.protocol.control import PauseReport
from delegate.protocol.work import ProgressEvent
from tests.manager.clocks import FakeClock
from tests.manager.delegates import FakeDelegate, make_notice, make_result
from tests.manager.operators import Operator
from tests.manager.test_resume import canary_document

PAGE = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One dialect is enough for pages."""
    return f"sqlite:///{tmp_path / 'manager.db'}"


class Browser:
    """Keeps cookies and follows nothing."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url
        self.cookies: dict[str, str] = {}

    async def open(self, path: str, **options: object) -> tuple[int, str, dict[str, str]]:
        return await self._send("GET", path, **options)

    async def send(self, path: str, form: dict[str, str], **options: object) -> tuple[int, str, dict[str, str]]:
        return await self._send("POST", path, data=form, **options)

    async def _send(self, method: str, path: str, **options: object) -> tuple[int, str, dict[str, str]]:
        headers = PAGE | dict(options.pop("headers", {}))  # type: ignore[call-overload]
        async with self.session.request(
            method,
            self.url + path,
            headers=headers,
            cookies=self.cookies,
            allow_redirects=False,
            **options,  # type: ignore[arg-type]
        ) as response:
            for name, morsel in response.cookies.items():
                self.cookies[name] = morsel.value
            return response.status, await response.text(), dict(response.headers)


@pytest.fixture
async def browser(manager: Manager) -> object:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield Browser(session, manager.url)


@pytest.fixture
async def entered(manager: Manager, browser: Browser) -> Browser:
    """A browser that is logged in."""
    await browser.send("/login", {"token": manager.admin_token})
    return browser


async def test_pages_want_a_login(browser: Browser) -> None:
    """Without one there is the form, and nothing else."""
    assert (await browser.open("/"))[0] == 303
    status, text, headers = await browser.open("/login")

    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert 'name="token" type="password"' in text


async def test_a_login_gives_a_cookie_for_this_site_alone(manager: Manager, browser: Browser) -> None:
    """HttpOnly and SameSite=Strict; the token itself is not in it."""
    status, _, headers = await browser.send("/login", {"token": manager.admin_token})

    assert (status, headers["Location"]) == (303, "/")
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=Strict" in headers["Set-Cookie"]
    assert manager.admin_token not in headers["Set-Cookie"]
    assert (await browser.open("/"))[0] == 200


@pytest.mark.parametrize("cookie", ["", "x", "..", "a.9999999999.00", ".99999999999.", "first.second.third.fourth", ".abc." + "0" * 64])
async def test_a_made_up_cookie_opens_nothing(browser: Browser, cookie: str) -> None:
    """Whatever is in it."""
    browser.cookies["delegate_session"] = cookie

    assert (await browser.open("/"))[0] == 303


async def test_a_wrong_token_does_not_log_in(browser: Browser, operator: Operator, token: str) -> None:
    """Neither a made-up one, nor a delegate's, nor a revoked one; it is not repeated in the page."""
    revoked = await operator.create_token("revoked", scope="admin")
    await operator.call("DELETE", "/api/v1/tokens/revoked")
    for wrong in ("dga_wrong", token, revoked):
        status, text, headers = await browser.send("/login", {"token": wrong})
        assert status == 403
        assert "no living token with the scope admin" in text
        assert wrong not in text
        assert "Set-Cookie" not in headers


async def test_a_form_of_another_site_is_refused(manager: Manager, browser: Browser) -> None:
    """The browser says where it came from."""
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        status, _, answered = await browser.send("/login", {"token": manager.admin_token}, headers=headers)
        assert status == 403
        assert "Set-Cookie" not in answered


async def test_a_login_ends_with_its_token_and_its_time(operator: Operator, manager: Manager, browser: Browser, clock: FakeClock) -> None:
    """Revoked is out at once; half a day is the longest."""
    second = await operator.create_token("second", scope="admin")
    await browser.send("/login", {"token": second})
    assert (await browser.open("/"))[0] == 200
    await operator.call("DELETE", "/api/v1/tokens/second")
    assert (await browser.open("/"))[0] == 303

    await browser.send("/login", {"token": manager.admin_token})
    clock.advance(12 * 3600 - 1)
    assert (await browser.open("/"))[0] == 200
    clock.advance(2)
    assert (await browser.open("/"))[0] == 303


async def test_a_login_address_works_once(manager: Manager, browser: Browser) -> None:
    """For whoever started the manager; whoever finds the address later is not let in."""
    address = manager.login_url().removeprefix(manager.url)
    status, _, headers = await browser.open(address)
    assert (status, headers["Location"]) == (303, "/")
    assert (await browser.open("/"))[0] == 200

    browser.cookies.clear()
    assert (await browser.open(address))[0] == 403
    assert (await browser.open("/"))[0] == 303


async def test_logging_out(entered: Browser) -> None:
    """The cookie is taken away."""
    _, _, headers = await entered.send("/logout", {})

    assert headers["Location"] == "/login"
    assert 'delegate_session=""; expires=Thu, 01 Jan 1970' in headers["Set-Cookie"]


async def test_the_overview_shows_delegates_and_tasks(entered: Browser, operator: Operator, delegate: FakeDelegate) -> None:
    """Healthy and Connected, what runs, and why the rest waits."""
    await operator.submit(application="checkout")
    await operator.submit(application="trainer", selector={"gpu": "true"})
    (task,) = await delegate.acquire()
    await delegate.beat(task)

    _, text, _ = await entered.open("/")
    for words in ("d-1", "Healthy", "Connected", "1 of 16", "checkout", "running", "trainer"):
        assert words in text
    assert "no connected delegate has gpu=true (nearest: d-1 lacks gpu=true)" in text
    assert '<meta http-equiv="refresh" content="5">' in text
    _, text, _ = await entered.open("/?state=queued&refresh=off")
    assert "checkout" not in text
    assert "trainer" in text
    assert "http-equiv" not in text


async def test_a_task_is_shown_whole(entered: Browser, operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """Steps, attempts, objects with their changes, errors with their hints."""
    task_id = await operator.submit(application="checkout")
    (task,) = await delegate.acquire()
    for number, (event, data) in enumerate(
        [
            ("resolve.started", {}),
            ("source.resolved", {"revision": "9f3c"}),
            ("apply.started", {}),
            ("object.written", {"object": "Service a/b"}),
        ],
        1,
    ):
        await delegate.events(ProgressEvent(attempt_id=task.attempt_id, fence=task.fence, sequence=number, event=event, data=data))
        clock.advance(2.5)
    error = {
        "code": "conflict.field_manager",
        "category": "conflict",
        "message": "owned by somebody",
        "hint": "use force",
        "file": "a.yaml",
        "line": 14,
    }
    resource = {
        "group": "apps",
        "kind": "Deployment",
        "namespace": "shop",
        "name": "checkout",
        "action": "configured",
        "health": {"status": "Degraded", "message": "the image can't be pulled"},
        "changes": [{"path": "/spec/replicas", "from": 1, "to": 3}],
        "origin": "deployment.yaml:14",
    }
    await delegate.report(make_result(task, "failed", "1 failed", revision="9f3c", errors=[error], error=error, resources=[resource]))

    status, text, _ = await entered.open(f"/tasks/{task_id}")

    assert status == 200
    for words in (
        "Find the revision",
        "5.00 s",
        "owned by somebody",
        "use force",
        "a.yaml:14",
        "Deployment shop/checkout",
        "configured",
        "Degraded",
        "the image can&#39;t be pulled",
        "<del>1</del>",
        "<ins>3</ins>",
        "deployment.yaml:14",
        "object.written",
        "handed out by",
    ):
        assert words in text
    assert "http-equiv" not in text  # it has ended: nothing changes any more


async def test_a_pause_is_shown_with_the_way_on(entered: Browser, operator: Operator, delegate: FakeDelegate) -> None:
    """In the list and on the task's own page; a hold as one, with its reason."""
    task_id = await operator.submit(canary_document())
    (task,) = await delegate.acquire()
    await delegate.beat(task, pause=PauseReport(number=3, step=2, ago_seconds=1.0, held=True, reason="a foreign hand"))

    overview = (await entered.open("/"))[1]
    page = (await entered.open(f"/tasks/{task_id}"))[1]

    for shown in (overview, page):
        assert '<span class="mark held">held</span>' in shown
        assert re.search(r"held at step 2 since \S+Z \(pause 3\): a foreign hand", shown)
    assert f"<code>delegate task resume {task_id} --pause 3</code>" in page


async def test_nothing_is_taken_for_markup(entered: Browser, operator: Operator, delegate: FakeDelegate) -> None:
    """What delegates and people write is text."""
    evil = "<script>alert(1)</script>"
    task_id = await operator.submit(application="checkout", environment=evil, selector={})
    (task,) = await delegate.acquire()
    await delegate.events(ProgressEvent(attempt_id=task.attempt_id, fence=task.fence, sequence=1, event=evil, data={"a": evil}))
    await delegate.finish(task, "failed", evil)

    _, text, headers = await entered.open(f"/tasks/{task_id}")

    assert evil not in text
    assert "&lt;script&gt;" in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]


async def test_a_result_of_another_version_is_shown_as_it_is(entered: Browser, operator: Operator, delegate: FakeDelegate) -> None:
    """A page never fails on a document."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    await delegate.report(make_result(task, "failed", "odd", resources={"not": "a list"}, errors="none"))

    status, text, _ = await entered.open(f"/tasks/{task_id}")

    assert status == 200
    assert "&#34;not&#34;: &#34;a list&#34;" in text


async def test_what_is_not_there_is_said_in_a_page(entered: Browser) -> None:
    """Whoever asks for a page gets one, with the way back."""
    for path in ("/tasks/none", "/nowhere"):
        status, text, headers = await entered.open(path)
        assert (status, headers["Content-Type"]) == (404, "text/html; charset=utf-8")
        assert 'href="/"' in text


async def test_pages_carry_no_secret(
    entered: Browser, manager: Manager, delegate: FakeDelegate, token: str, swept: Callable[[], Awaitable[None]]
) -> None:
    """No token is in any page."""
    for path in ("/", "/login", "/static/style.css"):
        _, text, _ = await entered.open(path)
        for secret in (manager.admin_token, token, delegate.token, delegate.refresh_token):
            assert secret not in text


async def test_dead_letters_are_listed(entered: Browser, operator: Operator, delegate: FakeDelegate) -> None:
    """What each is about, why, how old, and what became of it; where a letter lies is said, its address and its content are not."""
    await operator.submit(application="shop")
    [task] = await delegate.acquire(1)
    await delegate.finish(task, "failed")
    notice = msgspec.structs.replace(make_notice(task), message="<script>no</script>", url="s3://letters/secret-place/1.json")
    assert await delegate.letters(notice) == 1

    status, text, _ = await entered.open("/dead-letters")
    overview = (await entered.open("/"))[1]

    assert status == 200
    assert "<strong>1</strong> dead letters" in overview
    assert f'href="/tasks/{task.task_id}">shop<' in text
    assert "retries exhausted" in text
    assert "&lt;script&gt;no" in text
    assert "secret-place" not in text
    assert "There is no such dead letter" in (await entered.open("/dead-letters?state=redriven"))[1]


async def test_dead_letters_want_a_login(browser: Browser) -> None:
    """As every page does."""
    assert (await browser.open("/dead-letters"))[0] == 303
