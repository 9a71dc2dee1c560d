"""IP addresses and networks (the IP and CIDR libraries of Kubernetes). As there: no IPv4-mapped addresses, no zones."""

import ipaddress
from typing import Any

from delegate.foundation.expressions.functions.kinds import Functions, text

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def _address(value: Any) -> _Address:
    try:
        found = ipaddress.ip_address(text(value))
    except ValueError:
        raise ValueError("IP Address parse error") from None
    if isinstance(found, ipaddress.IPv6Address) and (found.scope_id or found.ipv4_mapped):
        raise ValueError("IP Address with a zone or an IPv4-mapped one is not allowed")
    return found


def _interface(value: Any) -> _Interface:
    if "/" not in text(value) or not value.rpartition("/")[2].isdecimal():
        raise ValueError("network address parse error")
    try:
        return ipaddress.ip_interface(value)
    except ValueError:
        raise ValueError("network address parse error") from None


def to_address(value: Any) -> str:
    """`ip(text)`, and `cidr.ip()` for the address in a network's text."""
    return str(_interface(value).ip if "/" in text(value) else _address(value))


def is_address(value: Any) -> bool:
    try:
        _address(value)
    except ValueError:
        return False
    return True


def is_network(value: Any) -> bool:
    try:
        _interface(value)
    except ValueError:
        return False
    return True


def contains_address(network: Any, address: Any) -> bool:
    return _address(address) in _interface(network).network


def contains_network(network: Any, other: Any) -> bool:
    outer, inner = _interface(network).network, _interface(other).network
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]  # of one version by the first check


def _is_global_unicast(value: Any) -> bool:
    """Go's `IsGlobalUnicast`: private ones count."""
    found = _address(value)
    broadcast = found == ipaddress.IPv4Address("255.255.255.255")
    return not (found.is_unspecified or found.is_loopback or found.is_multicast or found.is_link_local or broadcast)


def _is_link_local_multicast(value: Any) -> bool:
    found = _address(value)
    networks = ("224.0.0.0/24",) if found.version == 4 else ("ff02::/16",)
    return any(found in ipaddress.ip_network(network) for network in networks)


FUNCTIONS: Functions = {
    "cidr": lambda value: str(_interface(value)),
    "containsCIDR": contains_network,
    "containsIP": contains_address,
    "family": lambda value: _address(value).version,
    "ip": to_address,
    "ip.isCanonical": lambda value: str(_address(value)) == value,
    "isCIDR": is_network,
    "isGlobalUnicast": _is_global_unicast,
    "isIP": is_address,
    "isLinkLocalMulticast": _is_link_local_multicast,
    "isLinkLocalUnicast": lambda value: _address(value).is_link_local,
    "isLoopback": lambda value: _address(value).is_loopback,
    "isUnspecified": lambda value: _address(value).is_unspecified,
    "masked": lambda value: str(_interface(value).network),
    "prefixLength": lambda value: _interface(value).network.prefixlen,
}
