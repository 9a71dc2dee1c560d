"""The pages: an overview of delegates and tasks, and one task with its steps, attempts, result and history."""

import datetime as dt
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl, urlencode

import jinja2
import msgspec
from aiohttp import web

from delegate import __version__
from delegate.foundation.errors import DelegateError
from delegate.manager.api.calls import CALL_ID, Services, read_limited
from delegate.manager.api.problems import describe_fault
from delegate.manager.clocks import to_rfc3339
from delegate.manager.dashboard.logins import COOKIE, LIFE_SECONDS, Logins
from delegate.manager.dashboard.steps import describe_events, gather_steps
from delegate.manager.errors import AuthenticationError, ForbiddenError, MalformedError
from delegate.manager.pausing import describe_pause, state_of
from delegate.manager.store import delegates, reading
from delegate.manager.store.letters import LetterQuery, count_open, list_letters
from delegate.manager.store.reading import TaskFilter
from delegate.manager.store.transactions import Transaction
from delegate.model.resources import JsonObject
from delegate.model.results import TaskResult

_REFRESH_SECONDS = 5
_PAGE = 25
_MAX_FORM = 4096
_UNITS = (("days", 86400), ("h", 3600), ("min", 60))
_STATES = ("", "queued", "running", "finished")
_LETTER_STATES = ("open", "redriven", "purged", "")


class Pages:
    """Renders what the API shows; every page but the login wants a cookie."""

    def __init__(self, services: Services, logins: Logins) -> None:
        self._services = services
        self._logins = logins
        self._templates = jinja2.Environment(
            loader=jinja2.PackageLoader("delegate.manager.dashboard"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {"moment": _moment, "json": _json, "labels": _labels, "words": _words, "age": self._age}
        self._templates.filters |= {"state": state_of, "pause": describe_pause}
        self._templates.tests["present"] = lambda value: value is not msgspec.UNSET
        self._style = resources.files("delegate.manager.dashboard").joinpath("static/style.css").read_bytes()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", self.overview),
            web.get("/tasks/{task}", self.task),
            web.get("/dead-letters", self.letters),
            web.get("/login", self.show_login),
            web.post("/login", self.log_in),
            web.post("/logout", self.log_out),
            web.get("/static/style.css", self.style),
        ]

    async def overview(self, request: web.Request) -> web.Response:
        """Delegates, and the latest tasks."""
        await self._require_login(request)
        state = request.query.get("state", "")
        wanted = TaskFilter(
            state=state if state in _STATES else "",
            application=request.query.get("application", "")[:100],
            limit=_PAGE,
            continue_=request.query.get("continue", ""),
        )

        def work(transaction: Transaction) -> dict[str, Any]:
            listed = reading.list_tasks(transaction, wanted)
            return {
                "delegates": delegates.list_delegates(transaction),
                "tasks": listed.items,
                "why": reading.explain_tasks(transaction, [each.id for each in listed.items if each.state == "queued"]),
                "older": listed.continue_,
                "counts": reading.count_tasks(transaction),
                "open_letters": count_open(transaction),
            }

        shown = await self._services.database.read(work)
        older = _query(state=wanted.state, application=wanted.application, **{"continue": shown["older"]}) if shown["older"] else ""
        return self._render(request, "overview.html", wanted=wanted, states=_STATES, older_query=older, refreshing=True, **shown)

    async def task(self, request: web.Request) -> web.Response:
        """One task, whole."""
        await self._require_login(request)
        task_id = request.match_info["task"]

        def work(transaction: Transaction) -> dict[str, Any]:
            shown = reading.show_task(transaction, task_id)
            events = reading.show_events(transaction, task_id, 0, transaction.limits.page_size).items
            history = reading.show_history(transaction, task_id).items
            ended = shown.attempts[0].ended_at if shown.attempts else ""
            return {
                "shown": shown,
                "task": shown.task,
                "result": _read_result(shown.result),
                "steps": gather_steps(events, ended),
                "events": describe_events(events),
                "history": history,
            }

        shown = await self._services.database.read(work)
        return self._render(request, "task.html", refreshing=shown["task"].state != "finished", **shown)

    async def letters(self, request: web.Request) -> web.Response:
        """A page of the index of dead letters, the oldest first. What they hold stays where they are kept."""
        await self._require_login(request)
        state = request.query.get("state", "open")
        wanted = LetterQuery(
            state=state if state in _LETTER_STATES else "open",
            application=request.query.get("application", "")[:100],
            limit=_PAGE,
            continue_=request.query.get("continue", ""),
        )
        listed = await self._services.database.read(lambda transaction: list_letters(transaction, wanted))
        again = {"state": wanted.state, "application": wanted.application, "continue": listed.continue_}
        newer = urlencode(again) if listed.continue_ else ""
        return self._render(
            request, "letters.html", refreshing=True, wanted=wanted, states=_LETTER_STATES, letters=listed.items, newer_query=newer
        )

    async def show_login(self, request: web.Request) -> web.Response:
        """The form; a code in the address logs in at once."""
        code = request.query.get("code", "")
        cookie = await self._logins.redeem_code(code) if code else None
        if cookie is not None:
            return self._enter(request, cookie)
        failure = "This address was used before, or is too old. Log in with a token." if code else ""
        return self._render(request, "login.html", status=403 if code else 200, failure=failure, refreshing=False)

    async def log_in(self, request: web.Request) -> web.Response:
        """Takes a token and gives a cookie."""
        _check_origin(request)
        form = await self._read_form(request)
        cookie = await self._logins.log_in(form.get("token", "").strip())
        if cookie is None:
            failure = "This is no living token with the scope admin."
            return self._render(request, "login.html", status=403, failure=failure, refreshing=False)
        return self._enter(request, cookie)

    async def log_out(self, request: web.Request) -> web.Response:
        _check_origin(request)
        response = _see_other("/login")
        response.del_cookie(COOKIE, path="/")
        return response

    async def style(self, request: web.Request) -> web.Response:
        return web.Response(body=self._style, content_type="text/css", headers={"Cache-Control": "max-age=300"})

    def _age(self, written_at: str) -> str:
        """How long ago, in its largest unit."""
        try:
            seconds = self._services.clock() - dt.datetime.fromisoformat(written_at).timestamp()
        except ValueError:
            return "–"
        name, size = next(((name, size) for name, size in _UNITS if seconds >= size), ("s", 1))
        return f"{max(0, int(seconds // size))} {name}"

    def _enter(self, request: web.Request, cookie: str) -> web.Response:
        response = _see_other("/")
        response.set_cookie(
            COOKIE, cookie, max_age=int(LIFE_SECONDS), httponly=True, samesite="Strict", secure=request.scheme == "https", path="/"
        )
        return response

    async def _require_login(self, request: web.Request) -> None:
        if not await self._is_logged_in(request.cookies.get(COOKIE, "")):
            raise web.HTTPSeeOther("/login")

    async def _is_logged_in(self, cookie: str) -> bool:
        try:
            return await self._logins.is_logged_in(cookie)
        except (AuthenticationError, ValueError):
            return False

    async def _read_form(self, request: web.Request) -> dict[str, str]:
        if request.content_type != "application/x-www-form-urlencoded":
            raise MalformedError("a form is sent as application/x-www-form-urlencoded")
        body = await read_limited(request, _MAX_FORM, self._services.limits.header_seconds)
        try:
            return dict(parse_qsl(body.decode(), max_num_fields=8))
        except (UnicodeDecodeError, ValueError) as error:
            raise MalformedError("the form can't be read") from error

    def _render(self, request: web.Request, template: str, *, refreshing: bool, status: int = 200, **shown: Any) -> web.Response:
        paused = request.query.get("refresh") == "off"
        text = self._templates.get_template(template).render(
            version=__version__,
            now=to_rfc3339(self._services.clock()),
            refresh_seconds=_REFRESH_SECONDS if refreshing and not paused else 0,
            refreshing=refreshing,
            paused=paused,
            toggle=_toggled(request, paused),
            **shown,
        )
        return web.Response(text=text, status=status, content_type="text/html")

    def problem(self, request: web.Request, error: DelegateError) -> web.Response:
        """A fault as a page, for whoever asked for a page."""
        problem = describe_fault(error, request[CALL_ID], to_rfc3339(self._services.clock()))
        return self._render(request, "problem.html", status=problem.status, problem=problem, refreshing=False)


def _read_result(document: JsonObject | None) -> TaskResult | None:
    """The result as this version knows it; None where there is none, or it is a newer version's or nobody's."""
    if document is None:
        return None
    try:
        return msgspec.convert(document, TaskResult)
    except msgspec.ValidationError:
        return None


def _see_other(location: str) -> web.Response:
    return web.Response(status=303, headers={"Location": location})


def _check_origin(request: web.Request) -> None:
    """A form that another site sent is none of ours. Browsers say where it came from."""
    site = request.headers.get("Sec-Fetch-Site", "")
    origin = request.headers.get("Origin", "")
    if site in ("cross-site", "same-site") or (origin not in ("", "null") and origin.partition("://")[2] != request.host):
        raise ForbiddenError("the form came from another site")


def _toggled(request: web.Request, paused: bool) -> str:
    query = {name: value for name, value in request.query.items() if name != "refresh"}
    if not paused:
        query["refresh"] = "off"
    return f"{request.path}?{urlencode(query)}" if query else request.path


def _query(**wanted: str) -> str:
    return urlencode({name: value for name, value in wanted.items() if value})


def _moment(text: str) -> str:
    """A time for people: to the second, in UTC."""
    return text[:19].replace("T", " ") if text else ""


def _json(document: object) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def _labels(labels: dict[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(labels.items())]


def _words(text: str) -> str:
    """`timed_out` as people write it."""
    return text.replace("_", " ")
