"""Validation of pod specs."""

import re
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.naming import label, subdomain
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.containers import LARGEST_ID, container_causes
from delegate.simulator.validation.metadata import validate_annotations, validate_labels
from delegate.simulator.validation.selectors import affinity, spreading, tolerations
from delegate.simulator.validation.values import between, chosen, ip, named, not_negative
from delegate.simulator.validation.volumes import pod_volumes

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_SYSCTL_TEXT = r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"


def validate_spec(spec: JsonObject, path: str, claims: Any = ()) -> list[Cause]:
    """`claims` has the templates of claims that a StatefulSet adds as volumes."""
    extra = [{"name": (claim.get("metadata") or {}).get("name", ""), "persistentVolumeClaim": {"claimName": "x"}} for claim in claims or ()]
    own = {item["name"] for item in extra}
    volumes, causes = pod_volumes([*extra, *(item for item in spec.get("volumes") or () if item.get("name") not in own)], f"{path}.volumes")
    if not spec.get("containers"):
        causes.append(statuses.required(f"{path}.containers"))
    names: set[str] = set()
    for key in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            causes += container_causes(container, f"{path}.{key}[{index}]", volumes, names, init=key == "initContainers")
    policy = spec.get("restartPolicy")
    causes += chosen(f"{path}.restartPolicy", policy, RESTART_POLICIES) if policy else [statuses.required(f"{path}.restartPolicy")]
    causes += chosen(f"{path}.dnsPolicy", spec.get("dnsPolicy"), _DNS_POLICIES)
    causes += validate_labels(spec.get("nodeSelector"), f"{path}.nodeSelector")
    causes += _security(spec.get("securityContext") or {}, f"{path}.securityContext")
    causes += affinity(spec.get("affinity"), f"{path}.affinity")
    for index, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        causes += ip(f"{path}.dnsConfig.nameservers[{index}]", server)
    causes += spreading(spec.get("topologySpreadConstraints"), f"{path}.topologySpreadConstraints")
    causes += named(f"{path}.serviceAccountName", spec.get("serviceAccountName"), subdomain)
    causes += named(f"{path}.nodeName", spec.get("nodeName"), subdomain)
    causes += between(f"{path}.activeDeadlineSeconds", spec.get("activeDeadlineSeconds"), 1, LARGEST_ID)
    causes += named(f"{path}.hostname", spec.get("hostname"), label) + named(f"{path}.subdomain", spec.get("subdomain"), label)
    causes += tolerations(spec.get("tolerations"), f"{path}.tolerations")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        causes += ip(f"{path}.hostAliases[{index}].ip", alias.get("ip", ""))
        for at, host in enumerate(alias.get("hostnames") or ()):
            causes += named(f"{path}.hostAliases[{index}].hostnames[{at}]", host, subdomain)
    causes += named(f"{path}.priorityClassName", spec.get("priorityClassName"), subdomain)
    return causes + not_negative(f"{path}.terminationGracePeriodSeconds", spec.get("terminationGracePeriodSeconds"))


def _security(context: JsonObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for key in ("fsGroup", "runAsUser", "runAsGroup"):
        causes += between(f"{path}.{key}", context.get(key), 0, LARGEST_ID)
    for index, item in enumerate(context.get("sysctls") or ()):
        name, here = item.get("name", ""), f"{path}.sysctls[{index}].name"
        if not name:
            causes.append(statuses.required(here))
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            causes.append(statuses.invalid_value(here, name, _SYSCTL_TEXT))
    return causes


def template_causes(template: JsonObject, path: str, claims: Any = ()) -> list[Cause]:
    """A pod template as its controller holds it."""
    metadata = template.get("metadata") or {}
    causes = validate_labels(metadata.get("labels"), f"{path}.labels")
    causes += validate_annotations(metadata.get("annotations"), f"{path}.annotations")
    return causes + validate_spec(template.get("spec") or {}, f"{path}.spec", claims)


def pod_causes(body: JsonObject) -> list[Cause]:
    return validate_spec(body["spec"], "spec")


def pod_template_causes(body: JsonObject) -> list[Cause]:
    return template_causes(body.get("template") or {}, "template")


TABLE = {("", "Pod"): pod_causes, ("", "PodTemplate"): pod_template_causes}
