"""The paths that are no resource: health, version, discovery in both forms, and the OpenAPI documents."""

import msgspec
from aiohttp import web

from delegate.simulator import aggregation, answers, discovery, openapi, statuses, swagger
from delegate.simulator.registry import Registry
from delegate.simulator.requests import RequestInfo

_HEALTH = ("healthz", "livez", "readyz")


class Documents:
    """Answers what the server says of itself."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._openapi = openapi.Documents(registry)
        self._swagger = swagger.Swagger(registry)

    def answer(self, request: web.BaseRequest, info: RequestInfo) -> web.Response:
        """Raises a `StatusError` for a path that isn't known."""
        accept = request.headers.get("Accept", "")
        match [part for part in info.path.split("/") if part]:
            case [word, *_] if word in _HEALTH:
                return web.Response(text=f"[+]ping ok\n{word} check passed\n" if "verbose" in request.query else "ok")
            case ["version"]:
                return answers.of_body(discovery.VERSION)
            case ["openapi", "v2"]:
                body, kind = self._swagger.answer(accept)
                return web.Response(body=body, headers={"Content-Type": kind})
            case ["openapi", "v3", *parts]:
                return self._of_version(parts)
            case ["api" | "apis" as root] if discovery.wants_aggregated(accept):
                body = msgspec.json.encode(discovery.aggregated(self._registry, core=root == "api"))
                return web.Response(body=body, headers={"Content-Type": discovery.AGGREGATED})
            case ["api"]:
                return answers.of_body(discovery.core_versions())
            case ["apis"]:
                return answers.of_body(discovery.groups(self._registry))
            case ["apis", group] if discovery.versions(self._registry, group):
                return answers.of_body({"kind": "APIGroup", "apiVersion": "v1", **discovery.group(self._registry, group)})
            case ["api", version]:
                return self._resources("", version)
            case ["apis", group, version]:
                return self._resources(group, version)
            case _:
                raise statuses.page_not_found()

    def _resources(self, group: str, version: str) -> web.Response:
        if self._registry.served(group, version):
            return answers.of_body(discovery.resources(self._registry, group, version))
        raise aggregation.unavailable() if aggregation.is_remote(self._registry, group, version) else statuses.page_not_found()

    def _of_version(self, parts: list[str]) -> web.Response:
        match parts:
            case []:
                return answers.of_body(self._openapi.index())
            case ["api", version]:
                document = self._openapi.document("", version)
            case ["apis", group, version]:
                document = self._openapi.document(group, version)
            case _:
                document = None
        if document is None:
            raise statuses.page_not_found()
        return answers.of_bytes(document)
