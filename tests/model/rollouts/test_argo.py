"""Where an Argo Rollout pauses until somebody says so, as its controller has it."""

import pytest

from delegate.model.resources import JsonObject
from delegate.model.rollouts.argo import Stop, stops_of


@pytest.mark.parametrize(
    ("blue_green", "stops"),
    [
        ({"autoPromotionEnabled": False}, (Stop(-1, 0.0),)),
        ({"autoPromotionEnabled": False, "autoPromotionSeconds": 30}, (Stop(-1, 0.0),)),
        ({"autoPromotionSeconds": 30}, ()),
        ({"autoPromotionEnabled": True}, ()),
        ({}, ()),
    ],
)
def test_a_blue_green_switch_waits_where_nobody_promotes_by_itself(blue_green: JsonObject, stops: tuple[Stop, ...]) -> None:
    """Switched off, no seconds switch it on again."""
    assert stops_of({"strategy": {"blueGreen": blue_green}}) == stops


def test_only_pauses_without_a_duration_are_without_end() -> None:
    """One of no time at all passes by itself; each has the weight that was set before it."""
    steps: list[JsonObject] = [
        {"pause": {}},
        {"setWeight": 20},
        {"pause": {"duration": "10m"}},
        {"pause": {"duration": 0}},
        {"pause": None},
        {"setWeight": 60},
        {"analysis": {}},
        {"pause": {"duration": None}},
    ]

    assert stops_of({"strategy": {"canary": {"steps": steps}}}) == (Stop(0, 0.0), Stop(4, 20.0), Stop(7, 60.0))
    assert stops_of({}) == ()
