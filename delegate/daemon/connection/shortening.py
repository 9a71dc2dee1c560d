"""Results in a short form, for what is between us and the manager. Pure."""

import msgspec

from delegate.model.resources import JsonObject
from delegate.protocol.blobs import BlobReference

_FAILED = "failed"


def shorten(document: JsonObject, blob: BlobReference, *, member_bytes: int = 16 * 1024) -> JsonObject:
    """A result that fits into any call: long members are cut, which it says; `whole` names what it was. Of resources the failed ones
    come first."""
    short: JsonObject = {key: _cut(value, member_bytes) for key, value in document.items()}
    notice = f"this is the short form: the whole result has {blob.size} bytes, and the SHA-256 {blob.sha256}"
    kept = short.get("notices")
    short["notices"] = [*(kept if isinstance(kept, list) else []), notice]
    short["whole"] = {"sha256": blob.sha256, "size": blob.size}
    return short


def _cut(value: object, most: int) -> object:
    match value:
        case str() if len(value) > most // 4:
            return f"{value[: most // 4]} … ({len(value) - most // 4} more characters)"
        case list() | tuple():
            return _cut_list(list(value), most)
        case dict() if len(msgspec.json.encode(value)) > most:
            return {}
        case _:
            return value


def _cut_list(values: list[object], most: int) -> list[object]:
    kept: list[object] = []
    left = most
    for each in sorted(values, key=lambda each: not (isinstance(each, dict) and each.get("action") == _FAILED)):
        left -= len(msgspec.json.encode(each))
        if left < 0:
            break
        kept.append(each)
    return kept
