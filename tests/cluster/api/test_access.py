"""Who may do what: tokens, roles and bindings, aggregated roles, and the reviews that tell."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from tests.simulator.clients import Client, config_map, deployment

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SELF_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def role(name: str, *rules: dict[str, Any], kind: str = "Role", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": list(rules), **more}


def binding(name: str, to: str, *, kind: str = "Role", subject: str = "limited", cluster: bool = False) -> dict[str, Any]:
    subjects = [{"kind": "Group" if subject == "devs" else "User", "name": subject, "apiGroup": "rbac.authorization.k8s.io"}]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding" if cluster else "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": to},
        "subjects": subjects,
    }


def rule(verbs: list[str], resources: list[str], groups: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return {"apiGroups": [""] if groups is None else groups, "resources": resources, "verbs": verbs, **more}


async def granted(admin: Client, place: str, *rules: dict[str, Any], subject: str = "limited") -> None:
    made = await admin.post(f"{RBAC}{place}/roles", role("r", *rules))
    assert made.status == 201, made.body
    made = await admin.post(f"{RBAC}{place}/rolebindings", binding("r", "r", subject=subject))
    assert made.status == 201, made.body


async def allowed(client: Client, path: str, **attributes: str) -> bool:
    """What a review of one's own access says."""
    spec = {"resourceAttributes": {"namespace": path.rpartition("/")[2], **attributes}}
    answer = await client.post(SELF_REVIEW, {"spec": spec})
    assert answer.status == 201, answer.body
    return bool(answer.body["status"]["allowed"])


async def until_allowed(client: Client, path: str, **attributes: str) -> None:
    """Roles take a moment until the authorizer knows them."""
    await client.until("/version", lambda _: True)
    for _ in range(600):
        if await allowed(client, path, **attributes):
            return
    raise AssertionError(f"never allowed: {attributes}")


@pytest.mark.parametrize("token", ["", "wrong"])
async def test_needs_a_token_it_knows(token: str, admin: Client, place: str) -> None:
    """401 for an unknown token; without one, 403 in the name of system:anonymous."""
    headers = {"Authorization": f"Bearer {token}"} if token else {"Authorization": ""}
    async with admin.session.get(f"{admin.url}/api/v1{place}/configmaps", headers=headers) as answer:
        body = await answer.json()
    if token:
        assert (answer.status, body["reason"]) == (401, "Unauthorized")
    else:
        assert answer.status in (401, 403)


async def test_a_user_without_rights_is_refused(powerless: Client, place: str) -> None:
    """403 that names user, verb, resource and namespace, for reads, writes and watches."""
    path = f"/api/v1{place}/configmaps"
    name = place.rpartition("/")[2]
    listed = await powerless.send("GET", path)
    assert (listed.status, listed.body["reason"]) == (403, "Forbidden")
    assert listed.body["message"] == (
        f'configmaps is forbidden: User "limited" cannot list resource "configmaps" in API group "" in the namespace "{name}"'
    )
    applied = await powerless.apply(f"/apis/apps/v1{place}/deployments/d", deployment("d"))
    why = f'User "limited" cannot patch resource "deployments" in API group "apps" in the namespace "{name}"'
    assert applied.body["message"] == f'deployments.apps "d" is forbidden: {why}'
    for answer in (
        await powerless.post(path, config_map("a")),
        await powerless.delete(f"{path}/a"),
        await powerless.delete(path),
        await powerless.send("GET", path, watch="1"),
        await powerless.send("GET", "/api/v1/nodes"),
        await powerless.send("GET", f"/apis/apps/v1{place}/deployments/d/scale"),
    ):
        assert answer.status == 403


async def test_discovery_and_version_are_for_everyone(powerless: Client) -> None:
    """Who is known may ask what there is."""
    for path in ("/version", "/api", "/apis", "/apis/apps/v1", "/healthz", "/livez", "/readyz"):
        assert (await powerless.send("GET", path)).status == 200


@pytest.mark.parametrize("subject", ["limited", "devs"])
async def test_a_role_grants_what_it_says(subject: str, admin: Client, powerless: Client, place: str) -> None:
    """To a user or to a group; only these verbs, only here."""
    await granted(admin, place, rule(["get", "list"], ["configmaps"]), subject=subject)
    await until_allowed(powerless, place, verb="list", resource="configmaps")
    path = f"/api/v1{place}/configmaps"

    assert (await powerless.send("GET", path)).status == 200
    assert (await powerless.send("GET", f"{path}/none")).status == 404
    assert (await powerless.send("GET", path, watch="1")).status == 403
    assert (await powerless.post(path, config_map("a"))).status == 403
    assert (await powerless.send("GET", "/api/v1/namespaces/default/configmaps")).status == 403
    assert (await powerless.send("GET", "/api/v1/configmaps")).status == 403


async def test_rules_by_name_and_subresource(admin: Client, powerless: Client, place: str) -> None:
    """resourceNames hold for that object, also in a list that selects it; a subresource is a resource of its own."""
    await granted(
        admin,
        place,
        rule(["get", "list", "patch"], ["configmaps"], resourceNames=["a"]),
        rule(["get", "patch"], ["deployments/scale"], ["apps"]),
        rule(["*"], ["*"], ["batch"]),
    )
    await until_allowed(powerless, place, verb="create", resource="jobs", group="batch")
    path = f"/api/v1{place}/configmaps"
    await admin.post(path, config_map("a"))
    await admin.post(f"/apis/apps/v1{place}/deployments", deployment("d", replicas=0))

    assert (await powerless.send("GET", f"{path}/a")).status == 200
    assert (await powerless.send("GET", f"{path}/b")).status == 403
    assert (await powerless.send("GET", path)).status == 403
    assert (await powerless.send("GET", path, fieldSelector="metadata.name=a")).status == 200
    assert (await powerless.send("GET", path, fieldSelector="metadata.name=b")).status == 403
    assert (await powerless.send("GET", f"/apis/apps/v1{place}/deployments/d/scale")).status == 200
    assert (await powerless.patch(f"/apis/apps/v1{place}/deployments/d/scale", {"spec": {"replicas": 0}})).status == 200
    assert (await powerless.send("GET", f"/apis/apps/v1{place}/deployments/d")).status == 403
    assert (await powerless.send("GET", f"/apis/batch/v1{place}/jobs")).status == 200


async def test_an_apply_that_creates_needs_create(admin: Client, powerless: Client, place: str) -> None:
    """With patch alone an existing object can be applied, a new one can't."""
    await granted(admin, place, rule(["patch"], ["configmaps"]))
    await until_allowed(powerless, place, verb="patch", resource="configmaps")
    path = f"/api/v1{place}/configmaps"
    await admin.post(path, config_map("a"))

    assert (await powerless.apply(f"{path}/a", config_map("a", {"k": "v"}))).status == 200
    refused = await powerless.apply(f"{path}/b", config_map("b", {"k": "v"}))
    assert refused.status == 403
    assert 'cannot create resource "configmaps"' in refused.body["message"]


@pytest.fixture
async def cluster_role(admin: Client) -> AsyncIterator[str]:
    """A name for cluster-wide roles and bindings that are taken away again."""
    name = f"api-{uuid.uuid4().hex[:8]}"
    yield name
    for path in (f"clusterrolebindings/{name}", f"clusterroles/{name}", f"clusterroles/{name}-part"):
        await admin.delete(f"{RBAC}/{path}")


async def test_a_cluster_role_for_one_namespace_or_all(admin: Client, powerless: Client, place: str, cluster_role: str) -> None:
    """By a RoleBinding here, by a ClusterRoleBinding everywhere, non-resource paths too."""
    rules = [rule(["list"], ["configmaps"]), {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    await admin.post(f"{RBAC}/clusterroles", role(cluster_role, *rules, kind="ClusterRole"))
    await admin.post(f"{RBAC}{place}/rolebindings", binding("r", cluster_role, kind="ClusterRole"))
    await until_allowed(powerless, place, verb="list", resource="configmaps")
    assert (await powerless.send("GET", "/api/v1/configmaps")).status == 403
    await admin.post(f"{RBAC}/clusterrolebindings", binding(cluster_role, cluster_role, kind="ClusterRole", cluster=True))
    await until_allowed(powerless, "/", verb="list", resource="configmaps")

    assert (await powerless.send("GET", "/api/v1/configmaps")).status == 200


async def test_aggregated_roles(admin: Client, cluster_role: str) -> None:
    """A ClusterRole collects the rules of those with a label, and loses them again."""
    labels = {f"{cluster_role}.example.com/aggregate": "true"}
    body = role(cluster_role, kind="ClusterRole", aggregationRule={"clusterRoleSelectors": [{"matchLabels": labels}]})
    assert (await admin.post(f"{RBAC}/clusterroles", body)).status == 201
    part = role(f"{cluster_role}-part", rule(["get"], ["secrets"]), kind="ClusterRole")
    part["metadata"]["labels"] = labels
    await admin.post(f"{RBAC}/clusterroles", part)
    await admin.until(f"{RBAC}/clusterroles/{cluster_role}", lambda found: found["rules"] == [rule(["get"], ["secrets"])])
    await admin.delete(f"{RBAC}/clusterroles/{cluster_role}-part")
    await admin.until(f"{RBAC}/clusterroles/{cluster_role}", lambda found: not found["rules"])


async def test_the_default_roles_are_there(admin: Client) -> None:
    """admin, edit, view and cluster-admin, aggregated as the real ones."""
    for name in ("admin", "edit", "view"):
        found = await admin.until(f"{RBAC}/clusterroles/{name}", lambda body: bool(body.get("rules")))
        assert found["aggregationRule"]
    everything = await admin.get(f"{RBAC}/clusterroles/cluster-admin")
    assert everything["rules"][0] == {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}


async def test_no_one_grants_what_they_lack(admin: Client, powerless: Client, place: str) -> None:
    """A user who may write roles can't give more than they have."""
    await granted(
        admin,
        place,
        rule(["create", "update", "patch", "get"], ["roles", "rolebindings"], ["rbac.authorization.k8s.io"]),
        rule(["get"], ["configmaps"]),
    )
    await until_allowed(powerless, place, verb="create", resource="roles", group="rbac.authorization.k8s.io")
    held = await powerless.post(f"{RBAC}{place}/roles", role("same", rule(["get"], ["configmaps"])))
    assert held.status == 201
    assert (await powerless.post(f"{RBAC}{place}/rolebindings", binding("same", "same", subject="other"))).status == 201
    assert (await powerless.patch(f"{RBAC}{place}/roles/same", {"metadata": {"labels": {"x": "y"}}})).status == 200
    more = role("more", rule(["get"], ["secrets"]))
    await admin.post(f"{RBAC}{place}/roles", role("all", rule(["*"], ["*"], ["*"])))
    for answer in (
        await powerless.post(f"{RBAC}{place}/roles", more),
        await powerless.apply(f"{RBAC}{place}/roles/more", more),
        await powerless.patch(f"{RBAC}{place}/roles/same", {"rules": more["rules"]}),
        await powerless.post(f"{RBAC}{place}/rolebindings", binding("all", "all")),
        await powerless.post(f"{RBAC}{place}/rolebindings", binding("admin", "cluster-admin", kind="ClusterRole")),
    ):
        assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
        assert "is attempting to grant RBAC permissions not currently held:\n{APIGroups:" in answer.body["message"]


async def test_a_role_reference_is_fixed(admin: Client, place: str) -> None:
    """roleRef can't be changed."""
    await granted(admin, place, rule(["get"], ["configmaps"]))
    answer = await admin.patch(f"{RBAC}{place}/rolebindings/r", {"roleRef": {"name": "other"}})

    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", "roleRef")])


async def test_reviews(admin: Client, powerless: Client, place: str) -> None:
    """Of oneself and, for those who may, of others; the rules of a namespace; who one is."""
    name = place.rpartition("/")[2]
    await granted(admin, place, rule(["get"], ["configmaps"]))
    await until_allowed(powerless, place, verb="get", resource="configmaps")
    attributes = {"namespace": name, "verb": "get", "resource": "configmaps"}
    review = {"spec": {"user": "limited", "resourceAttributes": attributes}}
    of_other = await admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert of_other.body["status"]["allowed"] is True
    nobody = await admin.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {**review["spec"], "user": "nobody"}})
    assert nobody.body["status"]["allowed"] is False
    assert (await powerless.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)).status == 403
    rules = await powerless.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": name}})
    assert {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]} in rules.body["status"]["resourceRules"]
    me = await powerless.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert me.body["status"]["userInfo"]["username"] == "limited"
    assert "devs" in me.body["status"]["userInfo"]["groups"]
    assert (await admin.post(SELF_REVIEW, {"spec": {}})).status == 422


async def test_an_administrator_may_act_as_others(admin: Client, place: str) -> None:
    """Impersonation takes the other's rights."""
    headers = {"Impersonate-User": "limited", "Impersonate-Group": "devs"}
    async with admin.session.get(f"{admin.url}/api/v1{place}/secrets", headers=headers, timeout=aiohttp.ClientTimeout(total=30)) as answer:
        body = await answer.json()

    assert answer.status == 403
    assert 'User "limited" cannot list resource "secrets"' in body["message"]
