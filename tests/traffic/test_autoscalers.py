"""Autoscalers that leave a set alone for a while: what comes back is what was there, and what others have changed stays."""

from hypothesis import given
from hypothesis import strategies as st

from delegate.engine.traffic.autoscalers import held, released
from delegate.model.resources import JsonObject

rules = st.fixed_dictionaries(
    {},
    optional={
        "selectPolicy": st.sampled_from(["Min", "Max", "Disabled"]),
        "stabilizationWindowSeconds": st.integers(0, 3600),
        "policies": st.just([{"type": "Percent", "value": 10, "periodSeconds": 60}]),
    },
)
behaviors = st.fixed_dictionaries({}, optional={"scaleUp": rules, "scaleDown": rules})


@given(behaviors)
def test_it_comes_back_as_it_was(behavior: JsonObject) -> None:
    """And held twice it is as held once: nothing but scaling down is different."""
    assert released(held(behavior), behavior) == behavior
    assert held(held(behavior)) == held(behavior)
    assert held(behavior)["scaleDown"]["selectPolicy"] == "Disabled"
    assert held(behavior).get("scaleUp") == behavior.get("scaleUp")


def test_what_a_server_fills_in_goes_with_it() -> None:
    """Where there was no behavior at all."""
    filled = {**held({}), "scaleUp": {"selectPolicy": "Max"}}
    assert released(filled, {}) == {}


def test_what_somebody_else_has_changed_stays() -> None:
    """A window of theirs; and where they let it scale down again, all of it."""
    first: JsonObject = {"scaleDown": {"selectPolicy": "Max"}}
    window = {"scaleDown": {"selectPolicy": "Disabled", "stabilizationWindowSeconds": 9}}
    assert released(window, first) == {"scaleDown": {"selectPolicy": "Max", "stabilizationWindowSeconds": 9}}
    theirs = {"scaleDown": {"selectPolicy": "Min"}}
    assert released(theirs, first) == theirs
