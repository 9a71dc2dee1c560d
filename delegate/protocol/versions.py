"""Protocol versions and features, and how two sides settle on one.

A manager of minor version N serves delegates of N, N-1 and N-2; a delegate accepts a manager of N+1. Both sides name the
range that they speak; the highest common version is used. Features are names; only the common ones are used.
"""

import re

import msgspec

_VERSION = re.compile(r"v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?", re.ASCII)
PROTOCOL_MIN = 1
PROTOCOL_MAX = 1
FEATURES: frozenset[str] = frozenset({"events", "commands", "certificates", "blobs", "dead-letters", "pauses"})


class ProtocolRange(msgspec.Struct, frozen=True):
    min: int = PROTOCOL_MIN
    max: int = PROTOCOL_MAX


def negotiate(ours: ProtocolRange, theirs: ProtocolRange) -> int | None:
    """The highest version that both speak, None where there is none (the manager then answers 426)."""
    common = min(ours.max, theirs.max)
    return common if common >= max(ours.min, theirs.min) else None


def skew_of(own: str, managers: str) -> str:
    """How a delegate's version stands to the manager's: `none`, `older`, `newer`, or `unknown` where one of them is no version."""
    mine, theirs = _numbers(own), _numbers(managers)
    if mine is None or theirs is None:
        return "unknown"
    return "none" if mine == theirs else "older" if mine < theirs else "newer"


def _numbers(version: str) -> tuple[int, ...] | None:
    """Major, minor and patch; what follows them (a build, a candidate) makes no difference here."""
    found = _VERSION.match(version)
    return tuple(int(number or 0) for number in found.groups()) if found else None
