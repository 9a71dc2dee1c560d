"""The spec of a canary task, read strictly."""

import enum
from collections.abc import Iterable

import msgspec

from delegate.foundation.quantities import parse_duration
from delegate.model.resources import JsonObject
from delegate.model.rollouts.blue_green import BlueGreen, faults_of_blue_green
from delegate.model.rollouts.errors import CanarySpecError
from delegate.model.rollouts.smoke import SmokeTest, faults_of_smoke_test
from delegate.model.rollouts.steps import Step, faults_of_steps, loads_of
from delegate.model.rollouts.storms import StormSpec, faults_of_storm
from delegate.model.sources import Source
from delegate.model.strict import Strict
from delegate.model.verification.checks import Check, VerifySpec, faults_of_names, faults_of_verification

KINDS = ("Deployment", "StatefulSet", "Rollout")
DEFAULT_DRAIN = "30s"
VARIABLES = ("APPLICATION", "NAMESPACE", "WORKLOAD", "CANARY", "REVISION", "PODS", "PREVIEW")
"""What stands in the queries of a canary's checks; the last one only with a router."""


class OnFailure(enum.StrEnum):
    """`hold` leaves everything as it stands, and waits for `task resume` or a cancellation."""

    ABORT = "abort"
    HOLD = "hold"


class WorkloadReference(Strict, frozen=True):
    name: str
    kind: str = "Deployment"


class CanarySpec(Strict, frozen=True):
    """What a canary brings (`images` by container, or a `source`), how its load is shifted, and in which steps.

    `maxEffectiveShare`: the largest share, in percent, that is agreed to where pods alone can't reach the wanted one. `progressDeadline`:
    how long a set may take to become ready. `minReady`: how long a pod has to be ready before it counts. `drain`: how long a set is kept
    that gets no more load. `routing` is read by whoever shifts the load. `background`: checks that run beside all steps from the first
    weight on. `blueGreen` stands for steps and routing of its own. `storm` bounds what happens where many canaries fail at once.
    """

    workload: WorkloadReference
    images: dict[str, str] = {}
    source: Source | None = None
    routing: JsonObject | str | None = None
    steps: tuple[Step, ...] = ()
    verification: tuple[Check, ...] = ()
    on_failure: OnFailure = OnFailure.ABORT
    drain: str = DEFAULT_DRAIN
    progress_deadline: str = "10m"
    min_ready: str = "10s"
    max_effective_share: float | None = None
    smoke_test: SmokeTest | None = None
    background: tuple[str, ...] = ()
    blue_green: BlueGreen | None = None
    storm: StormSpec = StormSpec()

    @property
    def drain_seconds(self) -> float:
        return parse_duration(self.drain)

    @property
    def progress_seconds(self) -> float:
        return parse_duration(self.progress_deadline)

    @property
    def min_ready_seconds(self) -> float:
        return parse_duration(self.min_ready)

    @property
    def routed(self) -> bool:
        """Whether a router shifts the load, which keeps it from new pods until then."""
        by_pods = self.routing in (None, "none", "replicas", {})
        return not by_pods and not (isinstance(self.routing, dict) and self.routing.keys() <= {"none", "argoRollouts"})

    @property
    def router(self) -> str:
        """The word of whoever shifts the load; empty where pods alone do, or a controller of their own."""
        return next(iter(self.routing), "") if self.routed and isinstance(self.routing, dict) else ""

    @property
    def switched_services(self) -> tuple[str, ...]:
        """Those that the task names and whose selector is not their source's to say as long as the canary lasts."""
        said = _said(self)
        named = (said.get("service") if self.router == "service" else None, said.get("preview"))
        return tuple(str(each) for each in named if each)

    @property
    def verifies(self) -> bool:
        """Whether any evidence is asked for."""
        return any(step.verify for step in self.steps) or bool(self.background or (self.smoke_test and self.smoke_test.verify))

    @property
    def checks_named(self) -> tuple[str, ...]:
        return tuple(check.name for check in self.verification)


def read_canary(spec: JsonObject) -> CanarySpec:
    """Raises CanarySpecError that names the field."""
    try:
        read = msgspec.convert(spec, CanarySpec)
    except msgspec.ValidationError as error:
        words = str(error).replace("`$.", "`spec.").replace("$", "spec")
        raise CanarySpecError(f"the canary's spec can't be meant: {words}", hint="see docs/canary.md for what it may hold") from error
    for field, words, hint in faults_of_canary(read):
        raise CanarySpecError(f"spec.{field}: {words}", hint=hint)
    return _as_driven(read)


def _as_driven(spec: CanarySpec) -> CanarySpec:
    """With the steps and the routing that blue/green stands for."""
    wanted = spec.blue_green
    return spec if wanted is None else msgspec.structs.replace(spec, steps=wanted.steps, routing=wanted.routing_by(spec.routing))


def faults_of_canary(spec: CanarySpec) -> Iterable[tuple[str, str, str]]:
    """Everything about a spec that can't be meant: field (below the spec), words, hint."""
    wanted, kind, checks = spec.blue_green, spec.workload.kind, spec.checks_named
    faults = [*faults_of_blue_green(wanted, kind=kind, steps=spec.steps, routing=spec.routing, checks=checks)] if wanted else []
    yield from faults or _faults_of_driven(_as_driven(spec))


def _faults_of_driven(spec: CanarySpec) -> Iterable[tuple[str, str, str]]:
    if spec.workload.kind not in KINDS:
        yield "workload.kind", f"a canary of a {spec.workload.kind} is not done by this delegate", f"it does {', '.join(KINDS)}"
    if bool(spec.images) == (spec.source is not None):
        yield "images", "one of `images` and `source` says what the new version is", "give the one and leave the other out"
    for field in ("drain", "progress_deadline", "min_ready"):
        try:
            parse_duration(getattr(spec, field))
        except ValueError as error:
            yield field, str(error), "write a number and a unit, such as 30s"
    begun = spec.workload.kind != "Deployment" or bool(spec.smoke_test and spec.smoke_test.verify)
    yield from faults_of_steps(spec.steps, checks=spec.checks_named, router=spec.router, begun=begun)
    if spec.router == "nginx" and _said(spec).get("headers") and any(step.set_header_route for step in spec.steps):
        words = "ingress-nginx tells versions by one header: routing.nginx.headers has it already"
        yield "steps", words, "leave the one or the other out"
    yield from _faults_of_background(spec)
    yield from faults_of_storm(spec.storm)
    if (spec.workload.kind == "Rollout") != (isinstance(spec.routing, dict) and "argoRollouts" in spec.routing):
        yield "routing", "argoRollouts and a workload of the kind Rollout belong together", "name both, or none"
    if spec.workload.kind == "Rollout":
        yield from _faults_of_rollout(spec)
    if spec.workload.kind == "StatefulSet":
        yield from _faults_of_ordinals(spec)
    if spec.smoke_test is not None:
        for field, words, hint in faults_of_smoke_test(spec.smoke_test, known=spec.checks_named, routed=spec.routed):
            yield f"smokeTest.{field}", words, hint
    if spec.verification:
        yield from faults_of_verification(VerifySpec(verification=spec.verification), known=VARIABLES if spec.routed else VARIABLES[:-1])


def _faults_of_background(spec: CanarySpec) -> Iterable[tuple[str, str, str]]:
    yield from faults_of_names("background", spec.background, spec.checks_named)
    loads = loads_of(spec.steps)
    if spec.background and spec.workload.kind != "Rollout" and not any(load.is_any for load in loads):
        yield "background", "the new version gets no load in any step, so there is nothing to watch", "add a step with a setWeight"
    elif spec.background and loads and not loads[-1].is_any and spec.workload.kind != "Rollout":
        words = "the new version has no load after the last step, so there is nothing that could conclude what is watched"
        yield "background", words, "let it keep its load until promotion"


def _said(spec: CanarySpec) -> JsonObject:
    """What the task says of its router."""
    said = spec.routing.get(spec.router) if isinstance(spec.routing, dict) else None
    return said if isinstance(said, dict) else {}


def _faults_of_rollout(spec: CanarySpec) -> Iterable[tuple[str, str, str]]:
    """What Argo's own steps say."""
    for position, step in enumerate(spec.steps):
        if step.pause is None and step.verify is None:
            yield (
                f"steps[{position}]",
                f"the Rollout's own steps set its weights, scale and header routes: {step}",
                "leave it out: a step is done at each of its pauses",
            )
    if spec.smoke_test is not None and spec.smoke_test.verify:
        words = "its own controller gives a Rollout's new pods their load, so they can't be looked at before"
        yield "smokeTest.verify", words, "give a command, or a verify step at a pause before the first weight"
    if spec.background:
        yield "background", "a Rollout is watched by background analyses of its own", "name the checks in verify steps"


def _faults_of_ordinals(spec: CanarySpec) -> Iterable[tuple[str, str, str]]:
    """What pods of one set with an order can't do."""
    if spec.routed:
        yield (
            "routing",
            "a StatefulSet's pods stand behind one Service, so nothing can be routed to the new ones alone",
            "leave routing out",
        )
    if spec.smoke_test is not None and spec.smoke_test.verify:
        words = "a StatefulSet's new pod takes the load of its ordinal as soon as it is ready, so it can't be looked at before"
        yield "smokeTest.verify", words, "give a command"
    highest = 0.0
    for position, step in enumerate(spec.steps):
        if step.set_weight is not None and step.set_weight < highest:
            words = f"setWeight {step.set_weight:g} after {highest:g}: a partition takes no pod back to the old version"
            yield f"steps[{position}]", words, "let weights grow"
        highest = max(highest, step.set_weight or 0.0)
        if step.verify is not None and not highest:
            yield f"steps[{position}]", "verify stands before any weight, so there would be no pod to verify", "set a weight first"
