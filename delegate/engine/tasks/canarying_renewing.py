"""A new version inside the stable set: its template written into the set itself, by images, or as a sync of the source would apply it."""

import copy

from delegate.engine.tasks.canarying_plans import Plan
from delegate.engine.tasks.canarying_sets import Sets
from delegate.engine.tasks.errors import CanaryFailedError
from delegate.model.resources import JsonObject
from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.partitions import partition_of, with_partition
from delegate.model.rollouts.versions import config_references, digest, with_images


async def renew(sets: Sets, plan: Plan, partition: int | None = None) -> None:
    """Gives the stable set the new version's template, and with it this partition. What it has already is not written.

    Raises CanaryFailedError where a source's template has been changed by somebody else.
    """
    if plan.inside is not None:
        await sets.apply_stable(lambda live: _applied(live["spec"], plan, partition))
        return

    def change(spec: JsonObject) -> JsonObject:
        changed = {**spec, "template": with_images(spec["template"], plan.spec.images)}
        if partition is not None:
            changed["updateStrategy"] = with_partition(spec.get("updateStrategy") or {}, partition)
        return changed

    await sets.change_stable(change)


def is_tried(plan: Plan, template: JsonObject, journal: Journal) -> bool:
    """Whether the set's template is the one that the steps were done with: a sync of the source then gives it other names to read by."""
    return plan.is_new(template) and (not journal.copies or not config_references(template).isdisjoint(journal.copies))


def _applied(spec: JsonObject, plan: Plan, partition: int | None) -> JsonObject | None:
    assert plan.inside is not None
    template, stands = spec["template"], partition_of(spec.get("updateStrategy") or {})
    if plan.is_new(template) and partition in (None, stands):
        return None
    if not plan.is_new(template) and digest(template) not in (digest(plan.base), digest(plan.inside.synced)):
        raise CanaryFailedError(f"the template of {plan.spec.workload.kind} {plan.spec.workload.name} was changed by somebody else")
    body = copy.deepcopy(plan.inside.body)
    if partition:
        body["spec"]["updateStrategy"] = with_partition(body["spec"].get("updateStrategy") or {}, partition)
    return body
