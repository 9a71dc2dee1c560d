"""The validation of a whole object, by kind; custom resources by their schema."""

from collections.abc import Callable

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.kinds import Resource
from delegate.simulator.merging import printed
from delegate.simulator.statuses import Cause
from delegate.simulator.validation import (
    autoscalers,
    configuration,
    customs,
    definitions,
    expressions,
    jobs,
    networking,
    pods,
    policies,
    registrations,
    rules,
    services,
    volumes,
    workloads,
)

Rule = Callable[[JsonObject], list[Cause]]

TABLE: dict[tuple[str, str], Rule] = {
    **pods.TABLE,
    **workloads.TABLE,
    **jobs.TABLE,
    **volumes.TABLE,
    **configuration.TABLE,
    **services.TABLE,
    **networking.TABLE,
    **policies.TABLE,
    **autoscalers.TABLE,
    **definitions.TABLE,
    **registrations.TABLE,
    **expressions.TABLE,
}


def validate(resource: Resource, body: JsonObject, old: JsonObject | None = None) -> list[Cause]:
    """Every cause for which the object is refused, in the server's order."""
    if resource.definition is None:
        rule = TABLE.get((resource.group, resource.kind))
        return rule(body) if rule else []
    causes = customs.validate(body, resource.definition.schema)
    scale = resource.definition.scale
    if scale is not None:
        value: object = body
        for key in scale.spec_path:
            value = value.get(key) if isinstance(value, dict) else None
        path = "." + ".".join(scale.spec_path)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            kind = {str: "string", bool: "bool", float: "float64", list: "[]interface {}"}.get(type(value), "map[string]interface {}")
            text = f"{path} accessor error: {printed(value)} is of the type {kind}, expected int64"
            causes.append(statuses.invalid_value(path, 0, text))
        elif isinstance(value, int) and value < 0:
            causes.append(statuses.invalid_value("." + ".".join(scale.spec_path), value, "should be a non-negative integer"))
    return causes + rules.validate(body, old, resource.definition.schema, causes)
