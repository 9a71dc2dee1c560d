"""Header routes and scales as steps: what can't be meant or done is refused by name, and what leads to the new version is told."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.resources import JsonObject
from delegate.model.rollouts.errors import CanarySpecError
from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.loads import HeaderMatch, HeaderRoute, HeaderValue, Load, by_headers
from delegate.model.rollouts.permissions import rules_of
from delegate.model.rollouts.shares import scaled_share, share_by_router
from delegate.model.rollouts.specs import read_canary
from delegate.model.rollouts.steps import CanaryScale

GATEWAY = {"gatewayAPI": {"httpRoute": "web"}}
NGINX = {"nginx": {"ingress": "web"}}
CHECK = {"name": "errors", "type": "http", "url": "http://web/", "query": "$.e", "unit": "%", "threshold": "<= 1%"}
REMOVED = {"setHeaderRoute": {"name": "testers"}}


def header_route(name: str = "testers", header: str = "x-canary", **value: str) -> JsonObject:
    return {"setHeaderRoute": {"name": name, "match": [{"headerName": header, "headerValue": value or {"exact": "1"}}]}}


def spec_of(*steps: JsonObject, **more: object) -> JsonObject:
    return {"workload": {"name": "web"}, "images": {"main": "web:2"}, "verification": [CHECK], "steps": list(steps), **more}


def test_a_canary_by_headers_alone_can_be_meant() -> None:
    """By each router that knows headers; it is verified and watched with no weight at all."""
    for routing in (GATEWAY, {"istio": {"virtualService": "web"}}, NGINX):
        read = read_canary(spec_of(header_route(prefix="beta-"), {"verify": ["errors"]}, routing=routing, background=["errors"]))
        assert read.steps[0].set_header_route == HeaderRoute("testers", (HeaderMatch("x-canary", HeaderValue(prefix="beta-")),))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (spec_of(header_route()), r"spec.steps\[0\].setHeaderRoute: testers: without a router nothing tells requests apart"),
        (spec_of(header_route(), routing={"service": {}}), "testers: service knows nothing of headers"),
        (
            spec_of(header_route(), workload={"kind": "Rollout", "name": "web"}, routing={"argoRollouts": {}}),
            "testers: without a router",
        ),
        (spec_of(REMOVED, routing=GATEWAY), "no step before has set the header route testers"),
        (spec_of(header_route(), REMOVED, REMOVED, routing=GATEWAY), r"steps\[2\].setHeaderRoute: no step before"),
        (spec_of(header_route("Testers"), routing=GATEWAY), "'Testers' is no name"),
        (spec_of(header_route(header="x canary"), routing=GATEWAY), "'x canary' is no name of a header"),
        (spec_of(header_route(exact="1", regex="2"), routing=GATEWAY), "exactly one of exact, prefix and regex"),
        (spec_of(header_route(exact="1\n"), routing=GATEWAY), "no header has such a value"),
        (spec_of(header_route(), header_route("second"), routing=NGINX), "by one header: second would be the second"),
        (spec_of(header_route(exact="a b"), routing=NGINX), "takes no such characters"),
        (spec_of(header_route(regex="a;b"), routing=NGINX), "takes no such characters"),
        (spec_of(header_route(), routing={"nginx": {"ingress": "web", "headers": {"a": "b"}}}), "routing.nginx.headers has it already"),
        (spec_of({"setCanaryScale": {"replicas": 1}}), "without a router the number of new pods is their share"),
        (spec_of({"setCanaryScale": {}}, routing=GATEWAY), "exactly one of replicas, weight and matchTrafficWeight"),
        (spec_of({"setCanaryScale": {"replicas": 0}}, routing=GATEWAY), "0 replicas are no new pod"),
        (spec_of({"verify": ["errors"]}, routing=GATEWAY), "verify stands before any weight, header route or scale"),
        (spec_of({"setWeight": 20}, {"setWeight": 0}, {"verify": ["errors"]}), "verify stands before any weight"),
        (spec_of(header_route(), REMOVED, routing=GATEWAY, background=["errors"]), "no load after the last step"),
        (spec_of({"setWeight": 50}, routing={"service": {}}), "setWeight 50: a Service's selector leads to one version alone"),
    ],
)
def test_what_can_not_be_done_is_refused_when_it_is_read(spec: JsonObject, words: str) -> None:
    """With the step and the field."""
    with pytest.raises(CanarySpecError, match=words):
        read_canary(spec)


def test_two_headers_of_one_name_can_not_both_hold() -> None:
    """A route for each of them says what was meant."""
    match = [{"headerName": name, "headerValue": {"exact": "1"}} for name in ("x-canary", "X-Canary")]
    with pytest.raises(CanarySpecError, match="x-canary stands there twice"):
        read_canary(spec_of({"setHeaderRoute": {"name": "testers", "match": match}}, routing=GATEWAY))


def test_what_leads_to_the_new_version_is_told() -> None:
    """The weight and the routes; the one of a name takes the place of the one before."""
    load = Load()
    assert (load.is_any, str(load)) == (False, "no load")
    load = load.with_route(by_headers("testers", {"x-canary": "1"})).with_route(by_headers("staff", {"x-staff": "1"}))
    assert (load.is_any, str(load)) == (True, "0% and the header routes testers, staff")
    changed = load.with_route(by_headers("testers", {"x-canary": "2"}))
    assert changed.names == load.names
    assert str(Load(20.0, changed.with_route(HeaderRoute("staff")).header_routes)) == "20% and the header route testers"


printable = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=12)


@given(printable, printable)
def test_a_prefix_as_a_pattern_takes_what_begins_with_it(prefix: str, other: str) -> None:
    """Whatever stands in it, for who looks for the pattern anywhere and for who wants the whole value matched."""
    pattern = HeaderValue(prefix=prefix).pattern
    assert re.search(pattern, prefix + other)
    assert re.fullmatch(pattern, prefix + other)
    assert bool(re.search(pattern, other)) == other.startswith(prefix)
    assert not re.search(HeaderValue(regex="b|c").pattern, "abc")


def test_there_are_as_many_new_pods_as_a_step_says_and_never_fewer_than_the_load_takes() -> None:
    """One at least where a header leads to them."""
    routed = Load(0.0, (by_headers("testers", {"a": "b"}),))
    none, half = share_by_router(4, 0.0), share_by_router(4, 50.0)
    assert scaled_share(none, 4, Load(), None).count == 0
    assert scaled_share(none, 4, routed, None).count == 1
    assert scaled_share(half, 4, Load(50.0), CanaryScale(replicas=1)).count == 2
    assert scaled_share(none, 4, Load(), CanaryScale(replicas=3)).count == 3
    assert scaled_share(none, 3, Load(), CanaryScale(weight=50)).count == 2


def test_a_journal_keeps_header_routes_and_asks_for_what_its_router_needs() -> None:
    """Read as it was written; the verbs are those of its router's objects."""
    routes = (by_headers("testers", {"a": "b"}),)
    journal = Journal("shop", "t", "a", 1, "web", "u", "r", header_routes=routes, scale=CanaryScale(replicas=2), routing=NGINX)
    assert msgspec.json.decode(msgspec.json.encode(journal), type=Journal) == journal
    asked = {(group, resource): verbs for group, resource, verbs in rules_of("Deployment", journal)}
    assert asked["networking.k8s.io", "ingresses"] == ("get", "list", "create", "patch", "delete")
    assert ("discovery.k8s.io", "endpointslices") in asked
    assert ("gateway.networking.k8s.io", "httproutes") not in asked
