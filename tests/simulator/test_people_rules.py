"""Rules that people write in CEL, in definitions and in admission policies, as far as a client meets them."""

from typing import Any

from tests.simulator.clients import Client, config_map

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BOXES = "/apis/example.org/v1/namespaces/rec/boxes"
POLICIES = "/apis/admissionregistration.k8s.io/v1"


async def _define(client: Client, spec: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "boxes", "kind": "Box"}
    body = {"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]}
    await client.post(DEFINITIONS, {"metadata": {"name": "boxes.example.org"}, "spec": body})
    await client.until("/apis/example.org/v1", lambda found: isinstance(found, dict) and found.get("kind") == "APIResourceList")


def _box(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.org/v1", "kind": "Box", "metadata": {"name": name}, "spec": spec}


async def test_rules_of_a_definition_refuse_with_their_message(client: Client) -> None:
    """With Kubernetes' function libraries; what a rule can't answer is told too; one on changes holds for changes alone."""
    rules = [
        {"rule": "quantity(self.size).isLessThan(quantity('1Gi'))", "messageExpression": "'too large: ' + self.size"},
        {"rule": "self.names.all(name, name.matches('^[a-z]+$'))", "message": "lower case, please"},
        {"rule": "!has(oldSelf.owner) || self.owner == oldSelf.owner", "message": "the owner stays"},
    ]
    properties = {
        "size": {"type": "string"},
        "owner": {"type": "string"},
        "names": {"type": "array", "items": {"type": "string"}},
    }
    await _define(client, {"type": "object", "properties": properties, "x-kubernetes-validations": rules})

    assert (await client.post(BOXES, _box("good", size="900Mi", names=["a"], owner="me"))).status == 201
    refused = await client.post(BOXES, _box("large", size="2Gi", names=["A"]))
    assert refused.status == 422
    assert [cause["message"] for cause in refused.body["details"]["causes"]] == [
        "Invalid value: too large: 2Gi",
        "Invalid value: lower case, please",
    ]
    unanswered = await client.post(BOXES, _box("bare", names=[]))
    assert "no such key: size" in unanswered.body["message"]

    changed = await client.apply(f"{BOXES}/good", _box("good", owner="you"), force="true")
    assert (changed.status, changed.body["details"]["causes"][0]["message"]) == (422, "Invalid value: the owner stays")


async def test_an_admission_policy_denies_by_its_parameters(client: Client) -> None:
    """Its variables are known to its validations."""
    spec = {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]
        },
        "matchConditions": [{"name": "ours", "expression": "object.metadata.name.startsWith('app-')"}],
        "variables": [{"name": "keys", "expression": "has(object.data) ? size(object.data) : 0"}],
        "validations": [{"expression": "variables.keys <= int(params.data.most)", "messageExpression": "'at most ' + params.data.most"}],
    }
    binding = {
        "policyName": "few-keys",
        "paramRef": {"name": "limits", "namespace": "rec", "parameterNotFoundAction": "Deny"},
        "validationActions": ["Deny"],
    }
    await client.post("/api/v1/namespaces/rec/configmaps", config_map("limits", {"most": "1"}))
    await client.post(f"{POLICIES}/validatingadmissionpolicies", {"metadata": {"name": "few-keys"}, "spec": spec})
    await client.post(f"{POLICIES}/validatingadmissionpolicybindings", {"metadata": {"name": "few-keys"}, "spec": binding})

    async def status(name: str, data: dict[str, str]) -> tuple[int, str]:
        answer = await client.post("/api/v1/namespaces/rec/configmaps", config_map(name, data))
        return answer.status, answer.body.get("message", "")

    assert await status("app-few", {"a": "1"}) == (201, "")
    assert await status("other", {"a": "1", "b": "2"}) == (201, "")
    code, message = await status("app-many", {"a": "1", "b": "2"})
    assert code == 422
    assert message.endswith("denied request: at most 1")


async def test_expressions_that_are_none_are_refused_with_their_definition(client: Client) -> None:
    """With the place in the expression; all versions of a definition that are alike are named once."""
    rules = [{"rule": "self.size <"}, {"rule": "nothing > 1"}, {"rule": "self.size > 1", "messageExpression": "'a' +"}]
    schema = {"type": "object", "properties": {"size": {"type": "integer"}}, "x-kubernetes-validations": rules}
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}} for name in ("v1", "v2")]
    spec = {"group": "example.org", "scope": "Namespaced", "names": {"plural": "boxes", "kind": "Box"}, "versions": versions}

    refused = await client.post(DEFINITIONS, {"metadata": {"name": "boxes.example.org"}, "spec": spec})

    place = "spec.validation.openAPIV3Schema.x-kubernetes-validations"
    causes = refused.body["details"]["causes"]
    assert [cause["field"] for cause in causes] == [f"{place}[0].rule", f"{place}[1].rule", f"{place}[2].messageExpression"]
    assert causes[0]["message"].startswith('Invalid value: {"Rule":"self.size \\u003c","Message":""')
    assert "ERROR: <input>:1:12: Syntax error: mismatched input '<EOF>'" in causes[0]["message"]
    assert causes[1]["message"].endswith("<input>:1:1: undeclared reference to 'nothing' (in container '')\n | nothing > 1\n | ^")


async def test_an_admission_policy_whose_expressions_are_none_is_refused(client: Client) -> None:
    """Each of them is named."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "variables": [{"name": "a", "expression": "1 +"}],
        "validations": [{"expression": "variables.a == 1"}, {"expression": "objekt.metadata.name == 'a'"}],
    }

    refused = await client.post(f"{POLICIES}/validatingadmissionpolicies", {"metadata": {"name": "wrong"}, "spec": spec})

    assert refused.status == 422
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == [
        "spec.variables[0].expression",
        "spec.validations[1].expression",
    ]
