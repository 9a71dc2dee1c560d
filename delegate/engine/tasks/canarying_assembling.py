"""Puts together what works on one canary: its sets, its pods, its router, its checks, and the driver over them."""

from delegate.engine.records.journals import JournalStore, StoredJournal
from delegate.engine.tasks.canarying_background import BackgroundChecks
from delegate.engine.tasks.canarying_plans import Ground
from delegate.engine.tasks.canarying_sets import Authority, Sets
from delegate.engine.tasks.canarying_smoke import SmokeJob
from delegate.engine.tasks.canarying_storms import CanaryGroup
from delegate.engine.tasks.canarying_verifying import CanaryChecks
from delegate.engine.tasks.canarying_ways import new_pods_of
from delegate.engine.tasks.canarying_work import CanaryWork
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.traffic.autoscalers import Autoscalers
from delegate.engine.traffic.routers import RoutePlace, router_of
from delegate.model.resources import JsonObject
from delegate.model.rollouts.smoke import smoke_job_name


def place_of(ground: Ground, authority: Authority) -> RoutePlace:
    return RoutePlace(
        client=ground.client,
        discovery=ground.cluster.discovery,
        namespace=ground.namespace,
        application=ground.plan.application,
        workload=ground.plan.spec.workload.name,
        services=ground.plan.tracks.services,
        canary_selector=ground.plan.tracks.selector,
        fence=authority.fence,
        guard=authority.check,
        verify=authority.verify,
    )


def canary_work(
    ground: Ground,
    authority: Authority,
    store: JournalStore,
    stored: StoredJournal,
    *,
    context: AttemptContext,
    checks: CanaryChecks | None,
    routing: JsonObject | None = None,
) -> CanaryWork:
    """`routing`: where the journal is of another release, the one that it was begun with."""
    assert stored.journal is not None
    if checks is not None:
        checks.carry(stored.journal.fails)
    plan, workload = ground.plan, ground.plan.spec.workload
    sets = Sets(
        ground.client,
        authority,
        application=plan.application,
        namespace=ground.namespace,
        workload=workload.name,
        kind=workload.kind,
    )
    place = place_of(ground, authority)
    router = router_of(plan.spec.routing if routing is None else routing, place)
    pods = new_pods_of(ground.client, plan, sets, authority, routed=router.separates)

    return CanaryWork(
        plan,
        client=ground.client,
        authority=authority,
        sets=sets,
        pods=pods,
        router=router,
        autoscalers=Autoscalers(place),
        store=store,
        stored=stored,
        context=context,
        run_checks=checks.run if checks is not None else None,
        ask_stable=checks.of_stable if checks is not None else None,
        group=CanaryGroup(ground.client, ground.namespace, plan.spec, stored.journal.task),
        background=BackgroundChecks(checks, plan.spec.background, ground.client.clock),
        smoke_job=SmokeJob(
            ground.client,
            authority,
            namespace=ground.namespace,
            name=smoke_job_name(sets.canary_name, stored.journal.release),
            application=plan.application,
            owner=stored.config_map,
        ),
    )
