"""Validation of what registers with the API server: webhooks, aggregated APIs, flow control, certificates; and of events and nodes."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.naming import label, label_1035, qualified, subdomain
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.selectors import selector_causes
from delegate.simulator.validation.values import chosen, cidr, named

ADMISSION = "admissionregistration.k8s.io"
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REVIEWS = ("v1", "v1beta1")
_PORT_TEXT = "port is not valid: must be between 1 and 65535, inclusive"
_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)


def _webhooks(body: JsonObject) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, webhook in enumerate(body.get("webhooks") or ()):
        path, name = f"webhooks[{index}]", webhook.get("name", "")
        causes += _webhook(webhook, path, mutating=body.get("kind") == "MutatingWebhookConfiguration")
        if name in seen:
            causes.append(statuses.duplicate(f"{path}.name", name))
        seen.add(name)
    return causes


def _webhook(webhook: JsonObject, path: str, *, mutating: bool) -> list[Cause]:
    causes = _domain(webhook.get("name", ""), f"{path}.name")
    for index, rule in enumerate(webhook.get("rules") or ()):
        causes += _rule(rule, f"{path}.rules[{index}]")
    causes += chosen(f"{path}.failurePolicy", webhook.get("failurePolicy"), ("Fail", "Ignore"), optional=True)
    causes += chosen(f"{path}.matchPolicy", webhook.get("matchPolicy"), ("Equivalent", "Exact"), optional=True)
    effects = webhook.get("sideEffects")
    if effects is None:
        causes.append(statuses.required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun"))
    else:
        causes += chosen(f"{path}.sideEffects", effects, ("None", "NoneOnDryRun"))
    seconds = webhook.get("timeoutSeconds", 10)
    if not 1 <= seconds <= 30:
        causes.append(statuses.invalid_value(f"{path}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds"))
    for key in ("namespaceSelector", "objectSelector"):
        if webhook.get(key) is not None:
            causes += selector_causes(webhook[key], f"{path}.{key}")
    if mutating:
        causes += chosen(f"{path}.reinvocationPolicy", webhook.get("reinvocationPolicy"), ("IfNeeded", "Never"), optional=True)
    causes += _client(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    return causes + _reviews(webhook.get("admissionReviewVersions") or (), f"{path}.admissionReviewVersions")


def _domain(name: str, path: str) -> list[Cause]:
    if not name:
        return [statuses.required(path)]
    causes = named(path, name, subdomain)
    if not causes and name.count(".") < 2:
        causes.append(statuses.invalid_value(path, name, "should be a domain with at least three segments separated by dots"))
    return causes


def _rule(rule: JsonObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for key, what in (("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")):
        given = rule.get(key) or []
        if not given:
            causes.append(statuses.required(f"{path}.{key}"))
        elif "*" in given and len(given) > 1:
            causes.append(statuses.invalid_value(f"{path}.{key}", given, f"if '*' is present, must not specify other {what}"))
        for index, item in enumerate(given):
            if key == "operations":
                causes += chosen(f"{path}.{key}[{index}]", item, _OPERATIONS)
            elif key == "apiVersions" and not item:
                causes.append(statuses.required(f"{path}.{key}[{index}]"))
    resources = rule.get("resources") or []
    if not resources:
        causes.append(statuses.required(f"{path}.resources"))
    causes += [statuses.required(f"{path}.resources[{index}]") for index, item in enumerate(resources) if not item]
    if "*/*" in resources and len(resources) > 1:
        causes.append(statuses.invalid_value(f"{path}.resources", resources, "if '*/*' is present, must not specify other resources"))
    elif "*" in resources and any("/" not in item for item in resources if item != "*"):
        text = "if '*' is present, must not specify other resources without subresources"
        causes.append(statuses.invalid_value(f"{path}.resources", resources, text))
    return causes + chosen(f"{path}.scope", rule.get("scope"), ("*", "Cluster", "Namespaced"), optional=True)


def _client(client: JsonObject, path: str) -> list[Cause]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [statuses.required(path, "exactly one of url or service is required")]
    if service is not None:
        return _service(service, f"{path}.service")
    if not str(url).startswith("https://"):
        scheme = str(url).partition("://")[0] if "://" in str(url) else ""
        text = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        return [statuses.invalid_value(f"{path}.url", scheme, text)]
    return []


def _service(service: JsonObject, path: str) -> list[Cause]:
    # The server names the other field than the missing one.
    swapped = (("namespace", "name"), ("name", "namespace"))
    causes = [statuses.required(f"{path}.{shown}") for key, shown in swapped if not service.get(key)]
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        causes.append(statuses.invalid_value(f"{path}.port", port, _PORT_TEXT))
    place = service.get("path")
    if place and place != "/":
        if not place.startswith("/"):
            causes.append(statuses.invalid_value(f"{path}.path", place, "must start with a '/'"))
        for index, part in enumerate(place.split("/")[1:] if place.startswith("/") else place.split("/")[1:] or [""]):
            if not part:
                causes.append(statuses.invalid_value(f"{path}.path", place, f"segment[{index}] may not be empty"))
    return causes


def _reviews(versions: Any, path: str) -> list[Cause]:
    if not versions:
        return [statuses.required(path, "must specify one of v1, v1beta1")]
    causes: list[Cause] = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            causes.append(statuses.invalid_value(f"{path}[{index}]", version, "duplicate version"))
            continue
        causes += [statuses.invalid_value(f"{path}[{index}]", version, text) for text in label_1035(version)]
    if not set(versions) & set(_REVIEWS):
        causes.append(statuses.invalid_value(path, list(versions), "must include at least one of v1, v1beta1"))
    return causes


def _api_service(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    group, version, name = spec.get("group", ""), spec.get("version", ""), body["metadata"].get("name", "")
    causes: list[Cause] = []
    if name and name != f"{version}.{group}":
        text = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
        causes.append(statuses.invalid_value("metadata.name", name, text))
    if not group and version != "v1":
        causes.append(statuses.required("spec.group", "only v1 may have an empty group and it better be legacy kube"))
    causes += named("spec.group", group, subdomain)
    causes += [statuses.invalid_value("spec.version", version, text) for text in label_1035(version)]
    for key, limit in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        if not 0 < spec.get(key, 0) <= limit:
            causes.append(statuses.invalid_value(f"spec.{key}", spec.get(key, 0), f"must be positive and less than {limit}"))
    service = spec.get("service")
    if service is None:
        if spec.get("caBundle"):
            causes.append(
                statuses.invalid_value("spec.caBundle", f"{len(spec['caBundle'])} bytes", "local APIServices may not have a caBundle")
            )
        if spec.get("insecureSkipTLSVerify"):
            text = "local APIServices may not have insecureSkipTLSVerify"
            causes.append(statuses.invalid_value("spec.insecureSkipTLSVerify", True, text))
        return causes
    causes += [statuses.required(f"spec.service.{key}") for key in ("namespace", "name") if not service.get(key)]
    if not 1 <= service.get("port", 443) <= 65535:
        causes.append(statuses.invalid_value("spec.service.port", service["port"], _PORT_TEXT))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        causes.append(statuses.invalid_value("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present"))
    return causes


def _flow_schema(body: JsonObject) -> list[Cause]:
    name = body["spec"]["priorityLevelConfiguration"].get("name", "")
    path = "spec.priorityLevelConfiguration.name"
    return named(path, name, subdomain) if name else [statuses.required(path, "must reference a priority level")]


def _signing_request(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes: list[Cause] = []
    request = spec.get("request")
    if not str(request or "").startswith("LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNU"):
        causes.append(statuses.invalid_value("spec.request", request, "PEM block type must be CERTIFICATE REQUEST"))
    usages = spec.get("usages") or []
    if not usages:
        causes.append(statuses.required("spec.usages"))
    for index, usage in enumerate(usages):
        if usage in usages[:index]:
            causes.append(statuses.duplicate(f"spec.usages[{index}]", usage))
            continue
        causes += chosen(f"spec.usages[{index}]", usage, _USAGES)
    signer = spec.get("signerName", "")
    if not signer:
        causes.append(statuses.required("spec.signerName"))
    elif signer.count("/") != 1:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        causes.append(statuses.invalid_value("spec.signerName", signer, text))
    return causes


def _event(body: JsonObject) -> list[Cause]:
    namespace = body["metadata"].get("namespace", "")
    new = body.get("apiVersion") == "events.k8s.io/v1"
    causes: list[Cause] = []
    wrong = statuses.invalid_value
    subject = (body.get("regarding" if new else "involvedObject") or {}).get("namespace", "")
    if subject != namespace and (subject or namespace != "default"):
        causes.append(wrong("involvedObject.namespace", subject, "does not match event.namespace"))
    if not new:
        return causes
    causes += _new_event(body)
    return causes


def _new_event(body: JsonObject) -> list[Cause]:
    causes: list[Cause] = []
    kind = body.get("type", "")
    if not body.get("eventTime"):
        causes.append(statuses.required("eventTime"))
    else:
        controller = body.get("reportingController", "")
        causes += [] if controller else [statuses.required("reportingController")]
        if controller:
            causes += [statuses.invalid_value("reportingController", controller, text) for text in qualified(controller)]
        causes += [statuses.required(key) for key in ("reportingInstance", "action", "reason") if not body.get(key)]
    series = body.get("series")
    if series is not None:
        if series.get("count", 0) < 2:
            causes.append(statuses.invalid_value("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            causes.append(statuses.required("series.lastObservedTime"))
    if kind not in ("Normal", "Warning"):
        causes.append(statuses.invalid_value("type", "", f"has invalid value: {kind}"))
    return causes


def _node(body: JsonObject) -> list[Cause]:
    spec = body.get("spec") or {}
    causes: list[Cause] = []
    for index, taint in enumerate(spec.get("taints") or ()):
        path = f"metadata.taints[{index}]"
        causes += [statuses.invalid_value(f"{path}.key", taint.get("key", ""), text) for text in qualified(taint.get("key", ""))]
        causes += chosen(f"{path}.effect", taint.get("effect"), ("NoSchedule", "PreferNoSchedule", "NoExecute"))
    ranges = spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])
    for index, item in enumerate(ranges):
        causes += cidr(f"spec.podCIDRs[{index}]", item)
    return causes


def _runtime_class(body: JsonObject) -> list[Cause]:
    handler = body.get("handler", "")
    return named("handler", handler, label) if handler else [statuses.required("handler")]


TABLE = {
    (ADMISSION, "ValidatingWebhookConfiguration"): _webhooks,
    (ADMISSION, "MutatingWebhookConfiguration"): _webhooks,
    ("apiregistration.k8s.io", "APIService"): _api_service,
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): _flow_schema,
    ("certificates.k8s.io", "CertificateSigningRequest"): _signing_request,
    ("node.k8s.io", "RuntimeClass"): _runtime_class,
    ("", "Event"): _event,
    ("events.k8s.io", "Event"): _event,
    ("", "Node"): _node,
}
