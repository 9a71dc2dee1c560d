"""Blue/green as a spec: the steps and the routing that it stands for, and what can't be meant."""

import pytest

from delegate.model.resources import JsonObject
from delegate.model.rollouts.errors import CanarySpecError
from delegate.model.rollouts.specs import read_canary

CHECK = {"name": "health", "type": "http", "url": "http://$PREVIEW/healthz", "unit": "count", "threshold": "== 200 count"}


def spec_of(blue_green: JsonObject, **more: object) -> JsonObject:
    wanted = {"activeService": "web", **blue_green}
    return {"workload": {"name": "web"}, "images": {"main": "web:2"}, "verification": [CHECK], "blueGreen": wanted, **more}


def test_it_is_a_canary_with_steps_of_its_own() -> None:
    """All at once by default; a smaller preview is made whole before the switch, and a word or a time may stand before it."""
    plain = read_canary(spec_of({}))
    assert [str(step) for step in plain.steps] == ["setCanaryScale 100% of the stable pods", "setWeight 100", "pause 30s"]
    assert plain.routing == {"service": {"service": "web"}}
    full = {
        "previewService": "web-preview",
        "previewReplicaCount": 1,
        "prePromotion": ["health"],
        "autoPromotion": False,
        "postPromotion": ["health"],
        "scaleDownDelay": "0s",
    }
    read = read_canary(spec_of(full, routing={"gatewayAPI": {"httpRoute": "web"}}))
    assert [str(step) for step in read.steps] == [
        "setCanaryScale 1 new pods",
        "verify health",
        "pause",
        "setCanaryScale 100% of the stable pods",
        "setWeight 100",
        "verify health",
    ]
    assert read.routing == {"gatewayAPI": {"httpRoute": "web", "service": "web", "preview": "web-preview"}}
    assert read.switched_services == ("web-preview",)
    assert read_canary(spec_of({"previewService": "web-canary"})).switched_services == ("web",)
    timed = read_canary(spec_of({"autoPromotionAfter": "5m"}))
    assert [step.pause.seconds for step in timed.steps if step.pause is not None] == [300.0, 30.0]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (spec_of({}, steps=[{"setWeight": 20}]), "spec.steps: blueGreen has steps of its own"),
        (spec_of({}, workload={"kind": "StatefulSet", "name": "web"}), "a StatefulSet has no second set"),
        (spec_of({}, workload={"kind": "Rollout", "name": "web"}, routing={"argoRollouts": {}}), "a Rollout has one of its own"),
        (spec_of({}, routing="none"), "spec.routing: 'none' names no router"),
        (spec_of({}, routing={"service": {"service": "api"}}), "its service api is not the activeService web"),
        (spec_of({}, routing={"service": {"preview": "api"}}), "blueGreen names the preview"),
        (spec_of({"activeService": ""}), "activeService: it names no Service"),
        (spec_of({"previewService": "web"}), "previewService: the preview would bear the load"),
        (spec_of({"previewReplicaCount": 0}), "previewReplicaCount: 0 pods show nothing"),
        (spec_of({"autoPromotion": False, "autoPromotionAfter": "1m"}), "autoPromotionAfter: without autoPromotion"),
        (spec_of({"prePromotion": ["other"]}), "prePromotion: it names the check 'other'"),
        (spec_of({"scaleDownDelay": "soon"}), "scaleDownDelay: 'soon' is no duration"),
        ({**spec_of({}), "blueGreen": None, "steps": [{"setWeight": 20}]}, "PREVIEW"),
    ],
)
def test_what_can_not_be_meant_is_refused_when_it_is_read(spec: JsonObject, words: str) -> None:
    """With the field; and there is no $PREVIEW where no router keeps load from the new pods."""
    with pytest.raises(Exception, match=words) as refused:
        read_canary(spec)
    assert isinstance(refused.value, CanarySpecError)
