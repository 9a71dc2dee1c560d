"""Units that the names of metrics bear by convention (Prometheus, "Metric and label naming"): a check that says another one is a slip.

The oldest one there is takes seconds for milliseconds, and passes whatever happens.
"""

import re

from delegate.model.verification.units import UNITS, Unit

_TYPES = frozenset({"prometheus", "mimir", "thanos", "cortex", "victoriametrics", "grafana", "grafana-proxy"})
_SUFFIXES = {
    "nanoseconds": "ns",
    "microseconds": "us",
    "milliseconds": "ms",
    "seconds": "s",
    "minutes": "min",
    "hours": "h",
    "bytes": "B",
    "ratio": "ratio",
    "percent": "%",
}
_NAME = re.compile(rf"\b[a-zA-Z_:][\w:]*?_({'|'.join(_SUFFIXES)})(?:_(?:total|bucket|sum|max|min|avg))?\b")
_ASIDE = re.compile(r"""\{[^}]*\}|"[^"]*"|'[^']*'|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)""")
_CONVERSION = re.compile(r"[*/]\s*[-+(\d.]|\d\s*[*/]")


def named_unit(type: str, query: str) -> tuple[str, Unit] | None:
    """A metric of the query and the unit that its name bears; None where none does, several differ, or a number converts it."""
    if type not in _TYPES:
        return None
    bare = _ASIDE.sub("", query)
    if _CONVERSION.search(bare):
        return None
    found = {match[1]: match[0] for match in _NAME.finditer(bare)}
    if len(found) != 1:
        return None
    (suffix, name) = next(iter(found.items()))
    return name, UNITS[_SUFFIXES[suffix]]
