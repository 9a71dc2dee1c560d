"""Whether a body is of the kind and version that its path has, in the words of the server's two decoders: typed and untyped."""

from delegate.model.resources import JsonObject
from delegate.simulator import schemas, statuses
from delegate.simulator.bodies import Body, unrecognized
from delegate.simulator.kinds import Resource

_SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
_FORMER = frozenset(
    {
        ("apps", "v1beta1"),
        ("apps", "v1beta2"),
        ("batch", "v1beta1"),
        ("networking.k8s.io", "v1beta1"),
        ("policy", "v1beta1"),
        ("rbac.authorization.k8s.io", "v1beta1"),
    }
)
"""Versions that are no longer served and still decoded."""


def check(sent: Body, resource: Resource) -> JsonObject:
    """The body of a create or an update of a resource; raises a 400 where it is something else."""
    body: JsonObject = sent.value if sent.value is not None else {}
    version, kind = body.get("apiVersion") or "", body.get("kind") or ""
    if resource.custom:
        _check_untyped(sent, resource, version, kind)
    elif version not in ("", resource.api_version) or kind not in ("", resource.kind):
        check_typed(sent, version, kind, resource.api_version, resource.kind)
    return body


def of(config: JsonObject) -> tuple[str, str]:
    """Version and kind of a configuration; nothing at all where the version is none."""
    version, kind = (text if isinstance(text := config.get(key), str) else "" for key in ("apiVersion", "kind"))
    return (version.strip("/"), kind) if version.count("/") < 2 else ("", "")


def check_typed(sent: Body, version: str, kind: str, wanted_version: str, wanted_kind: str) -> None:
    """For built-in kinds, what is missing counts as what is wanted."""
    if version.count("/") > 1:
        raise unrecognized(wanted_kind, _no_version(version), sent.data)
    why = mistyped(version or wanted_version, kind or wanted_kind, wanted_version, wanted_kind)
    if why:
        number = (version or wanted_version).rpartition("/")[2]
        raise statuses.bad_request(f'{kind or wanted_kind} in version "{number}" cannot be handled as a {wanted_kind}: {why}')
    if version and version.strip("/") != wanted_version:
        raise _mismatch(version, wanted_version)


def mistyped(version: str, kind: str, wanted_version: str, wanted_kind: str) -> str:
    """Why a kind can't be decoded as another one; empty where it can."""
    if version.count("/") > 1:
        return _no_version(version)
    group, _, number = version.strip("/").rpartition("/")
    if not _is_registered(group, number, kind):
        return unregistered(version.strip("/"), kind)
    wanted_group = wanted_version.rpartition("/")[0]
    if (group, kind) == (wanted_group, wanted_kind) or kind == wanted_kind == "Event":
        return ""
    package = wanted_group.partition(".")[0] or "core"
    return f"converting ({number}.{kind}) to ({package}.{wanted_kind}): unknown conversion"


def _no_version(version: str) -> str:
    return f"unexpected GroupVersion string: {version}"


def _is_registered(group: str, version: str, kind: str) -> bool:
    if (group, version) in _FORMER:
        version = "v1"
    return schemas.of_kind(group, version, kind) is not None


def _check_untyped(sent: Body, resource: Resource, version: str, kind: str) -> None:
    """For custom kinds; one of another name is only found by validation (`misnamed`)."""
    if not kind:
        text = sent.data.decode(errors="replace")
        raise unrecognized(resource.kind, f"Object 'Kind' is missing in '{text}'", sent.data)
    if version.count("/") > 1:
        raise unrecognized(resource.kind, _no_version(version), sent.data)
    if version.strip("/") != resource.api_version:
        raise _mismatch(version, resource.api_version)


def misnamed(body: JsonObject, resource: Resource) -> statuses.StatusError | None:
    """The refusal of a custom object that says it is of another kind or version."""
    version, kind = body.get("apiVersion") or "", body.get("kind") or ""
    causes = []
    if kind != resource.kind:
        causes.append(statuses.invalid_value("kind", kind, f"must be {resource.kind}"))
    if version.strip("/") != resource.api_version:
        causes.append(statuses.invalid_value("apiVersion", version.strip("/"), f"must be {resource.api_version}"))
    if not causes:
        return None
    name = (body.get("metadata") or {}).get("name") or ""
    return statuses.invalid(kind, version.strip("/").rpartition("/")[0], name, causes)


def unregistered(version: str, kind: str) -> str:
    return f'no kind "{kind}" is registered for version "{version}" {_SCHEME}'


def _mismatch(version: str, wanted: str) -> statuses.StatusError:
    return statuses.bad_request(f"the API version in the data ({version.strip('/')}) does not match the expected API version ({wanted})")
