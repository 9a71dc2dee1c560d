"""Loki: metric queries over logs. Documented under "Loki HTTP API"; an integer time is nanoseconds there, the answer's are seconds."""

from delegate.engine.verification.answers import Answer
from delegate.engine.verification.providers.calls import Calls, Request
from delegate.engine.verification.providers.kinds import Kind, Question, nanoseconds
from delegate.engine.verification.providers.prometheus import read_envelope, seconds


async def read(calls: Calls, question: Question) -> Answer:
    window, tenant = question.window, question.option("tenant")
    params = [("query", question.text)]
    if question.is_range:
        path = "/loki/api/v1/query_range"
        params += [
            ("start", str(nanoseconds(window.start + window.step))),
            ("end", str(nanoseconds(window.end))),
            ("step", seconds(window.step)),
        ]
    else:
        path = "/loki/api/v1/query"
        params.append(("time", str(nanoseconds(window.end))))
    headers = {"X-Scope-OrgID": tenant} if tenant else {}
    return read_envelope(calls, await calls.ask(Request("GET", path, tuple(params), headers=headers)), question)


KINDS = (Kind(("loki",), read, settings=("tenant",), right="query logs"),)
