"""What a canary looks at before its first write: the workload that it is about, and who scales it."""

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import ForbiddenError, NotFoundError, UnknownKindError
from delegate.model.resource_types import VERSIONED
from delegate.model.resources import JsonObject, ResourceType
from delegate.model.rollouts.errors import CanarySpecError

AUTOSCALER = ResourceType(
    group="autoscaling", version="v2", kind="HorizontalPodAutoscaler", plural="horizontalpodautoscalers", namespaced=True
)


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
        found = (await client.list(AUTOSCALER, namespace)).items
    except (NotFoundError, UnknownKindError, ForbiddenError) as error:
        return [], [f"whether an autoscaler drives {name} can't be told: {error.message}"]
    targets = [(each["metadata"]["name"], (each.get("spec") or {}).get("scaleTargetRef") or {}) for each in found]
    return [scaler for scaler, target in targets if (target.get("kind"), target.get("name")) == ("Deployment", name)], []
