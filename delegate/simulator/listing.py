"""Which options of a list and of a watch go together (apimachinery `ValidateListOptions`)."""

from collections.abc import Mapping

from delegate.simulator import statuses
from delegate.simulator.requests import truthy

MATCH = "resourceVersionMatch"
_NUMBERS = ("limit", "timeoutSeconds")


def check_list(query: Mapping[str, str]) -> None:
    """Raises the 400 or 422 that a list with these options is refused with."""
    _check_numbers(query)
    causes = (
        [statuses.forbidden_value("sendInitialEvents", "sendInitialEvents is forbidden for list")] if "sendInitialEvents" in query else []
    )
    match, version = query.get(MATCH, ""), query.get("resourceVersion", "")
    if match:
        causes += _match_causes(match, version, continued=bool(query.get("continue")))
    _refuse(causes)
    if query.get("continue") and version not in ("", "0"):
        raise statuses.bad_request("specifying resource version is not allowed when using continue")
    _check_version(version, "invalid resource version: ")


def check_watch(query: Mapping[str, str]) -> None:
    """The same for a watch."""
    _check_numbers(query)
    match = query.get(MATCH, "")
    causes = []
    if "sendInitialEvents" in query:
        if match != "NotOlderThan":
            causes.append(statuses.forbidden_value(MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
        if query.get("continue"):
            causes.append(statuses.forbidden_value("continue", "sendInitialEvents is forbidden when continue is provided"))
    elif match:
        causes.append(statuses.forbidden_value(MATCH, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
    _refuse(causes)
    _check_version(query.get("resourceVersion", ""), "")


def wants_initial_events(query: Mapping[str, str]) -> bool | None:
    """None where a watch doesn't say."""
    return truthy(query["sendInitialEvents"]) if "sendInitialEvents" in query else None


def number(query: Mapping[str, str], name: str) -> int:
    """A number among the options; 0 where it is missing or below 1."""
    return max(int(query.get(name) or 0), 0)


def _match_causes(match: str, version: str, *, continued: bool) -> list[statuses.Cause]:
    causes = []
    if continued:
        causes.append(statuses.forbidden_value(MATCH, "resourceVersionMatch is forbidden when continue is provided"))
    if not version:
        causes.append(statuses.forbidden_value(MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if match not in ("Exact", "NotOlderThan"):
        causes.append(statuses.unsupported(MATCH, match, ("Exact", "NotOlderThan", "")))
    if match == "Exact" and version == "0":
        causes.append(statuses.forbidden_value(MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    return causes


def _check_numbers(query: Mapping[str, str]) -> None:
    for name in _NUMBERS:
        text = query.get(name) or "0"
        if not text.removeprefix("-").removeprefix("+").isdecimal() or not text.isascii():
            raise statuses.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')


def _check_version(text: str, prefix: str) -> None:
    if text and not (text.isdecimal() and text.isascii()):
        why = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise statuses.bad_request(prefix + why)


def _refuse(causes: list[statuses.Cause]) -> None:
    if causes:
        raise statuses.invalid("ListOptions", "meta.k8s.io", "", causes)
