"""What the gate has against planned writes: the shipped rules, rules of a file, actions, exemptions; and that it shows no secret."""

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.policies.judging import denial_of, judge
from delegate.model.policies.rules import SHIPPED, PolicyFileError, PolicySet, read_policies
from delegate.model.policies.violations import Operation, PolicyAction, Setting, Subject, Violation
from delegate.model.removals import describe_removal
from delegate.model.resources import JsonObject, Manifest, Origin, ResourceKey

VALUE = "hunter2-Zx9q"


def container(**fields: Any) -> JsonObject:
    return {
        "name": "main",
        "image": "registry.example/web:1.4.0",
        "readinessProbe": {"tcpSocket": {"port": 80}},
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        **fields,
    }


def workload(kind: str = "Deployment", *, pod: JsonObject | None = None, **fields: Any) -> JsonObject:
    spec = {"containers": [container(**fields)], **(pod or {})}
    body: JsonObject = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": "shop"}}
    match kind:
        case "Pod":
            return {**body, "apiVersion": "v1", "spec": spec}
        case "CronJob":
            return {**body, "apiVersion": "batch/v1", "spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}}
        case _:
            return {**body, "spec": {"replicas": 2, "template": {"spec": spec}}}


def config(**data: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "shop"}, "data": data}


def subject(body: JsonObject, old: JsonObject | None = None, operation: Operation = Operation.CREATE) -> Subject:
    manifest = Manifest(body, Origin("apps/web.yaml", 3))
    return Subject(manifest.key, operation, manifest, old)


def found(
    body: JsonObject, *, policies: PolicySet | None = None, environment: str = "dev", exempted: frozenset[str] = frozenset()
) -> tuple[Violation, ...]:
    setting = Setting("shop", environment, "shop", exempted)
    return judge(policies or PolicySet(), [subject(body)], setting)


def rules_of(violations: tuple[Violation, ...]) -> list[str]:
    return [violation.rule for violation in violations]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "Rollout", "Job", "CronJob", "Pod"])
def test_mutable_tags_are_denied_in_production_alone(kind: str) -> None:
    """Wherever a kind keeps its pods, an image tag that moves is denied where environment is prod, and nowhere else."""
    body = workload(kind, image="registry.example:5000/web:latest")

    (violation,) = found(body, environment="prod")

    assert (violation.rule, violation.action) == ("mutable-tags", PolicyAction.DENY)
    assert (violation.file, violation.line) == ("apps/web.yaml", 3)
    assert violation.object.endswith(f"{kind} shop/web")
    assert "registry.example:5000/web:latest" in violation.message
    assert "digest" in violation.hint
    assert found(body, environment="dev") == found(body, environment="") == ()


@pytest.mark.parametrize("image", ["web", "registry:5000/web", "web:latest", "web:prod", "web:stable", "a/b/web:main"])
def test_tags_that_move_and_no_tag_are_mutable(image: str) -> None:
    """No tag means latest; a port of the registry is no tag."""
    assert rules_of(found(workload(image=image), environment="prod")) == ["mutable-tags"]


@pytest.mark.parametrize("image", ["web:1.4.0", "registry:5000/web:v2", f"web@sha256:{'a' * 64}", f"web:latest@sha256:{'a' * 64}"])
def test_versions_and_digests_are_not_mutable(image: str) -> None:
    """A digest outweighs whatever tag stands before it."""
    assert found(workload(image=image), environment="prod") == ()


def test_init_containers_count_too() -> None:
    """An image that runs first can change the rest."""
    body = workload(pod={"initContainers": [{"name": "setup", "image": "tool:latest", "resources": container()["resources"]}]})

    (violation,) = found(body, environment="prod")

    assert "setup" in violation.message


def test_secrets_in_the_source_are_named_by_key() -> None:
    """Data and stringData of a Secret are warned of; an encrypted or an empty one is not."""
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db", "namespace": "shop"}}

    violations = found({**body, "data": {"password": base64.b64encode(VALUE.encode()).decode()}, "stringData": {"user": VALUE}})

    assert rules_of(violations) == ["plaintext-secrets"] * 2
    assert [violation.action for violation in violations] == [PolicyAction.WARN] * 2
    assert "password" in violations[0].message
    assert "user" in violations[1].message
    encrypted = "ENC[AES256_GCM,data:x,iv:y]"
    assert found({**body, "data": {"password": encrypted}}) == ()
    assert found({**body, "data": {"password": base64.b64encode(encrypted.encode()).decode()}}) == ()
    assert found({**body, "type": "kubernetes.io/service-account-token"}) == ()
    assert found({**body, "data": {"password": "x"}, "sops": {"mac": "y"}}) == ()


@pytest.mark.parametrize(
    "body",
    [
        workload(env=[{"name": "DB_PASSWORD", "value": VALUE}]),
        workload(args=["--api-token=" + VALUE]),
        config(password=VALUE),
        config(**{"app.properties": f"url=x\ndb.password={VALUE}\n"}),
        config(**{"app.yaml": f"db:\n  password: {VALUE}\n"}),
        config(**{"app.json": f'{{\n  "apiKey": "{VALUE}"\n}}\n'}),
        config(key="-----BEGIN RSA PRIVATE KEY-----\n" + VALUE + "\n-----END RSA PRIVATE KEY-----"),
        config(note="clone with ghp_" + "a1B2" * 9),
        {"apiVersion": "example/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {"auth": {"adminPassword": VALUE}}},
        {"apiVersion": "example/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {"keys": ["AKIA" + "ABCD" * 4]}},
    ],
)
def test_passwords_tokens_and_keys_are_found_in_any_object(body: JsonObject) -> None:
    """Environment, arguments, entries and files of ConfigMaps, fields of custom resources; named by place, not by value."""
    violations = found(body)

    assert rules_of(violations) == ["plaintext-credentials"]
    said = msgspec.json.encode(violations).decode() + str(violations[0]) + str(denial_of(violations[0]))
    assert VALUE not in said
    assert "a1B2" not in said


@pytest.mark.parametrize(
    "body",
    [
        workload(env=[{"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}]),
        workload(env=[{"name": "DB_PASSWORD", "value": "$(OTHER)"}, {"name": "TOKEN_FILE", "value": "/run/token"}]),
        workload(env=[{"name": "DB_PASSWORD", "value": ""}, {"name": "PASSWORD", "value": "/run/secrets/password"}]),
        workload(args=["--token=$(TOKEN)", "--password-file=/run/x", "--existing-secret=db"]),
        config(**{"app.yaml": "password: ${DB_PASSWORD}\ntokenTTL: 30m\n"}),
        config(**{"app.properties": "# password=\npassword=\n"}),
        {
            "apiVersion": "external-secrets.io/v1",
            "kind": "ExternalSecret",
            "metadata": {"name": "x"},
            "spec": {"data": [{"secretKey": "password", "remoteRef": {"key": "prod/db"}}], "existingSecret": "db"},
        },
    ],
)
def test_references_and_placeholders_are_no_secrets(body: JsonObject) -> None:
    """What names a secret that is kept elsewhere is how it should be."""
    assert found(body) == ()


def test_host_namespaces_and_privileges_are_warned_of() -> None:
    """Each one by itself, with the way to it in the message."""
    violations = found(workload(pod={"hostNetwork": True, "hostPID": True}, securityContext={"privileged": True}))

    assert rules_of(violations) == ["host-namespaces"] * 3
    assert {violation.action for violation in violations} == {PolicyAction.WARN}


def test_probes_and_resources_are_audited() -> None:
    """Workloads that serve want a readiness probe, every container its resources; Jobs need no probe."""
    bare: dict[str, Any] = {"readinessProbe": None, "resources": {"requests": {"cpu": 1}}}

    violations = found(workload(**bare))

    assert [(violation.rule, violation.action) for violation in violations] == [
        ("missing-probes", PolicyAction.AUDIT),
        ("missing-resources", PolicyAction.AUDIT),
    ]
    assert "resources.requests.memory, resources.limits.memory" in violations[1].message
    assert rules_of(found(workload("Job", **bare))) == ["missing-resources"]


def test_namespaces_can_be_allowed() -> None:
    """Where a file turns the rule on: by glob, with the Application's name; a Namespace object counts as one in itself."""
    policies = read_policies({"shipped": {"allowed-namespaces": {"action": "deny", "values": ["{application}", "shared-*"]}}})
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "x"}}
    elsewhere = {**workload(), "metadata": {"name": "web", "namespace": "other"}}

    assert rules_of(found(elsewhere, policies=policies)) == ["allowed-namespaces"]
    assert rules_of(found(namespace, policies=policies)) == ["allowed-namespaces"]
    assert found(workload(), policies=policies) == found(role, policies=policies) == ()


def test_a_file_changes_shipped_rules_field_by_field() -> None:
    """What it does not name stays as shipped."""
    policies = read_policies({"shipped": {"mutable-tags": {"action": "warn"}, "plaintext-secrets": {"action": False}}})

    assert policies.shipped["mutable-tags"] == msgspec.structs.replace(SHIPPED["mutable-tags"], action=PolicyAction.WARN)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "stringData": {"a": "b"}}
    assert found(secret, policies=policies) == ()
    assert read_policies(None) == read_policies({}) == PolicySet()


def custom(**fields: Any) -> PolicySet:
    rule = {"name": "two-replicas", "expression": "object.spec.replicas >= 3", "match": {"kinds": ["apps/Deployment"]}, **fields}
    return read_policies({"rules": [rule]})


def test_a_rule_in_cel_is_true_where_all_is_well() -> None:
    """Its message may be made of the object; kinds that it does not match are left alone."""
    policies = custom(messageExpression="object.metadata.name + ' has ' + string(object.spec.replicas)", hint="raise it")

    (violation,) = found(workload(), policies=policies)

    assert (violation.rule, violation.action, violation.message, violation.hint) == (
        "two-replicas",
        PolicyAction.DENY,
        "web has 2",
        "raise it",
    )
    assert found(workload("StatefulSet"), policies=policies) == ()


def test_a_rule_without_words_says_its_expression() -> None:
    """And a static message where there is one."""
    assert found(workload(), policies=custom())[0].message == "does not hold: object.spec.replicas >= 3"
    assert found(workload(), policies=custom(message="too few"))[0].message == "too few"
    assert found(workload(), policies=custom(message="too few", messageExpression="object.nothing"))[0].message == "too few"


def test_a_rule_compares_with_the_object_that_is_there() -> None:
    """oldObject is null for a creation; a deletion has no object."""
    policies = read_policies(
        {
            "rules": [
                {"name": "no-shrinking", "expression": "oldObject == null || object.spec.replicas >= oldObject.spec.replicas"},
                {"name": "keep", "expression": "object != null", "match": {"operations": ["DELETE"]}},
            ]
        }
    )
    old = {**workload(), "spec": {"replicas": 5}}
    setting = Setting("shop")
    gone = Subject(ResourceKey("apps", "Deployment", "shop", "web"), Operation.DELETE, None, old)

    assert policies.reads_old_objects
    assert rules_of(judge(policies, [subject(workload(), old, Operation.UPDATE)], setting)) == ["no-shrinking"]
    assert judge(policies, [subject(workload())], setting) == ()
    assert rules_of(judge(policies, [gone], setting)) == ["keep"]


def test_a_rule_sees_where_the_object_goes() -> None:
    """Application, environment, destination and operation beside the objects."""
    expression = (
        "object.kind == 'Deployment' && oldObject == null && operation == 'CREATE' && application == 'shop'"
        " && environment == 'prod' && destination.namespace == 'shop'"
    )

    assert found(workload(), policies=custom(expression=expression), environment="prod") == ()
    assert rules_of(found(workload(), policies=custom(expression=expression))) == ["two-replicas"]


@pytest.mark.parametrize("expression", ["object.spec.missing > 1", "object.spec.replicas", "object.spec.replicas > 'x'"])
def test_a_rule_that_can_not_be_decided_is_broken(expression: str) -> None:
    """No answer is no yes, unless the rule says Ignore."""
    assert "can't be decided" in found(workload(), policies=custom(expression=expression))[0].message
    assert found(workload(), policies=custom(expression=expression, failurePolicy="Ignore")) == ()


def test_an_application_is_exempt_only_where_the_rule_allows() -> None:
    """An exemption that counts is audited; one that does not is denied with the reason."""
    asked = frozenset({"mutable-tags"})
    body = workload(image="web:latest")
    allowing = read_policies({"shipped": {"mutable-tags": {"mayBeExempt": ["sh*"]}}})
    others = read_policies({"shipped": {"mutable-tags": {"mayBeExempt": ["legacy"]}}})

    (exempt,) = found(body, environment="prod", policies=allowing, exempted=asked)
    assert (exempt.action, exempt.exempt) == (PolicyAction.AUDIT, True)
    for policies in (others, PolicySet()):
        (denied,) = found(body, environment="prod", policies=policies, exempted=asked)
        assert (denied.action, denied.exempt) == (PolicyAction.DENY, False)
        assert "mayBeExempt" in denied.hint
    assert found(body, environment="prod", policies=allowing)[0].action is PolicyAction.DENY


def test_values_of_secrets_reach_no_message() -> None:
    """A rule decides by them, but what it says is made of the masked object."""
    policies = read_policies(
        {
            "rules": [
                {
                    "name": "long-passwords",
                    "expression": "size(object.stringData.password) > 40",
                    "messageExpression": "'short: ' + object.stringData.password + string(object.metadata.annotations.size())",
                },
                {"name": "broken", "expression": "int(object.stringData.password) > 1"},
            ],
            "shipped": {"plaintext-secrets": {"action": "off"}},
        }
    )
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "db", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": VALUE}},
        "stringData": {"password": VALUE},
    }

    violations = found(body, policies=policies)

    assert violations[0].message == "short: (hidden)0"
    assert VALUE not in msgspec.json.encode(violations).decode()


@pytest.mark.parametrize(
    ("document", "field", "hint"),
    [
        ({"shiped": {}}, "shiped", "did you mean shipped?"),
        ({"shipped": {"mutable-tag": {}}}, "shipped.mutable-tag", "did you mean mutable-tags?"),
        ({"shipped": {"mutable-tags": {"actoin": "deny"}}}, "shipped.mutable-tags.actoin", "did you mean action?"),
        ({"shipped": {"mutable-tags": {"action": "refuse"}}}, "shipped[].action", ""),
        ({"rules": [{"name": "a", "expression": "true", "mesage": "x"}]}, "rules[0].mesage", "did you mean message?"),
        ({"rules": [{"name": "a", "expression": "true", "match": {"kind": []}}]}, "rules[0].match.kind", "did you mean kinds?"),
        ({"rules": [{"name": "a", "expression": "object.spec ||"}]}, "rules[0].expression", ""),
        ({"rules": [{"name": "a", "expression": "obj.spec"}]}, "rules[0].expression", "the variables are"),
        ({"rules": [{"name": "a", "expression": "object.?spec"}]}, "rules[0].expression", ""),
        ({"rules": [{"name": "a", "expression": "true", "messageExpression": "x("}]}, "rules[0].messageExpression", ""),
        ({"rules": [{"name": "a", "expression": "true"}, {"name": "a", "expression": "true"}]}, "rules[1].name", "exemptions"),
        ({"rules": [{"name": "mutable-tags", "expression": "true"}]}, "rules[0].name", "exemptions"),
        ({"rules": [{"name": "a"}]}, "rules[0]", ""),
        ([], "", ""),
    ],
)
def test_a_policy_file_that_can_not_be_meant_is_refused(document: object, field: str, hint: str) -> None:
    """With the way to the field, and the nearest name where it is unknown."""
    with pytest.raises(PolicyFileError) as refused:
        read_policies(document)

    assert refused.value.field in (field, field.replace("[0]", "[]"))
    assert hint in refused.value.hint


def test_removed_versions_are_known_with_what_replaces_them() -> None:
    """By version and kind; what is still served, or isn't known, is no removal."""
    assert "networking.k8s.io/v1" in describe_removal("extensions/v1beta1", "Ingress")
    assert "1.25" in describe_removal("policy/v1beta1", "PodDisruptionBudget")
    assert "nothing replaces it" in describe_removal("policy/v1beta1", "PodSecurityPolicy")
    assert describe_removal("apps/v1", "Deployment") == describe_removal("example/v1", "Thing") == ""


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "template", "containers", "env", "name", "value", "password", "data", "image"]), inner, max_size=4
        )
    ),
    max_leaves=25,
)


@given(_json, st.sampled_from(["Secret", "ConfigMap", "Deployment", "CronJob", "Pod", "Thing"]))
def test_objects_of_any_shape_are_judged(spec: Any, kind: str) -> None:
    """Whatever stands where something else is expected, the gate gives an answer."""
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, "spec": spec, "data": spec, "stringData": spec}

    for violation in found(body, environment="prod"):
        assert violation.rule in SHIPPED
