"""Durations and sizes as people write them: `250ms`, `30s`, `5m`, `24h`; `512Ki`, `64Mi`, `2Gi`."""

import functools
import re

_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(Ki|Mi|Gi|k|K|M|G|)B?", re.ASCII)


@functools.lru_cache(maxsize=256)
def parse_duration(text: str) -> float:
    """Seconds; parts may be joined (`1h30m`). Raises ValueError that says what a duration looks like."""
    rest, seconds = text.strip(), 0.0
    position = 0
    while position < len(rest):
        part = _DURATION_PART.match(rest, position)
        if part is None:
            break
        seconds += float(part[1]) * _DURATION_UNITS[part[2]]
        position = part.end()
    if not rest or position != len(rest):
        raise ValueError(f"{text!r} is no duration; write a number and a unit, such as 250ms, 30s, 5m or 24h")
    return seconds


def format_duration(seconds: float) -> str:
    """The shortest exact writing of a duration that `parse_duration` reads back, to the millisecond."""
    milliseconds = round(seconds * 1000)
    if milliseconds == 0:
        return "0s"
    parts = []
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def parse_size(text: str) -> int:
    """Bytes. Raises ValueError that says what a size looks like."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no size; write a number and a unit, such as 512Ki, 64Mi or 2Gi")
    size = float(match[1]) * _SIZE_UNITS[match[2]]
    if size >= 2**63:
        raise ValueError(f"{text!r} is larger than any size that is meant; write something such as 64Mi or 2Gi")
    return int(size)
