"""What people's tools ask a cluster of itself: OpenAPI documents for validation and explanations, and aggregated APIs."""

from pathlib import Path
from typing import Any

import pytest

from delegate.simulator.server import Simulator
from tests.simulator.clients import Client
from tests.simulator.programs import Person

GROUP = "metrics.example.org"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "nullable": True, "description": "How large it is."},
                                    "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"


def _reason(body: Any) -> str:
    return str(body.get("status", {}).get("conditions", [{}])[0].get("reason", ""))


async def _define(client: Client) -> None:
    await client.post(DEFINITIONS, DEFINITION)
    await client.until("/apis/example.org/v1", lambda body: isinstance(body, dict) and body.get("kind") == "APIResourceList")


@pytest.mark.parametrize("form", ["plaintext", "plaintext-openapiv2"])
async def test_kubectl_explains_built_in_and_custom_kinds(simulator: Simulator, client: Client, tmp_path: Path, form: str) -> None:
    """By the third version of OpenAPI and by the second, which it reads as protobuf."""
    await _define(client)

    person = Person(simulator, tmp_path)
    kinds = {
        "deployment.spec.strategy.rollingUpdate.maxSurge": "maximum number of pods that can be scheduled above",
        "widget.spec": "How large it is.",
    }

    for place, words in kinds.items():
        printed = await person.run(f"kubectl explain {place} --output {form}")
        assert (printed.code, printed.stderr) == (0, [])
        assert words in " ".join(" ".join(printed.stdout).split())


async def test_the_second_version_says_no_more_of_custom_kinds_than_it_can(client: Client) -> None:
    """No alternatives, no null; a number or a text is called a text."""
    await _define(client)

    document = await client.get("/openapi/v2")

    spec = document["definitions"]["org.example.v1.Widget"]["properties"]["spec"]["properties"]
    assert spec["size"] == {"type": "integer", "description": "How large it is."}
    assert spec["port"] == {"type": "string", "format": "int-or-string", "x-kubernetes-int-or-string": True}
    patch = document["paths"]["/apis/example.org/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert {"dryRun", "fieldValidation"} <= {item["name"] for item in patch["parameters"]}


async def test_its_own_apis_are_available_from_the_start(client: Client) -> None:
    """And those of a definition once it is established, until it is gone."""
    listed = (await client.get(API_SERVICES))["items"]
    assert {"v1.", "v1.apps", "v2.autoscaling"} <= {item["metadata"]["name"] for item in listed}
    for item in listed:
        (condition,) = item["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")

    await _define(client)
    await client.until(f"{API_SERVICES}/v1.example.org", lambda body: _reason(body) == "Local")
    await client.send("DELETE", f"{DEFINITIONS}/widgets.example.org")
    await client.until(f"{API_SERVICES}/v1.example.org", lambda body: body.get("code") == 404)


async def test_an_api_of_another_server_is_unavailable_for_its_true_reason(client: Client) -> None:
    """No Service, then no endpoints, then nobody who answers; it is stale in discovery, and asking for it is answered 503."""
    name = f"v1.{GROUP}"
    spec = {"group": GROUP, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": True}
    service = {"name": "metrics", "namespace": "rec", "port": 443}
    await client.post(API_SERVICES, {"metadata": {"name": name}, "spec": {**spec, "service": service}})

    async def until(reason: str) -> str:
        body = await client.until(f"{API_SERVICES}/{name}", lambda body: _reason(body) == reason)
        assert body["status"]["conditions"][0]["status"] == "False"
        return str(body["status"]["conditions"][0]["message"])

    assert await until("ServiceNotFound") == 'service/metrics in "rec" is not present'
    ports = [{"port": 443}]
    selector = {"app": "metrics"}
    await client.post("/api/v1/namespaces/rec/services", {"metadata": {"name": "metrics"}, "spec": {"ports": ports, "selector": selector}})
    assert await until("MissingEndpoints") == 'endpointslices for service/metrics in "rec" have no addresses with port name ""'
    pod = {"metadata": {"name": "metrics", "labels": selector}, "spec": {"containers": [{"name": "main", "image": "metrics:1"}]}}
    await client.post("/api/v1/namespaces/rec/pods", pod)
    assert (await until("FailedDiscoveryCheck")).startswith("failing or missing response from https://10.")

    assert GROUP in [item["name"] for item in (await client.get("/apis"))["groups"]]
    for path in (f"/apis/{GROUP}/v1", f"/apis/{GROUP}/v1/nodes"):
        assert (await client.send("GET", path))[:2] == (503, "service unavailable\n")
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    async with client.session.get(f"{client.url}/apis", headers={"Accept": accept}) as answer:
        groups = {item["metadata"]["name"]: item["versions"] for item in (await answer.json(content_type=None))["items"]}
    assert groups[GROUP] == [{"version": "v1", "freshness": "Stale"}]


async def test_an_api_that_is_unavailable_keeps_namespaces_from_going() -> None:
    """What can't be looked through may be something; once the API is taken away, they go."""
    spec = {"group": GROUP, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": True}
    spec["service"] = {"name": "metrics", "namespace": "rec", "port": 443}
    async with Simulator(speed=20) as simulator, Client(simulator.url, simulator.admin_token) as client:
        await client.post("/api/v1/namespaces", {"metadata": {"name": "rec"}})
        await client.post(API_SERVICES, {"metadata": {"name": f"v1.{GROUP}"}, "spec": spec})

        await client.send("DELETE", "/api/v1/namespaces/rec")
        held = await client.until("/api/v1/namespaces/rec", lambda body: bool(body.get("status", {}).get("conditions")))
        conditions = {item["type"]: item for item in held["status"]["conditions"]}
        assert conditions["NamespaceDeletionDiscoveryFailure"]["reason"] == "DiscoveryFailed"
        assert f"{GROUP}/v1: stale GroupVersion discovery: {GROUP}/v1" in conditions["NamespaceDeletionDiscoveryFailure"]["message"]

        await client.send("DELETE", f"{API_SERVICES}/v1.{GROUP}")
        await client.until("/api/v1/namespaces/rec", lambda body: body.get("code") == 404)
