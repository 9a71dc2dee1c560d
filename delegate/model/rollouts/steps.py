"""The steps of a canary as they are written: what each says, and which can't follow which. Pure."""

from collections.abc import Iterable, Sequence

from delegate.foundation.quantities import parse_duration
from delegate.model.rollouts.loads import HeaderRoute, Load, faults_of_header_route
from delegate.model.strict import Strict
from delegate.model.verification.checks import Fault, faults_of_names

MOST_STEPS = 100
_FIELDS = "setWeight, setHeaderRoute, setCanaryScale, pause and verify"


class Pause(Strict, frozen=True):
    """Without a `duration` it lasts until somebody resumes the task."""

    duration: str | float = ""

    @property
    def seconds(self) -> float | None:
        """None: until it is resumed."""
        if self.duration == "":
            return None
        return float(self.duration) if isinstance(self.duration, (int, float)) else parse_duration(self.duration)


class CanaryScale(Strict, frozen=True):
    """How many new pods there are apart from what the weight takes: `replicas`, or `weight` percent of the stable ones; never fewer than
    the weight in force takes. `matchTrafficWeight`: just as many again."""

    replicas: int | None = None
    weight: float | None = None
    match_traffic_weight: bool = False

    def __str__(self) -> str:
        if self.match_traffic_weight:
            return "as the weight takes"
        return f"{self.replicas} new pods" if self.replicas is not None else f"{self.weight:g}% of the stable pods"


class Step(Strict, frozen=True):
    """Exactly one of its fields."""

    set_weight: float | None = None
    pause: Pause | None = None
    verify: tuple[str, ...] | None = None
    set_header_route: HeaderRoute | None = None
    set_canary_scale: CanaryScale | None = None

    def __str__(self) -> str:
        if self.set_weight is not None:
            return f"setWeight {self.set_weight:g}"
        if self.set_header_route is not None:
            return f"setHeaderRoute {self.set_header_route.name}"
        if self.set_canary_scale is not None:
            return f"setCanaryScale {self.set_canary_scale}"
        if self.pause is not None:
            return f"pause {self.pause.duration}".strip()
        return f"verify {', '.join(self.verify or ())}"


def load_after(step: Step, load: Load) -> Load:
    """What leads to the new version once the step is done."""
    if step.set_weight is not None:
        return Load(step.set_weight, load.header_routes)
    return load.with_route(step.set_header_route) if step.set_header_route is not None else load


def loads_of(steps: Sequence[Step]) -> tuple[Load, ...]:
    """After each of them."""
    found, load = [], Load()
    for step in steps:
        load = load_after(step, load)
        found.append(load)
    return tuple(found)


def faults_of_steps(steps: Sequence[Step], *, checks: Sequence[str], router: str, begun: bool) -> Iterable[Fault]:
    """Field (below the spec), words, hint. `checks`: those that there are; `router`: its word, empty where there is none; `begun`: whether
    new pods stand whatever the steps say."""
    if len(steps) > MOST_STEPS:
        yield "steps", f"{len(steps)} steps are more than {MOST_STEPS}", "use fewer"
    load, scaled = Load(), False
    for position, step in enumerate(steps):
        place = f"steps[{position}]"
        given = [getattr(step, field) for field in step.__struct_fields__]
        if sum(each is not None for each in given) != 1:
            yield place, f"a step is exactly one of {_FIELDS}", "make a step of each"
        yield from ((f"{place}{field}", words, hint) for field, words, hint in _faults_of_step(step, load, router))
        yield from faults_of_names(place, step.verify or (), checks)
        scaled = (scaled or step.set_canary_scale is not None) and not (step.set_canary_scale or CanaryScale()).match_traffic_weight
        load = load_after(step, load)
        if step.verify and not (load.is_any or scaled or begun):
            words = "verify stands before any weight, header route or scale, so there would be no pod to verify"
            yield place, words, "set one of them first"


def _faults_of_step(step: Step, load: Load, router: str) -> Iterable[Fault]:
    if step.set_weight is not None and not 0 <= step.set_weight <= 100:
        yield "", f"setWeight {step.set_weight:g} is no percentage", "write 0 to 100"
    elif router == "service" and step.set_weight not in (None, 0, 100):
        words = f"setWeight {step.set_weight:g}: a Service's selector leads to one version alone"
        yield "", words, "use weights of 0 and 100 alone, or another router"
    if step.pause is not None:
        try:
            _ = step.pause.seconds
        except ValueError as error:
            yield "", str(error), "write a number and a unit, such as 30s, or none to wait for `task resume`"
    if step.verify is not None and not step.verify:
        yield "", "verify names no check", "name some of spec.verification"
    if step.set_header_route is not None:
        yield from ((f".{field}", words, hint) for field, words, hint in faults_of_header_route(step.set_header_route, load, router))
    if step.set_canary_scale is not None:
        yield from _faults_of_scale(step.set_canary_scale, router)


def _faults_of_scale(scale: CanaryScale, router: str) -> Iterable[Fault]:
    given = (scale.replicas is not None, scale.weight is not None, scale.match_traffic_weight)
    if not router:
        words = "without a router the number of new pods is their share of the load"
        yield ".setCanaryScale", words, "use setWeight, or name a router"
    if sum(given) != 1:
        yield ".setCanaryScale", "it is exactly one of replicas, weight and matchTrafficWeight", "give one of them"
    if scale.replicas is not None and scale.replicas < 1:
        yield ".setCanaryScale", f"{scale.replicas} replicas are no new pod", "write 1 or more"
    if scale.weight is not None and not 0 < scale.weight <= 100:
        yield ".setCanaryScale", f"a weight of {scale.weight:g} is no percentage of the stable pods", "write more than 0, at most 100"
