"""AppDynamics: the controller's metric API. Documented under "Metric and Snapshot API" and "API Clients".

Times are milliseconds. It answers XML unless asked for JSON, and a metric that isn't there under the name METRIC DATA NOT FOUND.
Points are of a minute (later 10 and 60), the present one among them: with a step of 0 whole minutes are rolled up into one, else each is a
point, the newest complete.
"""

import asyncio
from collections.abc import Mapping

from delegate.engine.verification.answers import Answer, Series, Window
from delegate.engine.verification.errors import UnreadableAnswerError
from delegate.engine.verification.providers.calls import Calls, Request
from delegate.engine.verification.providers.credentials import BASIC, BEARER, Login
from delegate.engine.verification.providers.kinds import Kind, Question, milliseconds
from delegate.engine.verification.providers.numbers import as_list, as_mapping, read_number
from delegate.foundation.redaction import KNOWN_SECRETS

_OAUTH = Login(("client_id", "client_secret"), lambda values: {})
_NOT_FOUND = "METRIC DATA NOT FOUND"
_FREQUENCIES = {"ONE_MIN": 60.0, "TEN_MIN": 600.0, "SIXTY_MIN": 3600.0}
_TOKEN_MARGIN_SECONDS = 30.0


async def read(calls: Calls, question: Question) -> Answer:
    window = question.window
    params = (
        ("metric-path", question.text),
        ("time-range-type", "BETWEEN_TIMES"),
        ("start-time", str(milliseconds(window.start))),
        ("end-time", str(milliseconds(window.end))),
        ("rollup", "false" if question.is_range else "true"),
        ("output", "JSON"),
    )
    path = f"/controller/rest/applications/{question.in_path('application')}/metric-data"
    found = as_list(await calls.ask(Request("GET", path, params, headers=await _token(calls))), "the answer")
    metrics = [as_mapping(each, "a metric") for each in found]
    return calls.answer(_series(each, question) for each in metrics if each.get("metricName") != _NOT_FOUND)


async def _token(calls: Calls) -> dict[str, str]:
    """The header of an API client, whose token is kept for as long as it holds; none for other logins."""
    values = await calls.values()
    if not values.get("client_secret"):
        return {}
    now = asyncio.get_running_loop().time()
    until, token = calls.kept.get("token", (0.0, ""))
    if now >= until:
        form = (("grant_type", "client_credentials"), ("client_id", values["client_id"]), ("client_secret", values["client_secret"]))
        request = Request("POST", "/controller/api/oauth/access_token", form=form, authorized=False)
        body = as_mapping(await calls.ask(request), "the answer with a token")
        token = str(body.get("access_token") or "")
        if not token:
            raise UnreadableAnswerError(f"{calls.source} gave no access_token")
        KNOWN_SECRETS.add(token)
        seconds = read_number(body.get("expires_in"), "expires_in") or 60.0
        calls.kept["token"] = (now + seconds - _TOKEN_MARGIN_SECONDS, token)
    return {"Authorization": f"Bearer {token}"}


def _series(metric: Mapping[str, object], question: Question) -> Series:
    field = question.choice("field", "value", "sum", "count", "min", "max", "current")
    width = _FREQUENCIES.get(str(metric.get("frequency")), 60.0)
    points = []
    for each in as_list(metric.get("metricValues"), "metricValues"):
        body = as_mapping(each, "a value")
        value = read_number(body.get(field), field)
        at = (read_number(body.get("startTimeInMillis"), "startTimeInMillis") or 0.0) / 1000.0
        if not question.is_range:
            points.append((question.window.end, value))
        elif _is_complete(at, width, question.window):
            points.append((at, value))
    return Series(tuple(points), {"metricPath": str(metric.get("metricPath") or metric.get("metricName") or "")})


def _is_complete(at: float, width: float, window: Window) -> bool:
    return window.start <= at and at + width <= window.end


KINDS = (
    Kind(
        ("appdynamics",),
        read,
        logins=(BASIC, BEARER, _OAUTH),
        settings=("application",),
        parameters=("application", "field"),
        right="the role View on the application",
        grain=60.0,
    ),
)
