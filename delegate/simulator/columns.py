"""What kubectl shows of the built-in kinds: the columns of the server's printers (kubernetes `printers/internalversion`)."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator.selectors import shown_selector
from delegate.simulator.times import elapsed

NONE = "<none>"
UNSET = "<unset>"
MOST_ENDPOINTS = 3
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


class Column(msgspec.Struct, frozen=True):
    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0

    def body(self) -> JsonObject:
        return {"name": self.name, "type": self.type, "format": self.format, "description": "", "priority": self.priority}


class Printer(msgspec.Struct, frozen=True):
    """The columns of a kind and the cells of one object, in that order."""

    columns: tuple[Column, ...]
    cells: Callable[[JsonObject, str], list[Any]]


def _columns(text: str) -> tuple[Column, ...]:
    """`Ready`, `Desired:integer`, `Images+` (for wide output only)."""
    found = [Column("Name", "string", "name")]
    for part in text.split(","):
        name, _, kind = part.strip().rstrip("+").partition(":")
        found.append(Column(name, kind or "string", "", 1 if part.strip().endswith("+") else 0))
    return tuple(found)


def shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _name(body: JsonObject) -> str:
    name: str = body["metadata"].get("name", "")
    return name


def _age(body: JsonObject, now: str) -> str:
    return elapsed(body["metadata"].get("creationTimestamp"), now)


def _status(body: JsonObject) -> JsonObject:
    return body.get("status") or {}


def _pod_spec(body: JsonObject) -> JsonObject:
    template = body["spec"].get("template") or body["spec"].get("jobTemplate", {}).get("spec", {}).get("template") or {}
    return template.get("spec") or {}


def _containers(spec: JsonObject) -> list[str]:
    containers = spec.get("containers") or ()
    return [",".join(item.get("name", "") for item in containers), ",".join(item.get("image", "") for item in containers)]


def _selected(selector: Any) -> str:
    return (shown_selector(selector) if selector else "") or NONE


def _labels(selector: Any) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((selector or {}).items())) or NONE


def _deployment(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], _status(body)
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [_name(body), ready, *counts, _age(body, now), *_containers(_pod_spec(body)), _selected(spec.get("selector"))]


def _replica_set(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], _status(body)
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    selector = spec.get("selector")
    text = _selected(selector) if body.get("kind") == "ReplicaSet" else _labels(selector)
    return [_name(body), *counts, _age(body, now), *_containers(_pod_spec(body)), text]


def _stateful_set(body: JsonObject, now: str) -> list[Any]:
    ready = f"{_status(body).get('readyReplicas', 0)}/{body['spec'].get('replicas', 1)}"
    return [_name(body), ready, _age(body, now), *_containers(_pod_spec(body))]


def _daemon_set(body: JsonObject, now: str) -> list[Any]:
    status, pod = _status(body), _pod_spec(body)
    keys = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable")
    counts = [status.get(key, 0) for key in keys]
    nodes = _labels(pod.get("nodeSelector"))
    return [_name(body), *counts, nodes, _age(body, now), *_containers(pod), _selected(body["spec"].get("selector"))]


def _job(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], _status(body)
    wanted, parallel = spec.get("completions"), spec.get("parallelism", 1)
    done = status.get("succeeded", 0)
    of_all = f"1 of {parallel}" if parallel > 1 else "1"
    completions = f"{done}/{wanted if wanted is not None else of_all}"
    true = {item["type"] for item in status.get("conditions") or () if item.get("status") == "True"}
    states = (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended"), ("FailureTarget", "FailureTarget"))
    state = next((word for kind, word in states if kind in true), "Terminating" if _leaves(body) else "Running")
    duration = ""
    if status.get("startTime"):
        duration = elapsed(status["startTime"], status.get("completionTime") or now)
    return [_name(body), state, completions, duration, _age(body, now), *_containers(_pod_spec(body)), _selected(spec.get("selector"))]


def _leaves(body: JsonObject) -> bool:
    return bool(body["metadata"].get("deletionTimestamp"))


def _cron_job(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], _status(body)
    last = elapsed(status["lastScheduleTime"], now) if status.get("lastScheduleTime") else NONE
    head = [spec.get("schedule", ""), spec.get("timeZone", NONE), "True" if spec.get("suspend") else "False"]
    selector = spec.get("jobTemplate", {}).get("spec", {}).get("selector")
    return [_name(body), *head, len(status.get("active") or ()), last, _age(body, now), *_containers(_pod_spec(body)), _selected(selector)]


def _pod(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], _status(body)
    statuses = status.get("containerStatuses") or []
    reason = status.get("reason") or status.get("phase", "")
    restarts, ready, running = 0, 0, False
    for item in reversed(statuses):
        restarts += item.get("restartCount", 0)
        state = item.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
        elif item.get("ready") and "running" in state:
            running = True
            ready += 1
    if reason == "Completed" and running:
        conditions = {item["type"]: item.get("status") for item in status.get("conditions") or ()}
        reason = "Running" if conditions.get("Ready") == "True" else "NotReady"
    if _leaves(body):
        reason = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    total = len(spec.get("containers") or ())
    wide = [status.get("podIP") or NONE, spec.get("nodeName") or NONE, status.get("nominatedNodeName") or NONE, NONE]
    return [_name(body), f"{ready}/{total}", reason, _restarts(statuses, restarts, now), _age(body, now), *wide]


def _restarts(statuses: list[JsonObject], count: int, now: str) -> str:
    ends = [(item.get("lastState") or {}).get("terminated", {}).get("finishedAt") for item in statuses]
    last = max((end for end in ends if end), default=None)
    return f"{count} ({elapsed(last, now)} ago)" if count and last else str(count)


def _service(body: JsonObject, now: str) -> list[Any]:
    spec = body["spec"]
    kind = spec.get("type", "")
    given = [item.get("ip") or item.get("hostname", "") for item in _status(body).get("loadBalancer", {}).get("ingress") or ()]
    match kind:
        case "ExternalName":
            outside = spec.get("externalName", "")
        case "LoadBalancer":
            outside = ",".join([*given, *(spec.get("externalIPs") or ())]) or "<pending>"
        case _:
            outside = ",".join(spec.get("externalIPs") or ()) or NONE
    ports = ",".join(_port(port) for port in spec.get("ports") or ()) or NONE
    return [_name(body), kind, spec.get("clusterIP") or NONE, outside, ports, _age(body, now), _labels(spec.get("selector"))]


def _port(port: JsonObject) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node}/{port.get('protocol', 'TCP')}"


def _config_map(body: JsonObject, now: str) -> list[Any]:
    return [_name(body), len(body.get("data") or ()) + len(body.get("binaryData") or ()), _age(body, now)]


def _secret(body: JsonObject, now: str) -> list[Any]:
    return [_name(body), body.get("type", ""), len(body.get("data") or ()), _age(body, now)]


def _namespace(body: JsonObject, now: str) -> list[Any]:
    return [_name(body), _status(body).get("phase", ""), _age(body, now)]


def _node(body: JsonObject, now: str) -> list[Any]:
    status = _status(body)
    ready = next((item.get("status") for item in status.get("conditions") or () if item["type"] == "Ready"), None)
    words = ["Ready" if ready == "True" else "NotReady" if ready else "Unknown"]
    if body["spec"].get("unschedulable"):
        words.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    roles = ",".join(sorted(key.removeprefix(prefix) for key in body["metadata"].get("labels") or () if key.startswith(prefix))) or NONE
    addresses = {item["type"]: item["address"] for item in status.get("addresses") or ()}
    info = status.get("nodeInfo") or {}
    unknown = "<unknown>"
    wide = [addresses.get("InternalIP", NONE), addresses.get("ExternalIP", NONE)]
    wide += [info.get(key) or unknown for key in ("osImage", "kernelVersion", "containerRuntimeVersion")]
    return [_name(body), ",".join(words), roles, _age(body, now), info.get("kubeletVersion", ""), *wide]


def _modes(modes: Iterable[str]) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in modes)


def _claim(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], _status(body)
    phase = "Terminating" if _leaves(body) else status.get("phase", "")
    bound = bool(spec.get("volumeName"))
    size = status.get("capacity", {}).get("storage", "") if bound else ""
    head = [phase, spec.get("volumeName", ""), size, _modes(status.get("accessModes") or ()) if bound else ""]
    classes = [spec.get("storageClassName", ""), spec.get("volumeAttributesClassName") or UNSET]
    return [_name(body), *head, *classes, _age(body, now), spec.get("volumeMode", UNSET)]


def _volume(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], _status(body)
    claim = spec.get("claimRef") or {}
    phase = "Terminating" if _leaves(body) else status.get("phase", "")
    owner = f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""
    head = [spec.get("capacity", {}).get("storage", ""), _modes(spec.get("accessModes") or ())]
    head += [spec.get("persistentVolumeReclaimPolicy", ""), phase, owner, spec.get("storageClassName", "")]
    tail = [spec.get("volumeAttributesClassName") or UNSET, status.get("reason", ""), _age(body, now), spec.get("volumeMode", UNSET)]
    return [_name(body), *head, *tail]


def _only_age(body: JsonObject, now: str) -> list[Any]:
    return [_name(body), _age(body, now)]


def _created(body: JsonObject, _now: str) -> list[Any]:
    return [_name(body), body["metadata"].get("creationTimestamp", "")]


def _event(body: JsonObject, now: str) -> list[Any]:
    subject = body.get("involvedObject") or body.get("regarding") or {}
    first = body.get("firstTimestamp") or body.get("deprecatedFirstTimestamp") or body.get("eventTime")
    last = (body.get("series") or {}).get("lastObservedTime") or body.get("lastTimestamp") or body.get("deprecatedLastTimestamp") or first
    source = body.get("source") or body.get("deprecatedSource") or {}
    component = source.get("component") or body.get("reportingComponent") or body.get("reportingController", "")
    named = f"{subject.get('kind', '').lower()}/{subject.get('name', '')}"
    text = (body.get("message") or body.get("note") or "").strip()
    count = (body.get("series") or {}).get("count") or body.get("count") or body.get("deprecatedCount") or 1
    head = [elapsed(last, now), body.get("type", ""), body.get("reason", ""), named, subject.get("fieldPath", ""), component]
    return [*head, text, elapsed(first, now), count, _name(body)]


def _endpoints(body: JsonObject, now: str) -> list[Any]:
    found = [
        f"{address.get('ip', '')}:{port.get('port', 0)}"
        for subset in body.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return [_name(body), _some(found), _age(body, now)]


def _some(found: list[str]) -> str:
    more = f" + {len(found) - MOST_ENDPOINTS} more..." if len(found) > MOST_ENDPOINTS else ""
    return (",".join(found[:MOST_ENDPOINTS]) or NONE) + more


def _slice(body: JsonObject, now: str) -> list[Any]:
    ports = [str(port.get("port", "*")) for port in body.get("ports") or ()]
    found = [address for endpoint in body.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    return [_name(body), body.get("addressType", ""), _some(ports) if ports else UNSET, _some(found) if found else UNSET, _age(body, now)]


def _ingress(body: JsonObject, now: str) -> list[Any]:
    spec = body["spec"]
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    given = _status(body).get("loadBalancer", {}).get("ingress") or ()
    address = ",".join(item.get("ip") or item.get("hostname", "") for item in given)
    ports = "80, 443" if spec.get("tls") else "80"
    return [_name(body), spec.get("ingressClassName", NONE), ",".join(hosts) or "*", address, ports, _age(body, now)]


def _network_policy(body: JsonObject, now: str) -> list[Any]:
    return [_name(body), _selected(body["spec"].get("podSelector")), _age(body, now)]


def _budget(body: JsonObject, now: str) -> list[Any]:
    spec = body["spec"]
    bounds = [str(spec.get(key, "N/A")) for key in ("minAvailable", "maxUnavailable")]
    return [_name(body), *bounds, _status(body).get("disruptionsAllowed", 0), _age(body, now)]


def _autoscaler(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], _status(body)
    target = spec.get("scaleTargetRef") or {}
    parts = []
    for metric in spec.get("metrics") or ():
        resource = metric.get("resource")
        if resource is None:
            parts.append("<unknown>")
            continue
        wanted = resource["target"]
        goal = f"{wanted['averageUtilization']}%" if "averageUtilization" in wanted else wanted.get("averageValue", "<auto>")
        parts.append(f"{resource.get('name', '')}: <unknown>/{goal}")
    targets = ", ".join(parts) or NONE
    low = str(spec["minReplicas"]) if "minReplicas" in spec else UNSET
    named = f"{target.get('kind', '')}/{target.get('name', '')}"
    return [_name(body), named, targets, low, spec.get("maxReplicas", 0), status.get("currentReplicas", 0), _age(body, now)]


def _binding(body: JsonObject, now: str) -> list[Any]:
    role = body["roleRef"]
    found: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in body.get("subjects") or ():
        text = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            text = f"{subject.get('namespace', '')}/{text}"
        found.setdefault(subject.get("kind", ""), []).append(text)
    lists = [", ".join(found[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [_name(body), f"{role.get('kind', '')}/{role.get('name', '')}", _age(body, now), *lists]


def _storage_class(body: JsonObject, now: str) -> list[Any]:
    default = (body["metadata"].get("annotations") or {}).get("storageclass.kubernetes.io/is-default-class") == "true"
    name = _name(body) + (" (default)" if default else "")
    policy = [body.get("provisioner", ""), body.get("reclaimPolicy", ""), body.get("volumeBindingMode", "")]
    return [name, *policy, body.get("allowVolumeExpansion", False), _age(body, now)]


def _priority_class(body: JsonObject, now: str) -> list[Any]:
    return [_name(body), body.get("value", 0), body.get("globalDefault", False), _age(body, now), body.get("preemptionPolicy", "")]


def _lease(body: JsonObject, now: str) -> list[Any]:
    return [_name(body), (body.get("spec") or {}).get("holderIdentity", ""), _age(body, now)]


def _quota(body: JsonObject, now: str) -> list[Any]:
    status = _status(body)
    used = status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name, hard in sorted((status.get("hard") or {}).items()):
        (limits if name.startswith("limits.") else requests).append(f"{name}: {used.get(name, '0')}/{hard}")
    return [_name(body), ", ".join(requests), ", ".join(limits), _age(body, now)]


def _revision(body: JsonObject, now: str) -> list[Any]:
    owner = next((item for item in body["metadata"].get("ownerReferences") or () if item.get("controller")), None)
    group = owner["apiVersion"].rpartition("/")[0] if owner else ""
    named = f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}" if owner else NONE
    return [_name(body), named, body.get("revision", 0), _age(body, now)]


def _webhooks(body: JsonObject, now: str) -> list[Any]:
    return [_name(body), len(body.get("webhooks") or ()), _age(body, now)]


def _ingress_class(body: JsonObject, now: str) -> list[Any]:
    spec = body.get("spec") or {}
    given = spec.get("parameters")
    parameters = NONE
    if given:
        group = f".{given['apiGroup']}" if given.get("apiGroup") else ""
        parameters = f"{given.get('kind', '')}{group}/{given.get('name', '')}"
    return [_name(body), spec.get("controller", ""), parameters, _age(body, now)]


_WORKLOAD = "Containers+, Images+, Selector+"
_EVENTS = _columns("Last Seen, Type, Reason, Object, Subobject+, Source+, Message, First Seen+, Count+")
_EVENT_COLUMNS = (*_EVENTS[1:], Column("Name", "string", "name", 1))
_RBAC = "rbac.authorization.k8s.io"
_BINDINGS = Printer(_columns("Role, Age, Users+, Groups+, ServiceAccounts+"), _binding)
_REPLICAS = Printer(_columns(f"Desired:integer, Current:integer, Ready:integer, Age, {_WORKLOAD}"), _replica_set)
_CREATED_AT = Printer(_columns("Created At:date"), _created)
_VOLUME_COLUMNS = "Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, Age, VolumeMode+"
_CLAIM_COLUMNS = "Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, VolumeMode+"
_NODE_COLUMNS = "Status, Roles, Age, Version, Internal-IP+, External-IP+, OS-Image+, Kernel-Version+, Container-Runtime+"
_SET_COLUMNS = "Desired:integer, Current:integer, Ready:integer, Up-to-date:integer, Available:integer, Node Selector, Age, " + _WORKLOAD
_CRON_COLUMNS = f"Schedule, Timezone, Suspend:boolean, Active:integer, Last Schedule, Age, {_WORKLOAD}"

PRINTERS: dict[tuple[str, str], Printer] = {
    ("apps", "Deployment"): Printer(_columns(f"Ready, Up-to-date, Available, Age, {_WORKLOAD}"), _deployment),
    ("apps", "ReplicaSet"): _REPLICAS,
    ("", "ReplicationController"): _REPLICAS,
    ("apps", "StatefulSet"): Printer(_columns("Ready, Age, Containers+, Images+"), _stateful_set),
    ("apps", "DaemonSet"): Printer(_columns(_SET_COLUMNS), _daemon_set),
    ("apps", "ControllerRevision"): Printer(_columns("Controller, Revision, Age"), _revision),
    ("batch", "Job"): Printer(_columns(f"Status, Completions, Duration, Age, {_WORKLOAD}"), _job),
    ("batch", "CronJob"): Printer(_columns(_CRON_COLUMNS), _cron_job),
    ("", "Pod"): Printer(_columns("Ready, Status, Restarts, Age, IP+, Node+, Nominated Node+, Readiness Gates+"), _pod),
    ("", "Service"): Printer(_columns("Type, Cluster-IP, External-IP, Port(s), Age, Selector+"), _service),
    ("", "ConfigMap"): Printer(_columns("Data, Age"), _config_map),
    ("", "Secret"): Printer(_columns("Type, Data, Age"), _secret),
    ("", "Namespace"): Printer(_columns("Status, Age"), _namespace),
    ("", "Node"): Printer(_columns(_NODE_COLUMNS), _node),
    ("", "PersistentVolumeClaim"): Printer(_columns(_CLAIM_COLUMNS), _claim),
    ("", "PersistentVolume"): Printer(_columns(_VOLUME_COLUMNS), _volume),
    ("", "ServiceAccount"): Printer(_columns("Age"), _only_age),
    ("", "Event"): Printer(_EVENT_COLUMNS, _event),
    ("events.k8s.io", "Event"): Printer(_EVENT_COLUMNS, _event),
    ("", "Endpoints"): Printer(_columns("Endpoints, Age"), _endpoints),
    ("", "ResourceQuota"): Printer(_columns("Request, Limit, Age"), _quota),
    ("", "LimitRange"): _CREATED_AT,
    ("discovery.k8s.io", "EndpointSlice"): Printer(_columns("AddressType, Ports, Endpoints, Age"), _slice),
    ("networking.k8s.io", "Ingress"): Printer(_columns("Class, Hosts, Address, Ports, Age"), _ingress),
    ("networking.k8s.io", "IngressClass"): Printer(_columns("Controller, Parameters, Age"), _ingress_class),
    ("networking.k8s.io", "NetworkPolicy"): Printer(_columns("Pod-Selector, Age"), _network_policy),
    ("policy", "PodDisruptionBudget"): Printer(_columns("Min Available, Max Unavailable, Allowed Disruptions:integer, Age"), _budget),
    ("autoscaling", "HorizontalPodAutoscaler"): Printer(_columns("Reference, Targets, MinPods, MaxPods, Replicas, Age"), _autoscaler),
    (_RBAC, "RoleBinding"): _BINDINGS,
    (_RBAC, "ClusterRoleBinding"): _BINDINGS,
    ("storage.k8s.io", "StorageClass"): Printer(
        _columns("Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age"), _storage_class
    ),
    ("scheduling.k8s.io", "PriorityClass"): Printer(
        _columns("Value:integer, Global-Default:boolean, Age, PreemptionPolicy"), _priority_class
    ),
    ("coordination.k8s.io", "Lease"): Printer(_columns("Holder, Age"), _lease),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): Printer(_columns("Webhooks:integer, Age"), _webhooks),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): Printer(_columns("Webhooks:integer, Age"), _webhooks),
}
"""By group and kind; others show their name and when they were created."""
