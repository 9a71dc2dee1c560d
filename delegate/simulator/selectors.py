"""Label and field selectors: parsed once, matched against objects (apimachinery `labels`, `fields`)."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.naming import label_value, qualified

_TOKEN = re.compile(r"\s*(!=|==|=|!|,|\(|\)|<|>|[^\s!=,()<>]+)")


class Requirement(msgspec.Struct, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: dict[str, Any]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in" | "=" | "==":
                return value is not None and value in self.values
            case "notin" | "!=":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                return value is not None and _compared(value, self.operator, self.values[0])


def _compared(value: str, operator: str, limit: str) -> bool:
    try:
        return int(value) > int(limit) if operator == "gt" else int(value) < int(limit)
    except ValueError:
        return False


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The requirements of a label selector; raises a 400 in the server's words."""
    tokens = [token for token in _TOKEN.findall(text) if token]
    found: list[Requirement] = []
    at = 0
    while at < len(tokens):
        requirement, at = _requirement(tokens, at)
        _check(requirement)
        found.append(requirement)
        if at < len(tokens):
            if tokens[at] != ",":
                raise _unparsed(f"found '{tokens[at]}', expected: ',' or 'end of string'")
            at += 1
            if at == len(tokens):
                raise _unparsed("found '', expected: identifier after ','")
    return tuple(found)


def _check(requirement: Requirement) -> None:
    """Whether labels may be called and valued like this."""
    causes = [statuses.invalid_value("key", requirement.key, text) for text in qualified(requirement.key)]
    for index, value in enumerate(requirement.values):
        causes += [statuses.invalid_value(f"values[{index}][{requirement.key}]", value, text) for text in label_value(value)]
        if requirement.operator in ("gt", "lt") and not value.removeprefix("-").isdigit():
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            causes.append(statuses.invalid_value(f"values[{index}]", value, why))
    if causes:
        raise _unparsed("; ".join(f"{cause.field}: {cause.message}" for cause in causes))


def _unparsed(why: str) -> statuses.StatusError:
    return statuses.bad_request(f"unable to parse requirement: {why}")


def _requirement(tokens: list[str], at: int) -> tuple[Requirement, int]:
    if tokens[at] == "!":
        if at + 1 >= len(tokens):
            raise _unparsed("found '', expected: identifier")
        return Requirement(tokens[at + 1], "!"), at + 2
    key = tokens[at]
    if not re.match(r"[A-Za-z0-9]", key):
        raise _unparsed(f"found '{key}', expected: !, identifier, or 'end of string'")
    following = tokens[at + 1] if at + 1 < len(tokens) else ","
    if following in (",", ")"):
        return Requirement(key, "exists"), at + 1
    operator = {"<": "lt", ">": "gt"}.get(following, following)
    if operator in ("in", "notin"):
        return _listed(tokens, at, key, operator)
    if operator not in ("=", "==", "!=", "gt", "lt"):
        raise _unparsed(f"found '{following}', expected: in, notin, =, ==, !=, gt, lt")
    if at + 2 >= len(tokens) or tokens[at + 2] == ",":
        return Requirement(key, operator, ("",)), at + 2
    return Requirement(key, operator, (tokens[at + 2],)), at + 3


def _listed(tokens: list[str], at: int, key: str, operator: str) -> tuple[Requirement, int]:
    if at + 2 >= len(tokens) or tokens[at + 2] != "(":
        found = tokens[at + 2] if at + 2 < len(tokens) else ""
        raise _unparsed(f"found '{found}' expected: '('")
    end = at + 3
    values = []
    while end < len(tokens) and tokens[end] != ")":
        if tokens[end] != ",":
            values.append(tokens[end])
        end += 1
    if end >= len(tokens):
        raise _unparsed("found '', expected: ',' or ')'")
    return Requirement(key, operator, tuple(values)), end + 1


def of_label_selector(selector: Any) -> Callable[[dict[str, Any]], bool]:
    """A matcher for a `LabelSelector` of an object; none at all matches nothing, an empty one everything."""
    if selector is None:
        return lambda labels: False
    wanted = selector.get("matchLabels") or {}
    names = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    requirements = [
        Requirement(item.get("key", ""), names.get(item.get("operator", ""), "in"), tuple(item.get("values") or ()))
        for item in selector.get("matchExpressions") or ()
    ]

    def matches(labels: dict[str, Any]) -> bool:
        return all(labels.get(key) == value for key, value in wanted.items()) and all(each.matches(labels) for each in requirements)

    return matches


def shown_selector(selector: Any) -> str:
    """A `LabelSelector` in the form of a query, as a Scale's status carries it."""
    if not selector:
        return ""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for item in selector.get("matchExpressions") or ():
        values = ",".join(sorted(item.get("values") or ()))
        match item.get("operator"):
            case "In":
                parts.append(f"{item['key']} in ({values})")
            case "NotIn":
                parts.append(f"{item['key']} notin ({values})")
            case "Exists":
                parts.append(item["key"])
            case _:
                parts.append(f"!{item['key']}")
    return ",".join(parts)


_FIELDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    ("", "events"): (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    ("", "secrets"): ("type",),
    ("", "namespaces"): ("status.phase",),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "services"): ("spec.clusterIP", "spec.type"),
    ("", "replicationcontrollers"): ("status.replicas",),
    ("apps", "replicasets"): ("status.replicas",),
    ("batch", "jobs"): ("status.successful",),
    ("certificates.k8s.io", "certificatesigningrequests"): ("spec.signerName",),
}


class FieldRequirement(msgspec.Struct, frozen=True):
    path: tuple[str, ...]
    value: str
    equal: bool

    def matches(self, body: JsonObject) -> bool:
        value: Any = body
        for key in self.path:
            value = value.get(key) if isinstance(value, dict) else None
        if self.path == ("source",) and isinstance(value, dict):
            value = value.get("component", "")
        shown = "" if value is None else ("true" if value is True else "false" if value is False else str(value))
        return (shown == self.value) is self.equal


def parse_fields(text: str, storage: tuple[str, str], *, selectable: tuple[str, ...] = ()) -> tuple[FieldRequirement, ...]:
    """The requirements of a field selector; raises a 400 for fields that a kind can't be selected by."""
    found = []
    for part in text.split(","):
        if not part:
            continue
        pieces = re.split(r"(!=|==|=)", part, maxsplit=1)
        if len(pieces) != 3:
            raise statuses.bad_request(f"invalid field selector: invalid selector: '{text}'; can't understand '{part}'")
        key, operator, value = (piece.strip() for piece in pieces)
        if key not in ("metadata.name", "metadata.namespace", *_FIELDS.get(storage, ()), *selectable):
            raise statuses.bad_request(f"field label not supported: {key}")
        found.append(FieldRequirement(tuple(key.split(".")), value, operator != "!="))
    return tuple(found)


class Selection(msgspec.Struct, frozen=True):
    """What a list or watch is narrowed to; an empty one matches everything."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()

    @property
    def everything(self) -> bool:
        return not self.labels and not self.fields

    def matches(self, body: JsonObject) -> bool:
        if self.labels:
            labels = body["metadata"].get("labels") or {}
            if not all(requirement.matches(labels) for requirement in self.labels):
                return False
        return all(requirement.matches(body) for requirement in self.fields)

    def name(self) -> str | None:
        """The one name that can match, if the fields say so: such a list needs no scan."""
        for requirement in self.fields:
            if requirement.path == ("metadata", "name") and requirement.equal:
                return requirement.value
        return None
