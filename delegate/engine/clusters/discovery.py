"""Which kinds a cluster serves, where, and under which verbs: aggregated discovery, or the older form where there is none.

One group that can't answer (an aggregated API server that is away) doesn't hide the others: its kinds raise
`GroupUnavailableError` until it is back, all other kinds are known.
"""

import asyncio
import difflib
from collections.abc import Iterable, Mapping

import msgspec
import structlog

from delegate.engine.clusters import errors
from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.paths import group_version_path
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.model.removals import describe_removal
from delegate.model.resources import GroupKind, JsonObject, ResourceType

log = structlog.get_logger()

_AGGREGATED = ",".join(
    (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        "application/json",
    )
)
_MAX_AGE_SECONDS = 600.0
_UNAVAILABLE_AGE_SECONDS = 5.0


class _Served(msgspec.Struct, frozen=True):
    """What a server answered: types by kind with the preferred version first, and the groups (or versions) that are away."""

    types: dict[GroupKind, tuple[ResourceType, ...]]
    unavailable: dict[str, str]


class Discovery:
    """Knows the kinds of one cluster. Reads them on first use, again after ten minutes, and when a kind isn't found."""

    def __init__(self, client: ApiClient, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._client = client
        self._clock = clock
        self._served: _Served | None = None
        self._asked_at = 0.0
        self._invalidated: set[str] = set()
        self._etags: dict[str, str] = {}
        self._answers: dict[str, JsonObject] = {}
        self._lock = asyncio.Lock()

    async def resource_for(self, group_kind: GroupKind, version: str = "") -> ResourceType:
        """How a kind is served, in the preferred version or the one given.

        Raises UnknownKindError (with what is served instead), GroupUnavailableError, or what the way there raises.
        """
        asked_at = self._clock.monotonic()
        served = await self._current(group_kind.group)
        found = _choose(served, group_kind, version)
        if found is None and self._asked_at < asked_at:
            # It may have been defined since: ask once more, all that wait here together.
            served = await self._refresh(asked_at)
            found = _choose(served, group_kind, version)
        if found is not None:
            return found
        raise _unknown(served, group_kind, version)

    async def scopes(self) -> Mapping[GroupKind, bool]:
        """Of every kind that is known now: whether it is namespaced."""
        served = await self._current("")
        return {group_kind: types[0].namespaced for group_kind, types in served.types.items()}

    async def unavailable_groups(self) -> Mapping[str, str]:
        """The groups that can't answer now, with the server's words."""
        return dict((await self._current("")).unavailable)

    async def types(self) -> tuple[ResourceType, ...]:
        """Every kind in its preferred version."""
        return tuple(types[0] for types in (await self._current("")).types.values())

    async def all_types(self) -> tuple[ResourceType, ...]:
        """Every kind in every version that it is served in."""
        return tuple(found for types in (await self._current("")).types.values() for found in types)

    def invalidate(self, group: str = "") -> None:
        """Says that a group (or, where empty, anything) may have changed: what is asked about it next is read anew."""
        self._invalidated.add(group)

    async def _current(self, group: str) -> _Served:
        served = self._served
        now = self._clock.monotonic()
        age = now - self._asked_at
        invalid = bool(self._invalidated & {group, ""})
        # A group that was away may be back: look now and then, when somebody wants it.
        away = served is not None and group in served.unavailable and age > _UNAVAILABLE_AGE_SECONDS
        if served is None or invalid or away or age > _MAX_AGE_SECONDS:
            return await self._refresh(now)
        return served

    async def _refresh(self, asked_at: float) -> _Served:
        async with self._lock:
            # Critical section: whoever waited here takes what was read since it asked.
            if self._served is not None and self._asked_at >= asked_at and not self._invalidated:
                return self._served
            began, invalidated = self._clock.monotonic(), set(self._invalidated)
            served = await self._read()
            if served.unavailable:
                log.info("cluster.discovery_partial", host=self._client.host, groups=sorted(served.unavailable))
            self._served, self._asked_at = served, began
            self._invalidated -= invalidated
            return served

    async def _read(self) -> _Served:
        core, groups = await asyncio.gather(self._get("/api"), self._get("/apis"))
        if core.get("kind") == groups.get("kind") == "APIGroupDiscoveryList":
            return _read_aggregated((core, groups))
        return await self._read_legacy(core, groups)

    async def _get(self, path: str) -> JsonObject:
        answer = await self._client.get_path(path, accept=_AGGREGATED, etag=self._etags.get(path, ""))
        if isinstance(answer.body, str):
            return self._answers[path]  # 304: as it was
        if answer.etag:
            self._etags[path], self._answers[path] = answer.etag, answer.body
        return answer.body

    async def _read_legacy(self, core: JsonObject, groups: JsonObject) -> _Served:
        """One request for each version of each group (Kubernetes before 1.27, and small imitations)."""
        versions = [("", version) for version in core.get("versions") or ()]
        for group in groups.get("groups") or ():
            preferred = (group.get("preferredVersion") or {}).get("version")
            names = [entry["version"] for entry in group.get("versions") or ()]
            versions += [(group["name"], name) for name in sorted(names, key=lambda name: name != preferred)]
        answers = await asyncio.gather(*(self._read_group_version(group, version) for group, version in versions))
        types: dict[GroupKind, list[ResourceType]] = {}
        unavailable: dict[str, str] = {}
        for (group, _), answer in zip(versions, answers, strict=True):
            if isinstance(answer, str):
                unavailable[group] = answer
                continue
            for found in answer:
                types.setdefault(found.group_kind, []).append(found)
        return _Served({kind: tuple(found) for kind, found in types.items()}, unavailable)

    async def _read_group_version(self, group: str, version: str) -> tuple[ResourceType, ...] | str:
        try:
            answer = await self._client.get_path(group_version_path(group, version))
        except (errors.UnavailableError, errors.ServerTimeoutError, errors.InternalServerError, errors.UnknownKindError) as error:
            return error.message
        return tuple(_legacy_types(answer.body, group, version)) if isinstance(answer.body, dict) else ()


def _read_aggregated(documents: Iterable[JsonObject]) -> _Served:
    types: dict[GroupKind, list[ResourceType]] = {}
    unavailable: dict[str, str] = {}
    for document in documents:
        for item in document.get("items") or ():
            group = str((item.get("metadata") or {}).get("name") or "")
            for entry in item.get("versions") or ():
                if entry.get("freshness") == "Stale":
                    unavailable[group] = f"the server behind {group}/{entry.get('version')} gives no fresh answer"
                for resource in entry.get("resources") or ():
                    found = _aggregated_type(group, str(entry.get("version")), resource)
                    types.setdefault(found.group_kind, []).append(found)
    return _Served({kind: tuple(found) for kind, found in types.items()}, unavailable)


def _aggregated_type(group: str, version: str, resource: JsonObject) -> ResourceType:
    return ResourceType(
        group=group,
        version=version,
        kind=str((resource.get("responseKind") or {}).get("kind") or ""),
        plural=str(resource["resource"]),
        namespaced=resource.get("scope") == "Namespaced",
        verbs=frozenset(resource.get("verbs") or ()),
        subresources=frozenset(str(entry.get("subresource")) for entry in resource.get("subresources") or ()),
    )


def _legacy_types(body: JsonObject, group: str, version: str) -> Iterable[ResourceType]:
    resources = [entry for entry in body.get("resources") or () if isinstance(entry, dict)]
    names = [str(entry.get("name") or "") for entry in resources]
    for entry, name in zip(resources, names, strict=True):
        if "/" in name or not name:
            continue
        yield ResourceType(
            group=group,
            version=version,
            kind=str(entry.get("kind") or ""),
            plural=name,
            namespaced=bool(entry.get("namespaced")),
            verbs=frozenset(entry.get("verbs") or ()),
            subresources=frozenset(other.partition("/")[2] for other in names if other.startswith(f"{name}/")),
        )


def _choose(served: _Served, group_kind: GroupKind, version: str) -> ResourceType | None:
    types = served.types.get(group_kind, ())
    return next((found for found in types if not version or found.version == version), None)


def _unknown(served: _Served, group_kind: GroupKind, version: str) -> errors.ClusterError:
    wanted = f"{group_kind} in version {version}" if version else str(group_kind)
    if group_kind.group in served.unavailable:
        return errors.GroupUnavailableError(
            f"{wanted} can't be looked up: {served.unavailable[group_kind.group]}",
            hint=f"bring back the API service of group {group_kind.group} (kubectl get apiservices)",
        )
    versions = [found.version for found in served.types.get(group_kind, ())]
    if versions:
        removal = describe_removal(f"{group_kind.group}/{version}", group_kind.kind)
        hint = f"this cluster serves it in {', '.join(versions)}: change apiVersion" + (f" ({removal})" if removal else "")
    else:
        names = {str(known): known for known in served.types}
        nearest = difflib.get_close_matches(str(group_kind), names, n=1, cutoff=0.8)
        hint = f"did you mean {nearest[0]}?" if nearest else "apply its CustomResourceDefinition first, or add it to the set"
    return errors.UnknownKindError(f"the cluster doesn't serve {wanted}", hint=hint)
