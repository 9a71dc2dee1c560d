"""Canaries of StatefulSets that can't be meant."""

import pytest

from delegate.model.resources import JsonObject
from delegate.model.rollouts.errors import CanarySpecError
from delegate.model.rollouts.specs import read_canary


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"routing": {"nginx": {"ingress": "web"}}}, "spec.routing"),
        ({"steps": [{"setWeight": 50}, {"setWeight": 20}]}, "takes no pod back"),
        ({"steps": [{"verify": ["errors"]}]}, "before any weight"),
        ({"smokeTest": {"verify": ["errors"]}}, "spec.smokeTest.verify"),
    ],
    ids=["routing", "falling", "verify-first", "smoke"],
)
def test_what_one_set_with_an_order_can_not_do_is_refused(changed: JsonObject, words: str) -> None:
    """With the field named."""
    check = {"name": "errors", "type": "http", "url": "http://web/", "query": "$.e", "unit": "%", "threshold": "<= 1%"}
    spec = {"workload": {"kind": "StatefulSet", "name": "web"}, "images": {"main": "web:2"}, "verification": [check]}

    with pytest.raises(CanarySpecError) as refused:
        read_canary({**spec, **changed})

    assert words in refused.value.message
