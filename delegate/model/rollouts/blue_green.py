"""Blue/green: the whole new version beside the stable one, reachable by a preview alone, and all load at once. Pure.

It is a canary whose steps and routing follow from what is said here, so all that holds for a canary holds for it.
"""

from collections.abc import Iterable, Sequence

from delegate.foundation.quantities import parse_duration
from delegate.model.resources import JsonObject
from delegate.model.rollouts.steps import CanaryScale, Pause, Step
from delegate.model.rollouts.workloads import canary_name
from delegate.model.strict import Strict
from delegate.model.verification.checks import Fault, faults_of_names

_WHOLE = CanaryScale(weight=100)


class BlueGreen(Strict, frozen=True):
    """As Argo Rollouts has it.

    `activeService` bears the load; `previewService` leads to the new pods until then, and is one that there is (it gets its selector back)
    or one that is made; empty: `<activeService>-canary`. `previewReplicaCount`: so many pods as long as there is no load, else as many as
    the stable set has. `prePromotion` and `postPromotion` name checks around the switch. Before it a pause: `autoPromotionAfter` that time,
    and without `autoPromotion` until the task is resumed. `scaleDownDelay`: how long the old version stands after the switch, and what is
    verified after it, before promotion takes its place.
    """

    active_service: str
    preview_service: str = ""
    preview_replica_count: int | None = None
    pre_promotion: tuple[str, ...] = ()
    auto_promotion: bool = True
    auto_promotion_after: str = ""
    post_promotion: tuple[str, ...] = ()
    scale_down_delay: str = "30s"

    @property
    def preview_scale(self) -> CanaryScale:
        return CanaryScale(replicas=self.preview_replica_count) if self.preview_replica_count is not None else _WHOLE

    @property
    def steps(self) -> tuple[Step, ...]:
        found = [Step(set_canary_scale=self.preview_scale)]
        if self.pre_promotion:
            found.append(Step(verify=self.pre_promotion))
        if not self.auto_promotion or self.auto_promotion_after:
            found.append(Step(pause=Pause(self.auto_promotion_after)))
        found += [Step(set_canary_scale=_WHOLE)] if self.preview_scale != _WHOLE else []
        found.append(Step(set_weight=100))
        if self.post_promotion:
            found.append(Step(verify=self.post_promotion))
        if parse_duration(self.scale_down_delay) > 0:
            found.append(Step(pause=Pause(self.scale_down_delay)))
        return tuple(found)

    def routing_by(self, said: JsonObject | str | None) -> JsonObject:
        """The switch is the active Service's own selector, unless the task names a router."""
        word, more = next(iter(said.items()), ("service", {})) if isinstance(said, dict) else ("service", {})
        own = self.preview_service not in ("", canary_name(self.active_service))
        preview = {"preview": self.preview_service} if own else {}
        return {word: {**more, "service": self.active_service, **preview}}


def faults_of_blue_green(
    wanted: BlueGreen, *, kind: str, steps: Sequence[Step], routing: JsonObject | str | None, checks: Sequence[str]
) -> Iterable[Fault]:
    """Field (below the spec), words, hint."""
    place = "blueGreen"
    if kind != "Deployment":
        words = f"a {kind} has no second set that could stand beside it" if kind != "Rollout" else "a Rollout has one of its own"
        yield place, words, "use it for a Deployment"
    if steps:
        yield "steps", "blueGreen has steps of its own", "leave the one or the other out"
    said = next(iter(routing.values()), None) if isinstance(routing, dict) else None
    if routing not in (None, {}) and not isinstance(said, dict):
        yield "routing", f"{routing!r} names no router", "leave it out: then the active Service's selector is switched"
    if isinstance(said, dict) and said.get("service", wanted.active_service) != wanted.active_service:
        yield "routing", f"its service {said['service']} is not the activeService {wanted.active_service}", "name the same one"
    if isinstance(said, dict) and said.get("preview"):
        yield "routing", "blueGreen names the preview", "give previewService"
    if not wanted.active_service:
        yield f"{place}.activeService", "it names no Service", "name the one that bears the load"
    if wanted.preview_service == wanted.active_service:
        yield f"{place}.previewService", "the preview would bear the load", "name another one, or none"
    if wanted.preview_replica_count is not None and wanted.preview_replica_count < 1:
        yield f"{place}.previewReplicaCount", f"{wanted.preview_replica_count} pods show nothing", "write 1 or more"
    if not wanted.auto_promotion and wanted.auto_promotion_after:
        yield f"{place}.autoPromotionAfter", "without autoPromotion it is somebody's word that promotes", "leave one of them out"
    yield from faults_of_names(f"{place}.prePromotion", wanted.pre_promotion, checks)
    yield from faults_of_names(f"{place}.postPromotion", wanted.post_promotion, checks)
    for field, text in (("autoPromotionAfter", wanted.auto_promotion_after or "0s"), ("scaleDownDelay", wanted.scale_down_delay)):
        try:
            parse_duration(text)
        except ValueError as error:
            yield f"{place}.{field}", str(error), "write a number and a unit, such as 30s"
