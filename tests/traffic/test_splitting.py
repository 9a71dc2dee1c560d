"""Weights in lists of rules: what comes back is what was there, sums are kept, and nothing of others changes."""

import copy
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.engine.traffic.errors import RoutingSpecError
from delegate.engine.traffic.gateway_routes import HttpRouteShape, not_in_force
from delegate.engine.traffic.istio_routes import VirtualServiceShape, service_of
from delegate.engine.traffic.marks import Mark, mark_of, marked
from delegate.engine.traffic.patching import guarded_patch, patch_between
from delegate.engine.traffic.splitting import first_rules, names_canary, weight_of, with_load, without_canary
from delegate.model.resources import JsonObject
from delegate.model.rollouts.loads import HeaderMatch, HeaderRoute, HeaderValue, Load, by_headers

GATEWAY = HttpRouteShape("web", "web-canary", "shop")
ISTIO = VirtualServiceShape("web", "web-canary", "shop")
HEADERS = (by_headers("header", {"x-canary": "always"}), HeaderRoute("old", (HeaderMatch("user-agent", HeaderValue(prefix="curl/7")),)))
percents = st.integers(0, 100).map(float)
fractions = st.integers(0, 10_000).map(lambda hundredths: hundredths / 100)


def backend(name: str, weight: int | None = None, **others: object) -> JsonObject:
    return {"name": name, "port": 80, **({} if weight is None else {"weight": weight}), **others}


def destination(host: str, weight: int | None = None, **others: object) -> JsonObject:
    return {"destination": {"host": host, **others}, **({} if weight is None else {"weight": weight})}


foreign_fields = st.fixed_dictionaries(
    {},
    optional={
        "filters": st.just([{"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "a", "value": "b"}]}}]),
        "timeouts": st.just({"request": "10s"}),
        "name": st.sampled_from(["main", "other"]),
        "matches": st.sampled_from([[{"path": {"type": "PathPrefix", "value": "/"}}], [{"path": {"value": "/a"}}, {"method": "GET"}]]),
    },
)
sole_targets = st.sampled_from([None, 0, 1, 3, 100]).map(lambda weight: [backend("web", weight)])
many_targets = st.tuples(st.sampled_from([200, 1000, 999]), st.integers(0, 500)).map(
    lambda weights: [backend("other", weights[1]), backend("web", weights[0], filters=[{"type": "URLRewrite"}])]
)
foreign_targets = st.sampled_from([[backend("other", 7)], [backend("web", 1, namespace="elsewhere")], []])
rules = st.builds(
    lambda fields, targets: {**fields, "backendRefs": targets}, foreign_fields, st.one_of(sole_targets, many_targets, foreign_targets)
)
http_routes = st.lists(rules, min_size=1, max_size=5).map(lambda made: {"metadata": {"name": "web"}, "spec": {"rules": made}})

istio_sole = st.sampled_from([None, 100]).map(lambda weight: [destination("web", weight, subset="v1")])
istio_many = st.just([destination("other", 0), destination("web.shop.svc.cluster.local", 100)])
istio_rules = st.builds(
    lambda fields, targets: {**fields, "route": targets},
    st.fixed_dictionaries(
        {},
        optional={
            "name": st.sampled_from(["main", "other"]),
            "match": st.just([{"uri": {"prefix": "/a"}}]),
            "retries": st.just({"attempts": 2}),
        },
    ),
    st.one_of(istio_sole, istio_many, st.just([destination("web.elsewhere", 100)])),
)
virtual_services = st.lists(istio_rules, min_size=1, max_size=5).map(lambda made: {"metadata": {"name": "web"}, "spec": {"http": made}})


@given(http_routes, st.lists(fractions, min_size=1, max_size=4), st.sampled_from([(), HEADERS[:1], HEADERS]))
def test_an_http_route_comes_back_as_it_was(body: JsonObject, weights: Iterable[float], headers: tuple[HeaderRoute, ...]) -> None:
    """Any weights, one after the other, then restored: the very first body, and writing the same again changes nothing."""
    before = copy.deepcopy(body)
    first = first_rules(body, GATEWAY)
    changed = body
    for weight in weights:
        try:
            changed = with_load(changed, GATEWAY, first, Load(weight, headers))
        except RoutingSpecError:
            continue  # weights of others leave no such share
        assert with_load(changed, GATEWAY, first, Load(weight, headers)) == changed
    assert without_canary(changed, GATEWAY, first) == before
    assert body == before


@given(virtual_services, st.lists(percents, min_size=1, max_size=4), st.sampled_from([(), HEADERS[:1], HEADERS]))
def test_a_virtual_service_comes_back_as_it_was(body: JsonObject, weights: Iterable[float], headers: tuple[HeaderRoute, ...]) -> None:
    """The same, and the weights of each route sum up to 100 all the way."""
    first = first_rules(body, ISTIO)
    changed = body
    for weight in weights:
        changed = with_load(changed, ISTIO, first, Load(weight, headers))
        for rule in changed["spec"]["http"]:
            if len(rule["route"]) > 1:
                assert sum(target["weight"] for target in rule["route"]) == 100
        assert weight_of(changed, ISTIO) == (weight if first else 0)
    assert without_canary(changed, ISTIO, first) == body


@given(http_routes, fractions, st.sampled_from([(), HEADERS[:1], HEADERS]))
def test_nothing_of_others_changes(body: JsonObject, weight: float, headers: tuple[HeaderRoute, ...]) -> None:
    """Without the canary's targets, its rules and the stable weights, a route with a weight is the route without one."""
    first = first_rules(body, GATEWAY)
    try:
        changed = with_load(body, GATEWAY, first, Load(weight, headers))
    except RoutingSpecError:
        return

    def foreign(route: JsonObject) -> list[JsonObject]:
        seen = []
        for rule in route["spec"]["rules"]:
            kept = [target for target in rule["backendRefs"] if not GATEWAY.is_canary(target)]
            if kept or not rule["backendRefs"]:
                bare = [{**target, "weight": None} if GATEWAY.is_stable(target) else target for target in kept]
                seen.append({**rule, "backendRefs": bare})
        return seen

    assert foreign(changed) == foreign(body)
    if first and any(any(w != 0 for w in rule.weights) for rule in first):
        assert abs(weight_of(changed, GATEWAY) - weight) <= 0.5


@given(http_routes, http_routes)
def test_a_patch_makes_the_one_of_the_other(before: JsonObject, after: JsonObject) -> None:
    """Applied by the rules of RFC 6902, and empty for equal bodies."""
    assert _patched(before, patch_between(before, after)) == after
    assert patch_between(before, copy.deepcopy(before)) == []


def test_a_patch_is_guarded() -> None:
    """It carries the version that was read, unless there is nothing to write."""
    live = {"metadata": {"resourceVersion": "7", "annotations": {"a/b": "1"}}}
    patch = guarded_patch(live, {"metadata": {"resourceVersion": "7", "annotations": {"a/b": "2"}}})
    assert patch == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "replace", "path": "/metadata/annotations/a~1b", "value": "2"},
    ]
    assert guarded_patch(live, live) == []


def test_header_rules_stand_before_the_rule_whose_requests_they_take() -> None:
    """Filters come along, and the rule's own matches stay in force."""
    match = {"path": {"type": "PathPrefix", "value": "/a"}}
    filters = [{"type": "URLRewrite"}]
    body: JsonObject = {
        "spec": {
            "rules": [
                {"matches": [{"path": {"value": "/b"}}], "backendRefs": [backend("other")]},
                {"name": "main", "matches": [match], "filters": filters, "backendRefs": [backend("web", 1)]},
            ]
        }
    }
    first = first_rules(body, GATEWAY)
    other, header, main = with_load(body, GATEWAY, first, Load(10.0, HEADERS[:1]))["spec"]["rules"]
    assert other == body["spec"]["rules"][0]
    assert header == {
        "matches": [{**match, "headers": [{"type": "Exact", "name": "x-canary", "value": "always"}]}],
        "filters": filters,
        "backendRefs": [backend("web-canary", 1)],
    }
    assert main["backendRefs"] == [backend("web", 90), backend("web-canary", 10)]


def test_a_rule_that_came_since_is_left_alone() -> None:
    """Somebody adds a rule and a filter in mid-canary: both stay, in the weights that follow and when it is taken back."""
    body: JsonObject = {"spec": {"rules": [{"backendRefs": [backend("web")]}]}}
    first = first_rules(body, GATEWAY)
    changed = with_load(body, GATEWAY, first, Load(10.0))
    added = {"matches": [{"path": {"value": "/new"}}], "backendRefs": [backend("web", 5)]}
    changed["spec"]["rules"] = [added, {**changed["spec"]["rules"][0], "filters": [{"type": "X"}]}]
    changed = with_load(changed, GATEWAY, first, Load(20.0))
    assert changed["spec"]["rules"][0] == added
    assert changed["spec"]["rules"][1]["backendRefs"] == [backend("web", 80), backend("web-canary", 20)]
    back = without_canary(changed, GATEWAY, first)
    assert back["spec"]["rules"] == [added, {"backendRefs": [backend("web")], "filters": [{"type": "X"}]}]


def test_a_rule_whose_matches_were_changed_still_loses_its_canary() -> None:
    """Nobody knows its first weights any more: what went to the new version goes to the stable one."""
    body: JsonObject = {"spec": {"rules": [{"backendRefs": [backend("web", 4), backend("other", 1)]}]}}
    first = first_rules(body, GATEWAY)
    changed = with_load(body, GATEWAY, first, Load(25.0))
    changed["spec"]["rules"][0]["matches"] = [{"path": {"value": "/else"}}]
    back = without_canary(changed, GATEWAY, first)
    assert not names_canary(back, GATEWAY)
    assert back["spec"]["rules"][0]["backendRefs"] == [backend("web", 4), backend("other", 1)]


@pytest.mark.parametrize("weight", [10.0, 60.0])
def test_weights_of_others_are_not_scaled(weight: float) -> None:
    """A weight of 1 beside somebody else's can't be divided: said so, with what to do."""
    body: JsonObject = {"spec": {"rules": [{"backendRefs": [backend("web", 1), backend("other", 1)]}]}}
    with pytest.raises(RoutingSpecError, match="can't be divided") as caught:
        with_load(body, GATEWAY, first_rules(body, GATEWAY), Load(weight))
    assert "by 100" in caught.value.hint


@pytest.mark.parametrize(
    ("host", "service"),
    [
        ("web", "web"),
        ("web.shop", "web"),
        ("web.shop.svc", "web"),
        ("web.shop.svc.cluster.local", "web"),
        ("web.other", ""),
        ("web.example.org", ""),
        ("web.shop.example.org", ""),
        ("", ""),
    ],
)
def test_hosts_as_istio_reads_them(host: str, service: str) -> None:
    """Short names are of the own namespace; names of elsewhere are nobody's of here."""
    assert service_of({"destination": {"host": host}}, "shop") == service


def test_a_canary_destination_keeps_the_form_of_its_host() -> None:
    """And has no subset, which is defined for the stable host."""
    made = ISTIO.canary_target(destination("web.shop.svc.cluster.local", 100, subset="v1", port={"number": 80}))
    assert made["destination"] == {"host": "web-canary.shop.svc.cluster.local", "port": {"number": 80}}


def test_marks_of_others_stay() -> None:
    """One annotation for all canaries of a route; the last one to go takes it along."""
    body: JsonObject = {"metadata": {"name": "web"}}
    one = marked(body, "web", Mark(4, 10.0))
    two = marked(one, "api", Mark(1, 50.0))
    assert (mark_of(two, "web"), mark_of(two, "api")) == (Mark(4, 10.0), Mark(1, 50.0))
    assert marked(two, "api", None) == one
    assert marked(one, "web", None) == body


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ([("Accepted", "True", 3)], ""),
        ([("Accepted", "True", 2)], "has not seen its newest state"),
        ([("Accepted", "False", 3)], "does not accept it: Because: it is so"),
        ([("Accepted", "True", 3), ("ResolvedRefs", "False", 3)], "does not resolve its backends"),
        ([], "does not say whether"),
    ],
)
def test_what_a_parent_says(conditions: list[tuple[str, str, int]], words: str) -> None:
    """Only an accepted newest generation is in force."""
    told = [
        {"type": type, "status": status, "observedGeneration": seen, "reason": "Because", "message": "it is so"}
        for type, status, seen in conditions
    ]
    route: JsonObject = {
        "metadata": {"generation": 3, "namespace": "shop"},
        "spec": {"parentRefs": [{"name": "gate"}]},
        "status": {"parents": [{"parentRef": {"name": "gate", "group": "gateway.networking.k8s.io"}, "conditions": told}]},
    }
    reason = not_in_force(route)
    assert words in reason
    assert bool(reason) == bool(words)
    route["spec"]["parentRefs"].append({"name": "second", "namespace": "edge"})
    assert words in not_in_force(route) or "edge/second" in not_in_force(route)
    assert not_in_force(route)


def _patched(body: object, patch: list[JsonObject]) -> object:
    made: object = msgspec.json.decode(msgspec.json.encode(body))  # a deep copy keeps parts shared that were the same
    for change in patch:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in change["path"].split("/")[1:]]
        at = made
        for part in way:
            at = at[int(part)] if isinstance(at, list) else at[part]  # type: ignore[index]
        if change["op"] == "remove":
            del at[last]  # type: ignore[attr-defined]
        else:
            at[int(last) if isinstance(at, list) else last] = change["value"]  # type: ignore[index]
    return made
