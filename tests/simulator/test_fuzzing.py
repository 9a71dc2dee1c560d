"""Generated requests never make the simulated cluster fail, hang, or hold what it should not."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from delegate.simulator.kinds import Resource
from delegate.simulator.server import Simulator
from tests.simulator import fuzzing
from tests.simulator.clients import APPLY, JSON_PATCH, MERGE, STRATEGIC, Answer, Client

EXAMPLES = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, phases=(Phase.explicit, Phase.generate))
VALIDATIONS = st.sampled_from(("Strict", "Warn", "Ignore"))


class Cluster:
    """A simulated cluster for tests that have no event loop of their own."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.runner.run(self._open())

    async def _open(self) -> None:
        self.simulator = await Simulator(speed=10.0).__aenter__()
        self.client = await Client(self.simulator.url, self.simulator.admin_token).__aenter__()

    def close(self) -> None:
        self.runner.run(self.client.__aexit__(None, None, None))
        self.runner.run(self.simulator.__aexit__(None, None, None))
        self.runner.close()

    def send(self, method: str, path: str, body: Any = None, **params: str) -> Answer:
        """The answer, which is never a failure of the server's own."""
        answer = self.runner.run(self.client.send(method, path, body if body is None else fuzzing.text_of(body), **params))
        assert not is_crash(answer), (method, path, body, answer.body)
        return answer


def is_crash(answer: Answer) -> bool:
    """Some refusals of the real server are 500, too; its own failures begin like this."""
    message = str(answer.body.get("message", "")) if isinstance(answer.body, dict) else str(answer.body)
    return answer.status >= 500 and message.startswith("Internal error occurred: ")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.close()


def path_of(resource: Resource, name: str = "") -> str:
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    place = f"{root}/namespaces/default" if resource.namespaced else root
    return f"{place}/{resource.plural}/{name}".rstrip("/")


@settings(EXAMPLES, max_examples=250)
@given(st.data())
def test_no_manifest_is_answered_with_a_failure(cluster: Cluster, data: st.DataObject) -> None:
    """Of any kind, created, applied and put, tried and done."""
    resource = data.draw(st.sampled_from(fuzzing.RESOURCES))
    body = data.draw(fuzzing.manifests(resource))
    validation = data.draw(VALIDATIONS)
    path = path_of(resource, "x")
    cluster.send("POST", path_of(resource), body, fieldValidation=validation, dryRun="All")
    cluster.send("PATCH", path, body, kind=APPLY, fieldManager="m", force="true", fieldValidation=validation, dryRun="All")
    if data.draw(st.booleans()):
        cluster.send("PATCH", path, body, kind=APPLY, fieldManager="m", fieldValidation=validation)
        cluster.send("PUT", path, body, fieldValidation=validation)
        cluster.send("GET", path_of(resource))
    if data.draw(st.integers(0, 4)) == 0:
        cluster.send("DELETE", path)


@settings(EXAMPLES, max_examples=120)
@given(st.data())
def test_no_patch_is_answered_with_a_failure(cluster: Cluster, data: st.DataObject) -> None:
    """Of the three kinds, to objects and their subresources."""
    resource = data.draw(st.sampled_from([each for each in fuzzing.RESOURCES if each.plural in fuzzing.VALID]))
    path = path_of(resource, "y")
    base = {"metadata": {"name": "y"}, **fuzzing.VALID[resource.plural]}
    cluster.send("POST", path_of(resource), base)
    for _ in range(data.draw(st.integers(1, 3))):
        kind, patch = data.draw(fuzzing.patches(resource))
        below = data.draw(st.sampled_from(("", "", *(f"/{name}" for name, sub in resource.subresources.items() if "patch" in sub.verbs))))
        cluster.send("PATCH", path + below, patch, kind=kind, fieldValidation=data.draw(VALIDATIONS))
    if data.draw(st.integers(0, 3)) == 0:
        cluster.send("DELETE", path, data.draw(st.one_of(st.none(), fuzzing.WILD)))


@settings(EXAMPLES, max_examples=100)
@given(
    kind=st.sampled_from(("application/json", APPLY, MERGE, JSON_PATCH, STRATEGIC)),
    body=st.one_of(st.binary(max_size=40), st.text(max_size=40)),
)
def test_no_body_at_all_is_answered_with_a_failure(cluster: Cluster, kind: str, body: str | bytes) -> None:
    """Bytes that are no JSON, no YAML, no UTF-8."""
    method = "POST" if kind == "application/json" else "PATCH"
    path = "/api/v1/namespaces/default/configmaps" + ("" if method == "POST" else "/x")
    answer = cluster.runner.run(cluster.client.send(method, path, body, kind=kind, fieldManager="m"))

    assert answer.status < 500, answer.body


@settings(EXAMPLES, max_examples=100)
@given(
    st.dictionaries(
        st.sampled_from(
            (
                "labelSelector",
                "fieldSelector",
                "limit",
                "continue",
                "resourceVersion",
                "resourceVersionMatch",
                "timeoutSeconds",
                "includeObject",
            )
        ),
        st.one_of(st.sampled_from(("", "0", "1", "-1", "x", "a=b", "a in (b,c)", "metadata.name=x", "Exact")), st.text(max_size=12)),
        max_size=3,
    ),
    st.sampled_from(("pods", "configmaps", "deployments")),
)
def test_no_query_is_answered_with_a_failure(cluster: Cluster, params: dict[str, str], plural: str) -> None:
    """Selectors, versions, limits and tokens of any text."""
    root = "/apis/apps/v1" if plural == "deployments" else "/api/v1"
    answer = cluster.send("GET", f"{root}/namespaces/default/{plural}", **params)

    assert answer.status in (200, 400, 410, 422, 504)
