"""The canary Ingress of ingress-nginx: a second Ingress of the same host and paths, weighted by annotations. Bodies in, bodies out.

ingress-nginx takes one canary Ingress a rule at most and ignores most other annotations of it (its `annotations.md`).
"""

from collections.abc import Iterable, Mapping

import msgspec

from delegate.engine.traffic.marks import Mark, marked
from delegate.model.inventory import APPLICATION_LABEL
from delegate.model.resources import JsonObject
from delegate.model.rollouts.journals import JOURNAL_LABEL

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
DEFAULT_PREFIX = "nginx.ingress.kubernetes.io"
_OWN = ("canary", "canary-weight", "canary-weight-total", "canary-by-header", "canary-by-header-value")
_MOST_DECIMALS = 4


class CanaryIngress(msgspec.Struct, frozen=True):
    """What goes into one: whose, in front of which Service instead of which, with what header. `prefix` is that of the annotations."""

    name: str
    application: str
    workload: str
    stable: str
    canary: str
    headers: dict[str, str] = {}
    prefix: str = DEFAULT_PREFIX

    def made(self, main: JsonObject, mark: Mark) -> JsonObject:
        """A new one, with the rules of the main Ingress that lead to the stable Service."""
        metadata: JsonObject = {
            "name": self.name,
            "namespace": main["metadata"]["namespace"],
            "labels": {APPLICATION_LABEL: self.application, JOURNAL_LABEL: "canary"},
        }
        return self.changed({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": {}}, main, mark)

    def changed(self, live: JsonObject, main: JsonObject, mark: Mark) -> JsonObject:
        """The live one with this weight and the main Ingress's present rules; annotations of others stay."""
        spec = {field: value for field, value in live["spec"].items() if field != "ingressClassName"}
        if "ingressClassName" in main["spec"]:
            spec["ingressClassName"] = main["spec"]["ingressClassName"]
        changed = self.weighted({**live, "spec": {**spec, "rules": canary_rules(main, self.stable, self.canary)}}, mark)
        class_name = _annotations(main).get(CLASS_ANNOTATION)
        if class_name is not None:
            changed["metadata"]["annotations"][CLASS_ANNOTATION] = class_name
        return changed

    def weighted(self, live: JsonObject, mark: Mark) -> JsonObject:
        """The live one with this weight and nothing else changed."""
        others = {key: value for key, value in _annotations(live).items() if key not in self._own}
        metadata = {**live["metadata"], "annotations": {**others, **self.annotations(mark.weight)}}
        return marked({**live, "metadata": metadata}, self.workload, mark)

    def annotations(self, weight: float) -> dict[str, str]:
        """A header takes precedence over the weight, so there is one only as long as there is any weight."""
        total = 100
        for _ in range(_MOST_DECIMALS):
            if abs(weight * total / 100 - round(weight * total / 100)) < 1e-9:
                break
            total *= 10
        said = {"canary": "true", "canary-weight": str(round(weight * total / 100))}
        if total != 100:
            said["canary-weight-total"] = str(total)
        for name, value in self.headers.items() if weight > 0 else ():
            said |= {"canary-by-header": name, "canary-by-header-value": value}
        return {f"{self.prefix}/{key}": value for key, value in said.items()}

    def is_weighted(self, live: JsonObject, weight: float) -> bool:
        """Whether its own annotations are just those of a weight."""
        return {key: value for key, value in _annotations(live).items() if key in self._own} == self.annotations(weight)

    def weight_of(self, live: JsonObject) -> float:
        """In percent, as ingress-nginx reads it; what it can't read is no weight."""
        if _annotations(live).get(f"{self.prefix}/canary") != "true":
            return 0.0
        weight, total = (_number(_annotations(live).get(f"{self.prefix}/{key}")) for key in ("canary-weight", "canary-weight-total"))
        return 100.0 * (weight or 0) / (total or 100)

    def rivals(self, main: JsonObject, ingresses: Iterable[JsonObject]) -> list[str]:
        """Other canary Ingresses for one of the same rules."""
        wanted = _places(canary_rules(main, self.stable, self.canary))
        return sorted(
            str(each["metadata"]["name"])
            for each in ingresses
            if each["metadata"]["name"] != self.name
            and _annotations(each).get(f"{self.prefix}/canary") == "true"
            and _places((each.get("spec") or {}).get("rules") or ()) & wanted
        )

    def is_canary(self, ingress: JsonObject) -> bool:
        return _annotations(ingress).get(f"{self.prefix}/canary") == "true"

    @property
    def _own(self) -> frozenset[str]:
        return frozenset(f"{self.prefix}/{key}" for key in _OWN)


def services_named(ingress: JsonObject) -> set[str]:
    """By its rules; the default backend takes no canary."""
    rules = (ingress.get("spec") or {}).get("rules") or ()
    return {_service_of(path) for rule in rules for path in (rule.get("http") or {}).get("paths") or ()} - {""}


def canary_rules(main: JsonObject, stable: str, canary: str) -> list[JsonObject]:
    """The rules that lead to the stable Service, led to the canary's; paths to other Services are left out."""
    found = []
    for rule in (main.get("spec") or {}).get("rules") or ():
        paths = [_led(path, canary) for path in (rule.get("http") or {}).get("paths") or () if _service_of(path) == stable]
        if paths:
            found.append({**{field: value for field, value in rule.items() if field != "http"}, "http": {"paths": paths}})
    return found


def _led(path: JsonObject, canary: str) -> JsonObject:
    service = {**path["backend"]["service"], "name": canary}
    return {**path, "backend": {"service": service}}


def _service_of(path: JsonObject) -> str:
    return str(((path.get("backend") or {}).get("service") or {}).get("name") or "")


def _places(rules: Iterable[JsonObject]) -> set[tuple[str, str]]:
    return {
        (str(rule.get("host") or ""), str(path.get("path") or "/"))
        for rule in rules
        for path in (rule.get("http") or {}).get("paths") or ()
    }


def _annotations(body: JsonObject) -> Mapping[str, str]:
    found: Mapping[str, str] = (body.get("metadata") or {}).get("annotations") or {}
    return found


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
