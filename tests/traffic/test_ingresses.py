"""The canary Ingress of ingress-nginx: its rules, its weights, and what stays of others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.engine.traffic.endpoints import ReadyPods, addresses, counted
from delegate.engine.traffic.errors import RouteNotFoundError, RoutingSpecError
from delegate.engine.traffic.ingresses import CanaryIngress, canary_rules, services_named
from delegate.engine.traffic.marks import Mark
from delegate.engine.traffic.services import chosen_service
from delegate.model.resources import JsonObject
from delegate.model.rollouts.loads import HeaderMatch, HeaderRoute, HeaderValue, Load

INGRESS = CanaryIngress("web-canary", "shop", "web", "web", "web-canary", headers={"x-canary": "always"})


def path(service: str, place: str = "/") -> JsonObject:
    return {"path": place, "pathType": "Prefix", "backend": {"service": {"name": service, "port": {"name": "http"}}}}


def main(**metadata: object) -> JsonObject:
    rules = [
        {"host": "shop.example", "http": {"paths": [path("web"), path("other", "/other")]}},
        {"host": "other.example", "http": {"paths": [path("other")]}},
        {"host": "empty.example"},
    ]
    return {"metadata": {"name": "web", "namespace": "shop", **metadata}, "spec": {"ingressClassName": "nginx", "rules": rules}}


@given(st.lists(st.integers(0, 10_000).map(lambda hundredths: hundredths / 100), min_size=1, max_size=4))
def test_weights_are_read_as_they_were_written(weights: list[float]) -> None:
    """Also fractions; annotations of others stay, and no header is left at weight 0."""
    live = INGRESS.made(main(), Mark(1, 0.0))
    live["metadata"]["annotations"]["theirs"] = "kept"
    for weight in weights:
        live = INGRESS.changed(live, main(), Mark(1, weight))
        assert INGRESS.weight_of(live) == pytest.approx(weight)
        assert INGRESS.is_loaded(live, Load(weight))
        assert ("nginx.ingress.kubernetes.io/canary-by-header" in live["metadata"]["annotations"]) == (weight > 0)
        assert live["metadata"]["annotations"]["theirs"] == "kept"
    assert INGRESS.loaded(live, Mark(1, 0.0)) == INGRESS.changed(live, main(), Mark(1, 0.0))


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (HeaderValue(exact="beta"), {"canary-by-header-value": "beta"}),
        (HeaderValue(prefix="beta-"), {"canary-by-header-pattern": r"^beta\-.*"}),
        (HeaderValue(regex="a|b"), {"canary-by-header-pattern": "^(?:a|b)$"}),
    ],
)
def test_a_header_route_stands_at_any_weight(value: HeaderValue, annotation: dict[str, str]) -> None:
    """In the place of no other header, read back as long as it is whole, and gone without a trace."""
    ingress = CanaryIngress("web-canary", "shop", "web", "web", "web-canary")
    route = HeaderRoute("testers", (HeaderMatch("x-group", value),))
    bare, mark = ingress.made(main(), Mark(1, 0.0)), Mark(1, 0.0, (route,))
    live = ingress.changed(bare, main(), mark)
    prefix = "nginx.ingress.kubernetes.io/"
    said = {key.removeprefix(prefix): text for key, text in live["metadata"]["annotations"].items() if "canary-by" in key}
    assert said == {"canary-by-header": "x-group", **annotation}
    assert ingress.load_of(live, mark) == Load(0.0, (route,))
    assert ingress.loaded(live, Mark(1, 0.0)) == bare
    del live["metadata"]["annotations"][f"{prefix}canary-by-header"]
    assert ingress.load_of(live, mark) == Load()
    assert not ingress.is_loaded(live, mark.load)


def test_only_paths_of_the_stable_service_are_taken() -> None:
    """Hosts and paths that lead elsewhere are left out, and so is an old way to name a class unless the main one has it."""
    assert canary_rules(main(), "web", "web-canary") == [{"host": "shop.example", "http": {"paths": [path("web-canary")]}}]
    assert services_named(main()) == {"web", "other"}
    assert "kubernetes.io/ingress.class" not in INGRESS.made(main(), Mark(1, 0.0))["metadata"]["annotations"]
    old = INGRESS.made(main(annotations={"kubernetes.io/ingress.class": "nginx"}), Mark(1, 0.0))
    assert old["metadata"]["annotations"]["kubernetes.io/ingress.class"] == "nginx"


def test_the_service_of_a_route() -> None:
    """The only one that fits, the one that is named, and in words what else there is."""
    assert chosen_service("r", {"web", "other"}, {"web", "web-internal"}) == "web"
    assert chosen_service("r", {"a", "b"}, {"a", "b"}, "b") == "b"
    with pytest.raises(RoutingSpecError, match="several Services"):
        chosen_service("r", {"a", "b"}, {"a", "b"})
    with pytest.raises(RouteNotFoundError, match="names no Service"):
        chosen_service("r", {"other"}, {"web"})
    with pytest.raises(RouteNotFoundError, match="does not lead to the stable pods"):
        chosen_service("r", {"other"}, {"web"}, "other")


def test_ready_pods_by_slices() -> None:
    """A pod that two slices list counts once, one that is not ready not at all, and one that says nothing is ready."""

    def endpoint(address: str, pod: str, ready: bool | None = True) -> JsonObject:
        return {"addresses": [address], "conditions": {"ready": ready}, "targetRef": {"kind": "Pod", "name": pod}}

    slices = [
        {"addressType": "IPv4", "endpoints": [endpoint("10.0.0.1", "old-1"), endpoint("10.0.0.2", "new-1", None)]},
        {"addressType": "IPv4", "endpoints": [endpoint("10.0.0.1", "old-1"), endpoint("10.0.0.3", "new-2", False)]},
        {"addressType": "IPv6", "endpoints": [endpoint("fd00::1", "old-1")]},
    ]
    assert counted(slices, {"new-1", "new-2"}) == ReadyPods(1, 1)
    assert counted(slices, {"new-1"}).share == 50
    assert len(addresses(slices, only_ready=False)) == 3
    assert ReadyPods(0, 0).share == 0
