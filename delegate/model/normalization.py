"""What of a manifest is sent to the cluster.

Under server-side apply every field that is sent becomes ours, so what nobody means to own is left out: fields that the
server writes, nulls (which state nothing), empty metadata maps, rules that an aggregation fills in. What the server would
take apart in a way that nobody expects is settled before: `stringData` is folded into `data`, ports get the protocol that
their list is keyed by, an entry that is in a keyed list twice is an error here and not a 500 there.
"""

import base64
import binascii
from collections.abc import Iterable

import msgspec

from delegate.foundation.errors import DelegateError
from delegate.model.applied import APPLIED_ANNOTATION
from delegate.model.errors import DuplicateEntryError, ManifestError, SecretDataError, located, raise_all
from delegate.model.lists import duplicate_keys, keyed_lists, pod_spec_path
from delegate.model.resources import GroupKind, JsonObject, Manifest
from delegate.model.waves import is_builtin_group

_SERVER_METADATA = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_WRITTEN_BY_OTHERS = (
    APPLIED_ANNOTATION,
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
)
_SECRET = GroupKind("", "Secret")
_CLUSTER_ROLE = GroupKind("rbac.authorization.k8s.io", "ClusterRole")


class NormalizedSet(msgspec.Struct, frozen=True):
    """The manifests in the order given, as they are sent, and what was left out of them, in words."""

    manifests: tuple[Manifest, ...]
    notices: tuple[str, ...] = ()


def normalize_manifests(manifests: Iterable[Manifest]) -> NormalizedSet:
    """Every manifest as it is sent. Raises all faults of the set at once: DuplicateEntryError, SecretDataError."""
    normalized, notices, errors = list[Manifest](), list[str](), list[DelegateError]()
    for manifest in manifests:
        result, its_notices, its_errors = _normalize(manifest)
        normalized.append(result)
        notices += its_notices
        errors += its_errors
    raise_all(errors)
    return NormalizedSet(tuple(normalized), tuple(notices))


def _normalize(manifest: Manifest) -> tuple[Manifest, list[str], list[ManifestError]]:
    body = _without_nulls(manifest)
    left_out = _strip_server_fields(body)
    _drop_empty_metadata(body, manifest.group_kind)
    if manifest.group_kind == _CLUSTER_ROLE and body.get("aggregationRule") and "rules" in body and body.pop("rules"):
        left_out.append("rules (its aggregationRule fills them in)")
    errors = list[ManifestError]()
    if manifest.group_kind == _SECRET:
        errors += _fold_string_data(body, manifest)
    _default_protocols(body, manifest.group_kind)
    errors += _duplicate_entries(body, manifest)
    notices = [f"{manifest.origin}: {manifest.key}: left out {', '.join(left_out)}"] if left_out else []
    return Manifest(body, manifest.origin), notices, errors


def _without_nulls(manifest: Manifest) -> JsonObject:
    """A deep copy without nulls.

    In a custom resource those further down in `spec` stay: only its own schema knows whether null is a value there (in a
    Flux HelmRelease it takes a chart's default away).
    """
    body = manifest.body
    if is_builtin_group(manifest.group):
        return {name: _copy(value) for name, value in body.items() if value is not None}
    copied = {name: _copy(value) for name, value in body.items() if value is not None}
    spec = body.get("spec")
    if isinstance(spec, dict):
        copied["spec"] = {name: _copy(value, keep_nulls=True) for name, value in spec.items() if value is not None}
    return copied


def _copy(value: object, *, keep_nulls: bool = False) -> object:
    # Most values are scalars, and no call is made for those: this walks every value of a set.
    if isinstance(value, dict):
        return {
            name: _copy(each, keep_nulls=keep_nulls) if isinstance(each, (dict, list)) else each
            for name, each in value.items()
            if keep_nulls or each is not None
        }
    if isinstance(value, list):
        return [_copy(each, keep_nulls=keep_nulls) if isinstance(each, (dict, list)) else each for each in value]
    return value


def _strip_server_fields(body: JsonObject) -> list[str]:
    left_out = []
    if body.pop("status", None):
        left_out.append("status")
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        return left_out
    left_out += [f"metadata.{name}" for name in _SERVER_METADATA if metadata.pop(name, None)]
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        left_out += [f"annotation {name}" for name in _WRITTEN_BY_OTHERS if annotations.pop(name, None)]
    return left_out


def _drop_empty_metadata(body: JsonObject, group_kind: GroupKind) -> None:
    for metadata in _all_metadata(body, group_kind):
        for name in ("labels", "annotations"):
            if metadata.get(name) == {}:
                del metadata[name]
        metadata.pop("creationTimestamp", None)


def _all_metadata(body: JsonObject, group_kind: GroupKind) -> Iterable[JsonObject]:
    """The metadata of an object and of the templates in it: every mapping on the way to its pod spec has one."""
    holders: list[object] = [body]
    for name in (pod_spec_path(group_kind) or ())[:-1]:
        parent = holders[-1]
        holders.append(parent.get(name) if isinstance(parent, dict) else None)
    spec = body.get("spec")
    claims = spec.get("volumeClaimTemplates") if isinstance(spec, dict) and group_kind == ("apps", "StatefulSet") else None
    holders += claims if isinstance(claims, list) else []
    for holder in holders:
        metadata = holder.get("metadata") if isinstance(holder, dict) else None
        if isinstance(metadata, dict):
            yield metadata


def _fold_string_data(body: JsonObject, manifest: Manifest) -> Iterable[ManifestError]:
    """Folds `stringData` into `data` and writes every value in the one base64 form that the server answers with."""
    data, strings = body.get("data"), body.pop("stringData", None)
    errors = []
    folded: dict[str, str] = {}
    for field, values in (("data", data), ("stringData", strings)):
        if values is None:
            continue
        if not isinstance(values, dict):
            errors.append(located(SecretDataError, manifest, f"{field} is no mapping of keys to text"))
            continue
        for key, value in values.items():
            encoded = _encoded(value, is_base64=field == "data")
            if encoded is not None:
                folded[key] = encoded
            elif field != "data" or not isinstance(strings, dict) or key not in strings:
                errors.append(_unfit_value(manifest, field, key, is_text=isinstance(value, str)))
    if folded or data is not None:
        body["data"] = folded
    return errors


def _encoded(value: object, *, is_base64: bool) -> str | None:
    if not isinstance(value, str):
        return None
    if not is_base64:
        return base64.b64encode(value.encode()).decode()
    try:
        decoded = base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return None
    return base64.b64encode(decoded).decode()


def _unfit_value(manifest: Manifest, field: str, key: str, *, is_text: bool) -> ManifestError:
    fault = "is no base64" if is_text else "is no text"
    hint = "put plain text under stringData" if is_text else "put its value in quotes"
    # Never the value, nor the decoder's own words, which would carry it: even a malformed one is a secret.
    return located(SecretDataError, manifest, f"{field}: the value of {key!r} {fault}", hint)


def _default_protocols(body: JsonObject, group_kind: GroupKind) -> None:
    """Writes out the protocol that a port's list is keyed by, so that 53/UDP and 53 are told apart on the way in."""
    for keyed in keyed_lists(body, group_kind):
        if "protocol" in keyed.keys:
            for port in keyed.entries:
                if isinstance(port, dict):
                    port.setdefault("protocol", "TCP")


def _duplicate_entries(body: JsonObject, manifest: Manifest) -> Iterable[ManifestError]:
    for keyed in keyed_lists(body, manifest.group_kind):
        for words, indexes in duplicate_keys(keyed):
            places = ", ".join(str(index) for index in indexes[:-1])
            yield located(
                DuplicateEntryError,
                manifest,
                f"{keyed.path}: {words} is there more than once, at indexes {places} and {indexes[-1]}",
                hint="keep one of them: server-side apply refuses a list with an entry twice",
            )
