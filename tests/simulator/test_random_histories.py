"""Random histories of writes by several managers: whatever they do, the store stays sound.

After every step: versions only grow, a dry run left no trace, who owns a field owns one that exists, and what is stored applies
as no change. At the end: watches that were told everything agree with the lists, and a snapshot holds all of it. Controllers
stand still meanwhile; what they write is compared elsewhere.
"""

import json
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from delegate.simulator import snapshots
from delegate.simulator.registry import Registry
from tests.simulator.clients import APPLY, JSON_PATCH, MERGE, STRATEGIC, Answer
from tests.simulator.test_fuzzing import Cluster

PATHS = {
    "ConfigMap": "/api/v1/namespaces/default/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "Service": "/api/v1/namespaces/default/services",
    "Widget": "/apis/e.com/v1/namespaces/default/widgets",
}
WIDGET = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.e.com"},
    "spec": {
        "group": "e.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "default": 1},
                                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {"name": {"type": "string"}, "weight": {"type": "integer", "default": 5}},
                                        },
                                    },
                                },
                            },
                            "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
                        },
                    }
                },
            }
        ],
    },
}
KINDS = st.sampled_from(tuple(PATHS))
NAMES = st.sampled_from(("a", "b"))
MANAGERS = st.sampled_from(("one", "two", "three"))
MEMBERS = st.sampled_from(("labels", "annotations", "finalizers"))
LETTERS = st.sampled_from(("x", "y", "z"))
NUMBERS = st.integers(0, 3)
LABELS = st.dictionaries(LETTERS, LETTERS, max_size=2)
FINALIZERS = st.lists(st.sampled_from(("e.com/f", "e.com/g")), max_size=2, unique=True)


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


_ENV = st.lists(LETTERS, max_size=3, unique=True).map(lambda names: [{"name": name, "value": name} for name in names])
_CONTAINERS = st.lists(st.tuples(LETTERS, _ENV), min_size=1, max_size=2, unique_by=lambda pair: pair[0]).map(
    lambda pairs: [{"name": name, "image": "i:1", "env": env} for name, env in pairs]
)
_PORTS = st.lists(st.tuples(st.sampled_from((80, 81, 82)), st.sampled_from(("TCP", "UDP"))), min_size=1, max_size=3, unique=True).map(
    lambda pairs: [{"name": f"p{port}{protocol.lower()}", "port": port, "protocol": protocol} for port, protocol in pairs]
)
SPECS: dict[str, st.SearchStrategy[Any]] = {
    "ConfigMap": _some(data=st.dictionaries(LETTERS, LETTERS, max_size=3), binaryData=st.sampled_from(({}, {"w": "eA=="}))),
    "Deployment": st.builds(
        lambda more, containers: {
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers}},
                **more,
            }
        },
        _some(minReadySeconds=NUMBERS, paused=st.booleans(), revisionHistoryLimit=NUMBERS, replicas=NUMBERS),
        _CONTAINERS,
    ),
    "Service": st.builds(lambda ports, more: {"spec": {"ports": ports, **more}}, _PORTS, _some(selector=LABELS, type=st.just("NodePort"))),
    "Widget": _some(
        spec=_some(
            size=NUMBERS,
            tags=st.lists(LETTERS, max_size=3, unique=True),
            parts=st.lists(LETTERS, max_size=2, unique=True).map(lambda names: [{"name": name} for name in names]),
        ),
        status=_some(size=NUMBERS),
    ),
}


@st.composite
def objects(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A path and an object for it."""
    kind, name = draw(KINDS), draw(NAMES)
    metadata = {"name": name, **draw(_some(labels=LABELS, annotations=LABELS, finalizers=FINALIZERS))}
    version = {"Deployment": "apps/v1", "Widget": "e.com/v1"}.get(kind, "v1")
    return PATHS[kind], {"apiVersion": version, "kind": kind, "metadata": metadata, **draw(SPECS[kind])}


class Histories(RuleBasedStateMachine):
    """Clients of one cluster, taking turns."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.highest = 0
        self.start = 0
        self.first: dict[str, dict[str, str]] = {}

    @initialize()
    def serve_widgets(self) -> None:
        self.cluster.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGET)
        client, simulator = self.cluster.client, self.cluster.simulator
        self.cluster.runner.run(client.until(PATHS["Widget"], lambda body: isinstance(body, dict) and body["kind"] == "WidgetList"))
        self.cluster.runner.run(simulator.controllers.stop())
        self.highest = self.start = simulator.registry.store.version
        self.first = {path: self._listed(path) for path in PATHS.values()}

    def write(self, method: str, path: str, body: Any, **params: str) -> None:
        """Sends a write, as a dry run first: that changes nothing, and foretells the status."""
        registry = self.cluster.simulator.registry
        before = everything(registry)
        tried = self.cluster.send(method, path, body, dryRun="All", **params)
        assert everything(registry) == before
        version = registry.store.version
        done = self.cluster.send(method, path, body, **params)
        assert done.status == tried.status, (tried.body, done.body)
        self._check_version(done, version)

    def _check_version(self, answer: Answer, before: int) -> None:
        registry = self.cluster.simulator.registry
        if answer.status >= 300:
            assert registry.store.version == before
            return
        shown = (answer.body.get("metadata") or {}).get("resourceVersion")
        if shown is not None and answer.body["kind"] != "Scale":
            assert int(shown) <= registry.store.version

    @rule(found=objects(), manager=MANAGERS)
    def create(self, found: tuple[str, Any], manager: str) -> None:
        path, body = found
        self.write("POST", path, body, fieldManager=manager)

    @rule(found=objects(), manager=MANAGERS, force=st.booleans())
    def apply(self, found: tuple[str, Any], manager: str, force: bool) -> None:
        path, body = found
        name = body["metadata"]["name"]
        self.write("PATCH", f"{path}/{name}", body, kind=APPLY, fieldManager=manager, force=str(force).lower())

    @rule(found=objects(), manager=MANAGERS)
    def replace(self, found: tuple[str, Any], manager: str) -> None:
        path, body = found
        live = self.cluster.send("GET", f"{path}/{body['metadata']['name']}")
        if live.status == 200:
            body["metadata"]["resourceVersion"] = live.body["metadata"]["resourceVersion"]
            body = {**live.body, **body}
        self.write("PUT", f"{path}/{body['metadata']['name']}", body, fieldManager=manager)

    @rule(found=objects(), manager=MANAGERS, kind=st.sampled_from((MERGE, STRATEGIC)))
    def patch(self, found: tuple[str, Any], manager: str, kind: str) -> None:
        path, body = found
        self.write("PATCH", f"{path}/{body['metadata']['name']}", body, kind=kind, fieldManager=manager)

    @rule(
        kind=KINDS, name=NAMES, manager=MANAGERS, member=st.sampled_from(("labels", "annotations", "finalizers")), value=st.none() | LABELS
    )
    def edit(self, kind: str, name: str, manager: str, member: str, value: Any) -> None:
        given = sorted(f"e.com/{key}" for key in value or ()) if member == "finalizers" else value
        operation = {"op": "add", "path": f"/metadata/{member}", "value": given}
        self.write("PATCH", f"{PATHS[kind]}/{name}", [operation], kind=JSON_PATCH, fieldManager=manager)

    @rule(kind=st.sampled_from(("Deployment", "Widget")), name=NAMES, manager=MANAGERS, size=NUMBERS)
    def scale(self, kind: str, name: str, manager: str, size: int) -> None:
        self.write("PATCH", f"{PATHS[kind]}/{name}/scale", {"spec": {"replicas": size}}, kind=MERGE, fieldManager=manager)

    @rule(kind=st.sampled_from(("Deployment", "Widget")), name=NAMES, manager=MANAGERS, size=NUMBERS)
    def report(self, kind: str, name: str, manager: str, size: int) -> None:
        field = "size" if kind == "Widget" else "replicas"
        self.write("PATCH", f"{PATHS[kind]}/{name}/status", {"status": {field: size}}, kind=MERGE, fieldManager=manager)

    @rule(kind=KINDS, name=NAMES, policy=st.sampled_from(("Background", "Foreground", "Orphan")))
    def delete(self, kind: str, name: str, policy: str) -> None:
        self.write("DELETE", f"{PATHS[kind]}/{name}", None, propagationPolicy=policy)

    @invariant()
    def versions_grow(self) -> None:
        version = self.cluster.simulator.registry.store.version
        assert version >= self.highest
        self.highest = version

    @invariant()
    def owners_own_what_is_there(self) -> None:
        for body in self._stored():
            entries = body["metadata"].get("managedFields") or ()
            names = [(entry["manager"], entry["operation"], entry["apiVersion"], entry.get("subresource", "")) for entry in entries]
            assert len(set(names)) == len(names)
            for entry in entries:
                assert entry["fieldsV1"] or entry["operation"] == "Apply", entry
                if entry["operation"] == "Update":
                    assert_present(body, entry["fieldsV1"], entry)

    @invariant()
    def what_is_stored_applies_as_no_change(self) -> None:
        for body in self._stored():
            path = f"{PATHS[body['kind']]}/{body['metadata']['name']}"
            config = json.loads(json.dumps(body))
            for key in ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "deletionTimestamp"):
                config["metadata"].pop(key, None)
            config["metadata"].pop("deletionGracePeriodSeconds", None)
            config.pop("status", None)
            answer = self.cluster.send("PATCH", path, config, kind=APPLY, fieldManager="checker", force="true", dryRun="All")
            assert answer.status == 200, answer.body
            assert without_owners(answer.body) == without_owners(body)

    def _stored(self) -> list[Any]:
        listed = [self.cluster.send("GET", path).body for path in PATHS.values()]
        # An object in a list of a built-in kind leaves out what it is.
        return [
            {"kind": body["kind"].removesuffix("List"), "apiVersion": body["apiVersion"], **item}
            for body in listed
            for item in body.get("items", ())
        ]

    def teardown(self) -> None:
        try:
            if self.start:
                self._compare_watches()
                self._compare_snapshot()
        finally:
            self.cluster.close()

    def _compare_watches(self) -> None:
        for kind, path in PATHS.items():
            for selector in ("", "x=y"):
                params = {"labelSelector": selector} if selector else {}
                want = self._listed(path, **params)
                assert self.cluster.runner.run(self._replayed(path, params)) == want, (kind, selector)

    def _listed(self, path: str, **params: str) -> dict[str, str]:
        items = self.cluster.send("GET", path, **params).body["items"]
        return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in items}

    async def _replayed(self, path: str, params: dict[str, str]) -> dict[str, str]:
        """What a client holds who was told every event, up to a mark that is set now."""
        last = self.cluster.simulator.registry.store.version
        held = dict(self.first[path]) if not params else {}
        before = self.start
        mark = {"resourceVersion": str(self.start), "allowWatchBookmarks": "true", "timeoutSeconds": "2"}
        async with self.cluster.client.watch(path, **mark, **params) as events:
            table = self._changes(path, params)
            for _ in range(table):
                kind, body = await events.next()
                name, version = body["metadata"]["name"], body["metadata"]["resourceVersion"]
                assert before < int(version) <= last
                before = int(version)
                assert (kind == "ADDED") == (name not in held)
                if kind == "DELETED":
                    del held[name]
                else:
                    held[name] = version
        return held

    def _changes(self, path: str, params: dict[str, str]) -> int:
        """How many events the log holds for a watch."""
        group = "" if path.startswith("/api/") else path.split("/")[2]
        log = self.cluster.simulator.registry.store.table((group, path.rpartition("/")[2])).changes_after(self.start)

        def matches(stored: Any) -> bool:
            return not params or (stored.body["metadata"].get("labels") or {}).get("x") == "y"

        count = 0
        for change in log:
            before = change.before is not None and change.type != "ADDED" and matches(change.before)
            count += before or (change.type != "DELETED" and matches(change.stored))
        return count

    def _compare_snapshot(self) -> None:
        registry = self.cluster.simulator.registry
        restored = Registry()
        snapshots.restore(restored, snapshots.take(registry))

        def held(one: Registry) -> dict[Any, bytes]:
            return {(key, stored.namespace, stored.name): stored.raw for key, stored in one.store.everything()}

        assert held(restored) == held(registry)
        assert restored.store.version == registry.store.version


def everything(registry: Registry) -> Any:
    """All that a write could change: versions, objects, and what is allocated."""
    objects = [(key, stored.name, stored.raw) for key, stored in registry.store.everything()]
    return registry.store.version, objects, repr(vars(registry.addresses))


def without_owners(body: Any) -> Any:
    return {**body, "metadata": {key: value for key, value in body["metadata"].items() if key != "managedFields"}}


def assert_present(value: Any, fields: dict[str, Any], entry: Any) -> None:
    """Every path of a field set leads to something."""
    for key, below in fields.items():
        if key == ".":
            continue
        kind, _, rest = key.partition(":")
        if kind == "f":
            assert isinstance(value, dict), (key, entry)
            assert rest in value, (key, entry)
            found = value[rest]
        elif kind == "v":
            assert json.loads(rest) in value, (key, entry)
            continue
        else:
            named = json.loads(rest)
            found = next((item for item in value if all(item.get(name) == wanted for name, wanted in named.items())), None)
            assert found is not None, (key, entry)
        assert_present(found, below, entry)


Histories.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),  # shrinking a history takes minutes; the one that is printed has twenty steps at most
)
TestHistories = Histories.TestCase
