"""Defaults of access rules, autoscalers, admission webhooks, priorities and definitions."""

from delegate.model.resources import JsonObject

RBAC = "rbac.authorization.k8s.io"


def _binding(body: JsonObject) -> None:
    if not body["roleRef"].get("apiGroup"):
        body["roleRef"]["apiGroup"] = RBAC
    for subject in body.get("subjects", ()):
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = RBAC


def _autoscaler(body: JsonObject) -> None:
    spec = body["spec"]
    spec.setdefault("minReplicas", 1)
    if body.get("apiVersion") == "autoscaling/v1":
        spec.setdefault("targetCPUUtilizationPercentage", 80)
        return
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is not None:
        _scaling_rules(behavior, "scaleUp", [{"type": "Pods", "value": 4, "periodSeconds": 15}], 0)
        _scaling_rules(behavior, "scaleDown", [], None)


def _scaling_rules(behavior: JsonObject, direction: str, policies: list[JsonObject], window: int | None) -> None:
    rules = behavior.setdefault(direction, {})
    if window is not None:
        rules.setdefault("stabilizationWindowSeconds", window)
    rules.setdefault("selectPolicy", "Max")
    if not rules.get("policies"):
        rules["policies"] = [*policies, {"type": "Percent", "value": 100, "periodSeconds": 15}]


def _webhooks(body: JsonObject) -> None:
    for webhook in body.get("webhooks", ()):
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        if body.get("kind") == "MutatingWebhookConfiguration":
            webhook.setdefault("reinvocationPolicy", "Never")
        service = (webhook.get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)
        for rule in webhook.get("rules", ()):
            rule.setdefault("scope", "*")


def _admission_policy(body: JsonObject) -> None:
    spec = body["spec"]
    if body.get("kind") == "ValidatingAdmissionPolicy":
        spec.setdefault("failurePolicy", "Fail")
    resources = spec.get("matchConstraints") or spec.get("matchResources")
    if resources is not None:
        resources.setdefault("matchPolicy", "Equivalent")
        resources.setdefault("namespaceSelector", {})
        resources.setdefault("objectSelector", {})
        for rule in resources.get("resourceRules", ()):
            rule.setdefault("scope", "*")


def _priority_class(body: JsonObject) -> None:
    body.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _limit_range(body: JsonObject) -> None:
    for item in (body.get("spec") or {}).get("limits") or ():
        if item.get("type") != "Container":
            continue
        limits = item.setdefault("default", {})
        requests = item.setdefault("defaultRequest", {})
        for name, amount in (item.get("max") or {}).items():
            limits.setdefault(name, amount)
        for name, amount in limits.items():
            requests.setdefault(name, amount)
        for name, amount in (item.get("min") or {}).items():
            requests.setdefault(name, amount)
        for key in ("default", "defaultRequest"):
            if not item[key]:
                del item[key]


def _definition(body: JsonObject) -> None:
    spec = body["spec"]
    names = spec.get("names") or {}
    if names.get("kind"):
        if not names.get("singular"):
            names["singular"] = names["kind"].lower()
        if not names.get("listKind"):
            names["listKind"] = names["kind"] + "List"
    spec.setdefault("conversion", {}).setdefault("strategy", "None")
    webhook = (spec["conversion"].get("webhook") or {}).get("clientConfig", {}).get("service")
    if webhook is not None:
        webhook.setdefault("port", 443)


def _api_service(body: JsonObject) -> None:
    service = (body.get("spec") or {}).get("service")
    if service is not None:
        service.setdefault("port", 443)


def _flow_schema(body: JsonObject) -> None:
    if not body["spec"].get("matchingPrecedence"):
        body["spec"]["matchingPrecedence"] = 1000


TABLE = {
    (RBAC, "RoleBinding"): _binding,
    (RBAC, "ClusterRoleBinding"): _binding,
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _admission_policy,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): _admission_policy,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("apiregistration.k8s.io", "APIService"): _api_service,
    ("", "LimitRange"): _limit_range,
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): _flow_schema,
}
