"""The canary Ingress of ingress-nginx: a second Ingress of the same host and paths, weighted by annotations. Bodies in, bodies out.

ingress-nginx takes one canary Ingress a rule at most and ignores most other annotations of it (its `annotations.md`).
"""

from collections.abc import Iterable, Mapping

import msgspec

from delegate.engine.traffic.marks import Mark, marked
from delegate.model.inventory import APPLICATION_LABEL
from delegate.model.resources import JsonObject
from delegate.model.rollouts.journals import JOURNAL_LABEL
from delegate.model.rollouts.loads import Load, by_headers

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
DEFAULT_PREFIX = "nginx.ingress.kubernetes.io"
_OWN = ("canary", "canary-weight", "canary-weight-total", "canary-by-header", "canary-by-header-value", "canary-by-header-pattern")
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
        """The live one with this load and the main Ingress's present rules; annotations of others stay."""
        spec = {field: value for field, value in live["spec"].items() if field != "ingressClassName"}
        if "ingressClassName" in main["spec"]:
            spec["ingressClassName"] = main["spec"]["ingressClassName"]
        changed = self.loaded({**live, "spec": {**spec, "rules": canary_rules(main, self.stable, self.canary)}}, mark)
        class_name = _annotations(main).get(CLASS_ANNOTATION)
        if class_name is not None:
            changed["metadata"]["annotations"][CLASS_ANNOTATION] = class_name
        return changed

    def loaded(self, live: JsonObject, mark: Mark) -> JsonObject:
        """The live one with this load and nothing else changed."""
        others = {key: value for key, value in _annotations(live).items() if key not in self._own}
        metadata = {**live["metadata"], "annotations": {**others, **self.annotations(mark.load)}}
        return marked({**live, "metadata": metadata}, self.workload, mark)

    def annotations(self, load: Load) -> dict[str, str]:
        """A header takes precedence over the weight. The task's own is there as long as there is any weight; a header route at any."""
        weight, total = load.weight, 100
        for _ in range(_MOST_DECIMALS):
            if abs(weight * total / 100 - round(weight * total / 100)) < 1e-9:
                break
            total *= 10
        said = {"canary": "true", "canary-weight": str(round(weight * total / 100))}
        if total != 100:
            said["canary-weight-total"] = str(total)
        always = (by_headers("header", self.headers),) if self.headers and weight > 0 else ()
        for match in [match for route in (*always, *load.header_routes)[:1] for match in route.match]:
            value = match.header_value
            told = {"canary-by-header-value": value.exact} if value.exact else {"canary-by-header-pattern": value.pattern}
            said |= {"canary-by-header": match.header_name, **told}
        return {f"{self.prefix}/{key}": value for key, value in said.items()}

    def is_loaded(self, live: JsonObject, load: Load) -> bool:
        """Whether its own annotations are just those of a load."""
        return self._said_by(live) == self.annotations(load)

    def load_of(self, live: JsonObject, mark: Mark | None) -> Load:
        """As it stands: of the header routes that were written those that are still there."""
        weight = self.weight_of(live)
        routes = mark.header_routes if mark is not None else ()
        wanted = self.annotations(Load(weight, routes))
        stands = all(self._said_by(live).get(key) == value for key, value in wanted.items() if "/canary-by-header" in key)
        return Load(weight, routes if stands else ())

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

    def _said_by(self, live: JsonObject) -> dict[str, str]:
        return {key: value for key, value in _annotations(live).items() if key in self._own}

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
