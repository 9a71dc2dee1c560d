"""The objects that syncs and loaders are measured with."""

from collections.abc import Iterator

import msgspec
import yaml

from delegate.model.resources import JsonObject

KINDS = ("Deployment", "ServiceAccount", "Service", "Ingress")


def application_objects(count: int, *, namespace: str = "") -> list[JsonObject]:
    """As many objects, a quarter of each of `KINDS`; Deployments have no replicas, so that no pod is in the way."""
    return [_make(kind, f"part-{index:04d}", namespace) for index in range(-(-count // len(KINDS))) for kind in KINDS][:count]


def as_yaml(objects: list[JsonObject]) -> bytes:
    """One file of documents, as people write them."""
    return b"---\n".join(_dump(each) for each in objects)


def large_document(least_bytes: int) -> bytes:
    """One YAML document of about that size: a List of Deployments, each as large as real ones get."""
    item = _deployment("part-0000", "", containers=4)
    count = max(1, least_bytes // len(_dump({"items": [item]})))
    items = [_deployment(f"part-{index:04d}", "", containers=4) for index in range(count)]
    return _dump({"apiVersion": "v1", "kind": "List", "items": items})


def count_documents(data: bytes) -> int:
    return data.count(b"---\n") + 1


def path_of(body: JsonObject) -> str:
    """Where the API serves the object."""
    version, plural = str(body["apiVersion"]), f"{str(body['kind']).lower()}{'es' if body['kind'] == 'Ingress' else 's'}"
    metadata = body["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"


def collection_paths(namespace: str) -> Iterator[str]:
    """Where the API lists each of the kinds."""
    for body in application_objects(len(KINDS), namespace=namespace):
        yield path_of(body).rpartition("/")[0]


def _make(kind: str, name: str, namespace: str) -> JsonObject:
    match kind:
        case "Deployment":
            return _deployment(name, namespace, containers=1)
        case "ServiceAccount":
            return {"apiVersion": "v1", "kind": kind, "metadata": _metadata(name, namespace), "automountServiceAccountToken": False}
        case "Service":
            spec: JsonObject = {"selector": _labels(name), "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}]}
            return {"apiVersion": "v1", "kind": kind, "metadata": _metadata(name, namespace), "spec": spec}
        case _:
            backend = {"service": {"name": name, "port": {"name": "http"}}}
            rule = {"host": f"{name}.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
            return {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "Ingress",
                "metadata": _metadata(name, namespace),
                "spec": {"rules": [rule]},
            }


def _deployment(name: str, namespace: str, *, containers: int) -> JsonObject:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(name, namespace),
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": _labels(name)},
            "template": {
                "metadata": {"labels": _labels(name), "annotations": {"prometheus.io/scrape": "true"}},
                "spec": {
                    "serviceAccountName": name,
                    "containers": [_container(f"main-{index}") for index in range(containers)],
                },
            },
        },
    }


def _container(name: str) -> JsonObject:
    return {
        "name": name,
        "image": "registry.example.com/shop/part:1.4.2",
        "args": ["serve", "--listen=:8080", "--log-format=json"],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "GREETING", "value": 'say "hello": world'}],
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
    }


def _metadata(name: str, namespace: str) -> JsonObject:
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": _labels(name)}


def _labels(name: str) -> JsonObject:
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "shop"}


def _dump(body: JsonObject) -> bytes:
    # Through JSON: shared parts would be written as anchors and aliases, which people don't write.
    plain = msgspec.json.decode(msgspec.json.encode(body))
    return yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, encoding="utf-8", width=1000)
