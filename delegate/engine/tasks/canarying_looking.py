"""What a canary looks at before its first write: the workload that it is about, and who scales it."""

from delegate.engine.clusters.access import Access, may
from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import ForbiddenError, NotFoundError, UnknownKindError
from delegate.model.resource_types import AUTOSCALERS, VERSIONED
from delegate.model.resources import JsonObject
from delegate.model.rollouts.errors import CanarySpecError
from delegate.model.rollouts.permissions import TO_HOLD_AUTOSCALERS


async def find_stable(client: ApiClient, namespace: str, kind: str, name: str) -> JsonObject:
    """Raises CanarySpecError where there is none."""
    type = VERSIONED[kind]
    try:
        return await client.get(type, namespace, name)
    except NotFoundError as error:
        raise CanarySpecError(
            f"there is no {kind} {namespace}/{name} that a new version could be of",
            hint="sync it first, or name another workload",
            object=f"{type.group}/{kind} {namespace}/{name}",
        ) from error


async def find_autoscalers(client: ApiClient, namespace: str, name: str) -> tuple[list[str], list[str]]:
    """Those that drive the Deployment, and what there is to say where that can't be told."""
    try:
        found = (await client.list(AUTOSCALERS, namespace)).items
    except (NotFoundError, UnknownKindError, ForbiddenError) as error:
        return [], [f"whether an autoscaler drives {name} can't be told: {error.message}"]
    targets = [(each["metadata"]["name"], (each.get("spec") or {}).get("scaleTargetRef") or {}) for each in found]
    return [scaler for scaler, target in targets if (target.get("kind"), target.get("name")) == ("Deployment", name)], []


async def held_autoscalers(client: ApiClient, namespace: str, name: str, scalers: list[str]) -> tuple[tuple[str, ...], list[str]]:
    """Those of a routed canary's stable set that can be kept from shrinking it for want of load, and what there is to say of them."""
    if not scalers:
        return (), []
    group, resource, verbs = TO_HOLD_AUTOSCALERS
    listed = ", ".join(scalers)
    if all([await may(client, Access(verb, group, resource, namespace)) for verb in verbs]):
        return tuple(scalers), [f"the autoscaler {listed} does not scale {name} down until its load is back"]
    words = f"the autoscaler {listed} may shrink {name} as soon as its load goes elsewhere, and an abort finds it small"
    return (), [f"{words}: it takes {' and '.join(verbs)} on HorizontalPodAutoscalers to keep it from that"]
