"""Service accounts act by tokens that are asked for at them, with the rights that bindings give."""

from typing import Any

from delegate.simulator.server import Simulator
from tests.simulator.clients import Client

ACCOUNT = "/api/v1/namespaces/rec/serviceaccounts/robot"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/rec"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


async def _request(client: Client, **spec: Any) -> Any:
    return (await client.post(f"{ACCOUNT}/token", {"spec": spec})).body


async def _robot(client: Client) -> None:
    await client.post("/api/v1/namespaces/rec/serviceaccounts", {"metadata": {"name": "robot"}})
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    await client.post(f"{RBAC}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "rec"}
    await client.post(f"{RBAC}/rolebindings", {"metadata": {"name": "reader"}, "roleRef": role, "subjects": [subject]})


async def test_a_token_acts_for_its_account_while_that_exists(simulator: Simulator, client: Client) -> None:
    """It may what the account's bindings give, and is worth nothing once the account has gone."""
    await _robot(client)
    made = await _request(client)
    assert made["metadata"]["uid"] == (await client.get(ACCOUNT))["metadata"]["uid"]
    token = made["status"]["token"]

    async with Client(simulator.url, token) as robot:
        assert (await robot.send("GET", "/api/v1/namespaces/rec/configmaps")).status == 200
        refused = await robot.send("GET", "/api/v1/namespaces/rec/secrets")
        assert (refused.status, 'User "system:serviceaccount:rec:robot"' in refused.body["message"]) == (403, True)
        review = (await client.post(REVIEWS, {"spec": {"token": token}})).body["status"]
        assert review["user"]["groups"] == ["system:serviceaccounts", "system:serviceaccounts:rec", "system:authenticated"]

        await client.send("DELETE", ACCOUNT)
        assert (await robot.send("GET", "/api/v1/namespaces/rec/configmaps")).status == 401


async def test_a_token_for_somebody_else_or_for_too_short_a_time_is_none(simulator: Simulator, client: Client) -> None:
    """One for another audience is made, and not taken here; less than ten minutes are refused."""
    await _robot(client)
    other = await _request(client, audiences=["vault"])
    assert other["spec"] == {"audiences": ["vault"], "expirationSeconds": 3600, "boundObjectRef": None}
    async with Client(simulator.url, other["status"]["token"]) as robot:
        assert (await robot.send("GET", "/api/v1/namespaces/rec/configmaps")).status == 401

    short = await _request(client, expirationSeconds=5)
    assert short["details"]["causes"][0]["message"] == "Invalid value: 5: may not specify a duration less than 10 minutes"


async def test_a_token_expires() -> None:
    """By the cluster's own time."""
    async with Simulator(speed=100_000) as simulator, Client(simulator.url, simulator.admin_token) as client:
        await client.post("/api/v1/namespaces", {"metadata": {"name": "rec"}})
        await _robot(client)
        token = (await _request(client, expirationSeconds=600))["status"]["token"]
        async with Client(simulator.url, token) as robot:
            await robot.until("/version", lambda body: body.get("code") == 401)
