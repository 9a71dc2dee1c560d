"""The validation of a whole object, by kind; custom resources by their schema."""

from collections.abc import Callable

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.kinds import Resource
from delegate.simulator.statuses import Cause
from delegate.simulator.validation import (
    autoscalers,
    configuration,
    customs,
    definitions,
    jobs,
    networking,
    pods,
    policies,
    registrations,
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
}


def validate(resource: Resource, body: JsonObject) -> list[Cause]:
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
        if isinstance(value, int) and not isinstance(value, bool) and value < 0:
            causes.append(statuses.invalid_value("." + ".".join(scale.spec_path), value, "should be a non-negative integer"))
    return causes
