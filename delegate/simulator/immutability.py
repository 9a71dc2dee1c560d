"""Changes that are refused on existing objects, kind by kind, with the causes that prove it."""

from collections.abc import Callable
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.gostructs import claim_difference, job_template, role_reference
from delegate.simulator.kinds import Resource
from delegate.simulator.statuses import Cause

STATEFUL_SET_TEXT = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit',"
    " 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
IMMUTABLE = "field is immutable"
_EXPOSED = ("NodePort", "LoadBalancer")


def keep(resource: Resource, body: JsonObject, old: JsonObject) -> None:
    """Fields that an update may leave out and that the server then keeps, in place (a Service's addresses and node ports)."""
    match resource.group, resource.kind:
        case "", "Service":
            _keep_service(body["spec"], old["spec"])
        case "", "PersistentVolumeClaim":
            for key in ("volumeName", "storageClassName"):
                if key in old["spec"]:
                    body["spec"].setdefault(key, old["spec"][key])
        case "", "ServiceAccount":
            if "secrets" in old:
                body.setdefault("secrets", old["secrets"])
        case _:
            pass


def _keep_service(spec: JsonObject, old: JsonObject) -> None:
    if spec.get("type") == "ExternalName":
        for key in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
            if spec.get(key) == old.get(key):
                spec.pop(key, None)
        return
    if old.get("type") == "ExternalName":
        return
    _keep_addresses(spec, old)
    if spec.get("type") in _EXPOSED:
        _keep_node_ports(spec, old)
    elif old.get("type") in _EXPOSED:
        _drop_node_ports(spec, old)


def _keep_addresses(spec: JsonObject, old: JsonObject) -> None:
    given = "clusterIP" in spec
    for key in ("clusterIP", "ipFamilies", "ipFamilyPolicy"):
        if key in old:
            spec.setdefault(key, old[key])
    if given and spec["clusterIP"] != old.get("clusterIP") and spec.get("clusterIPs") == old.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    elif "clusterIPs" in old:
        spec.setdefault("clusterIPs", old["clusterIPs"])


def _keep_node_ports(spec: JsonObject, old: JsonObject) -> None:
    if "healthCheckNodePort" in old and spec.get("externalTrafficPolicy") == "Local":
        spec.setdefault("healthCheckNodePort", old["healthCheckNodePort"])
    before = {(port.get("protocol"), port.get("port")): port.get("nodePort") for port in old.get("ports") or ()}
    for port in spec.get("ports") or ():
        number = before.get((port.get("protocol"), port.get("port")))
        if number and not port.get("nodePort"):
            port["nodePort"] = number


def _drop_node_ports(spec: JsonObject, old: JsonObject) -> None:
    held = {port.get("nodePort") for port in old.get("ports") or ()}
    for port in spec.get("ports") or ():
        if port.get("nodePort") in held:
            port.pop("nodePort", None)
    for key in ("externalTrafficPolicy", "allocateLoadBalancerNodePorts"):
        if key in old:
            spec.pop(key, None)


Rule = Callable[[JsonObject, JsonObject], list[Cause]]


def comes_first(resource: Resource) -> bool:
    """Whether the server names forbidden changes before what is wrong with the new object itself."""
    return (resource.group, resource.kind) in (("", "Service"), ("", "Secret"), ("", "ConfigMap"))


def check(resource: Resource, body: JsonObject, old: JsonObject, subresource: str) -> list[Cause]:
    """The causes for which a change is refused."""
    if subresource == "status":
        return []
    rule = _TABLE.get((resource.group, resource.kind))
    return rule(body, old) if rule else []


def _field(*path: str) -> Rule:
    """The value at a path may not change."""

    def rule(body: JsonObject, old: JsonObject) -> list[Cause]:
        new, before = _at(body, path), _at(old, path)
        return [] if new == before else [statuses.invalid_value(".".join(path), new, IMMUTABLE)]

    return rule


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _stateful_set(body: JsonObject, old: JsonObject) -> list[Cause]:
    allowed: tuple[str, ...] = ("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit")
    allowed += ("persistentVolumeClaimRetentionPolicy", "minReadySeconds")

    def rest(spec: JsonObject) -> JsonObject:
        return {key: value for key, value in spec.items() if key not in allowed}

    return [] if rest(body["spec"]) == rest(old["spec"]) else [statuses.forbidden_value("spec", STATEFUL_SET_TEXT)]


def _job(body: JsonObject, old: JsonObject) -> list[Cause]:
    new, before = body["spec"], old["spec"]
    causes = []
    if new.get("completions") != before.get("completions"):
        causes.append(statuses.invalid_value("spec.completions", new.get("completions"), IMMUTABLE))
    if new.get("selector") != before.get("selector"):
        causes.append(statuses.invalid_value("spec.selector", new.get("selector"), IMMUTABLE))
    if new["template"] != before["template"] and not _may_change_template(new["template"], before):
        causes.append(statuses.invalid_value("spec.template", job_template(new["template"]), IMMUTABLE))
    fixed = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
    changed = [key for key in fixed if new.get(key) != before.get(key)]
    return causes + [statuses.invalid_value(f"spec.{key}", new.get(key), IMMUTABLE) for key in changed]


def _may_change_template(template: JsonObject, old: JsonObject) -> bool:
    """A suspended Job that never started may change where its pods are scheduled."""
    if not old.get("suspend"):
        return False
    free = ("nodeSelector", "tolerations", "affinity", "schedulingGates")

    def rest(item: JsonObject) -> JsonObject:
        return {key: value for key, value in item["spec"].items() if key not in free}

    return rest(template) == rest(old["template"])


def _service(body: JsonObject, old: JsonObject) -> list[Cause]:
    new, before = body["spec"], old["spec"]
    if "ExternalName" in (new.get("type"), before.get("type")):
        return []
    if before.get("clusterIP") and new.get("clusterIPs") != before.get("clusterIPs"):
        return [statuses.invalid_value("spec.clusterIPs[0]", new.get("clusterIPs"), "may not change once set")]
    return []


def _configuration(kind: str) -> Rule:
    def rule(body: JsonObject, old: JsonObject) -> list[Cause]:
        causes = []
        if kind == "Secret" and body.get("type") != old.get("type"):
            causes.append(statuses.invalid_value("type", body.get("type"), IMMUTABLE))
        if not old.get("immutable"):
            return causes
        text = "field is immutable when `immutable` is set"
        if not body.get("immutable"):
            causes.append(statuses.forbidden_value("immutable", text))
        causes += [statuses.forbidden_value(key, text) for key in ("data", "binaryData") if (body.get(key) or {}) != (old.get(key) or {})]
        return causes

    return rule


def _binding(body: JsonObject, old: JsonObject) -> list[Cause]:
    if body["roleRef"] == old["roleRef"]:
        return []
    return [statuses.invalid_value("roleRef", role_reference(body["roleRef"]), "cannot change roleRef")]


def _claim(body: JsonObject, old: JsonObject) -> list[Cause]:
    new, before = body["spec"], old["spec"]
    bound = (old.get("status") or {}).get("phase") == "Bound"
    free = ("resources", "volumeAttributesClassName") if bound else ()

    def rest(spec: JsonObject) -> JsonObject:
        ignored = (*free, "volumeName") if not before.get("volumeName") else free
        return {key: value for key, value in spec.items() if key not in ignored}

    if rest(new) == rest(before):
        return []
    text = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
    return [statuses.forbidden_value("spec", f"{text}\n{claim_difference(before, new)}")]


def _pod(body: JsonObject, old: JsonObject) -> list[Cause]:
    def fixed(spec: JsonObject) -> JsonObject:
        kept = {
            key: value
            for key, value in spec.items()
            if key not in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates", "nodeName")
        }
        for key in ("containers", "initContainers"):
            if key in kept:
                kept[key] = [
                    {name: value for name, value in item.items() if name not in ("image", "resources")} for item in kept[key] or ()
                ]
        return kept

    if fixed(body["spec"]) == fixed(old["spec"]):
        return []
    text = (
        "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
        "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds`"
        " (allow it to be set to 1 if it was previously negative)"
    )
    return [statuses.forbidden_value("spec", text)]


def _storage_class(body: JsonObject, old: JsonObject) -> list[Cause]:
    causes = []
    if body.get("parameters") != old.get("parameters"):
        causes.append(statuses.forbidden_value("parameters", "updates to parameters are forbidden."))
    if body.get("provisioner") != old.get("provisioner"):
        causes.append(statuses.invalid_value("provisioner", body.get("provisioner", ""), IMMUTABLE))
    if body.get("reclaimPolicy") != old.get("reclaimPolicy"):
        causes.append(statuses.forbidden_value("reclaimPolicy", "updates to reclaimPolicy are forbidden."))
    if body.get("volumeBindingMode") != old.get("volumeBindingMode"):
        causes.append(statuses.invalid_value("volumeBindingMode", body.get("volumeBindingMode"), IMMUTABLE))
    return causes


def _definition(body: JsonObject, old: JsonObject) -> list[Cause]:
    paths = (("spec", "group"), ("spec", "scope"), ("spec", "names", "kind"), ("spec", "names", "plural"))
    causes = [statuses.invalid_value(".".join(path), _at(body, path), IMMUTABLE) for path in paths if _at(body, path) != _at(old, path)]
    names = [version["name"] for version in body["spec"].get("versions") or ()]
    for index, stored in enumerate((old.get("status") or {}).get("storedVersions") or ()):
        if stored not in names:
            text = (
                f"missing from spec.versions; {stored} was previously a storage version, and must remain in spec.versions until a storage"
            )
            text += f" migration ensures no data remains persisted in {stored} and removes {stored} from status.storedVersions"
            causes.append(statuses.invalid_value(f"status.storedVersions[{index}]", stored, text))
    return causes


def _priority_class(body: JsonObject, old: JsonObject) -> list[Cause]:
    text = "may not be changed in an update."
    return [statuses.forbidden_value(key, text) for key in ("value", "preemptionPolicy") if body.get(key) != old.get(key)]


_TABLE: dict[tuple[str, str], Rule] = {
    ("apps", "Deployment"): _field("spec", "selector"),
    ("apps", "ReplicaSet"): _field("spec", "selector"),
    ("apps", "DaemonSet"): _field("spec", "selector"),
    ("apps", "ControllerRevision"): _field("data"),
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "Job"): _job,
    ("", "Service"): _service,
    ("", "Secret"): _configuration("Secret"),
    ("", "ConfigMap"): _configuration("ConfigMap"),
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Pod"): _pod,
    ("rbac.authorization.k8s.io", "RoleBinding"): _binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _binding,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("networking.k8s.io", "IngressClass"): _field("spec", "controller"),
    ("node.k8s.io", "RuntimeClass"): _field("handler"),
    ("discovery.k8s.io", "EndpointSlice"): _field("addressType"),
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
}
