"""Rules for single values that many kinds share: numbers, addresses, names, choices (apimachinery `validation`)."""

import ipaddress
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from delegate.simulator import quantities, statuses
from delegate.simulator.naming import qualified
from delegate.simulator.statuses import Cause

NOT_NEGATIVE = "must be greater than or equal to 0"
PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is"
    " '[0-9]+%')"
)
_IP_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_CIDR_TEXT = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")


def named(path: str, value: Any, rule: Callable[[str], list[str]]) -> list[Cause]:
    """What a rule for names has against a value; nothing against a missing one."""
    return [statuses.invalid_value(path, value, text) for text in rule(value)] if value else []


def chosen(path: str, value: Any, supported: Sequence[str], *, optional: bool = False) -> list[Cause]:
    """One of some words; `supported` is in the order in which the server names them."""
    if value in supported or (optional and not value):
        return []
    return [statuses.unsupported(path, value if value is not None else "", supported)]


def not_negative(path: str, value: Any) -> list[Cause]:
    if isinstance(value, int) and value < 0:
        return [statuses.invalid_value(path, value, NOT_NEGATIVE)]
    return []


def between(path: str, value: Any, low: int, high: int) -> list[Cause]:
    if isinstance(value, int) and not low <= value <= high:
        return [statuses.invalid_value(path, value, f"must be between {low} and {high}, inclusive")]
    return []


def port_range(path: str, number: Any) -> list[Cause]:
    return between(path, number, 1, 65535)


def port_or_name(path: str, value: Any) -> list[Cause]:
    if isinstance(value, int):
        return port_range(path, value)
    return [statuses.invalid_value(path, value, text) for text in port_name(value)] if isinstance(value, str) else []


def port_name(name: str) -> list[str]:
    """An IANA service name."""
    found = [] if len(name) <= 15 else ["must be no more than 15 characters"]
    if not re.fullmatch(r"[-a-z0-9]+", name):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        found.append("must contain at least one letter (a-z)")
    if "--" in name:
        found.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return found


def percent_or_number(path: str, value: Any) -> list[Cause]:
    if isinstance(value, str):
        return [] if re.fullmatch(r"[0-9]+%", value) else [statuses.invalid_value(path, value, PERCENT_TEXT)]
    return not_negative(path, value)


def at_most_all(path: str, value: Any) -> list[Cause]:
    if isinstance(value, str) and re.fullmatch(r"[0-9]+%", value) and int(value[:-1]) > 100:
        return [statuses.invalid_value(path, value, "must not be greater than 100%")]
    return []


def address(text: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def ip(path: str, value: Any) -> list[Cause]:
    if isinstance(value, str) and address(value):
        return []
    parts = str(value).split(".")
    zeroes = len(parts) == 4 and all(part.isdigit() for part in parts) and any(part[0] == "0" != part for part in parts)
    return [statuses.invalid_value(path, value, "must not have leading 0s" if zeroes else _IP_TEXT)]


def network(text: Any) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def cidr(path: str, value: Any) -> list[Cause]:
    found = network(value)
    if found is None:
        return [statuses.invalid_value(path, value, _CIDR_TEXT)]
    if str(found.network_address) != value.partition("/")[0]:
        return [statuses.invalid_value(path, value, "must not have bits set beyond the prefix length")]
    return []


def domain_path(path: str, value: str) -> list[Cause]:
    """`example.com/name`."""
    domain, slash, rest = value.partition("/")
    if not domain or not slash or not rest:
        return [statuses.invalid_value(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    return []


def amounts(path: str, given: Any, *, standard: Iterable[str] = STANDARD_RESOURCES, where: str = "containers") -> list[Cause]:
    """Names and values of resources."""
    causes: list[Cause] = []
    for name, amount in (given or {}).items():
        here = f"{path}[{name}]"
        wrong = qualified(name)
        causes += [statuses.invalid_value(here, name, text) for text in wrong]
        if not wrong and "/" not in name and name not in standard and not name.startswith("hugepages-"):
            if where == "containers":
                causes.append(statuses.invalid_value(here, name, "must be a standard resource type or fully qualified"))
            causes.append(statuses.invalid_value(here, name, f"must be a standard resource for {where}"))
        if quantities.parse(amount) < 0:
            causes.append(statuses.invalid_value(here, amount, NOT_NEGATIVE))
    return causes
