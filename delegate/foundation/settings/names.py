"""Names: renamed ones and their successors, unknown ones and the nearest known, and the ones Kubernetes makes up."""

import difflib
import re
from collections.abc import Iterable

RENAMED_VARIABLES = {
    "DELEGATE_TAGS": "DELEGATE_LABELS",
    "DELEGATE_TASK_LIMIT": "DELEGATE_TASK_CAPACITY",
}
"""Names that are taken elsewhere for the same thing, with their successors here. As variables they are aliases; as flags and keys
they are refused."""

RENAMED_KEYS = {old.removeprefix("DELEGATE_").lower(): new.removeprefix("DELEGATE_").lower() for old, new in RENAMED_VARIABLES.items()}

RENAMED_FLAGS = {"--" + old.replace("_", "-"): "--" + new.replace("_", "-") for old, new in RENAMED_KEYS.items()}

_PROTOCOL = r"(?:TCP|UDP|SCTP)"
_INJECTED_NAME = re.compile(
    rf"[A-Z0-9_]+_(?:SERVICE_HOST|SERVICE_PORT|SERVICE_PORT_[A-Z0-9_]+|PORT_\d+_{_PROTOCOL}|PORT_\d+_{_PROTOCOL}_(?:PROTO|PORT|ADDR))"
)
_INJECTED_VALUE = re.compile(r"(?:tcp|udp|sctp)://\S+:\d+", re.IGNORECASE)


def is_injected_value(value: str) -> bool:
    """Whether a value is the address of a Service, as Kubernetes writes it into `<SERVICE>_PORT`."""
    return _INJECTED_VALUE.fullmatch(value.strip()) is not None


def is_injected(variable: str, value: str) -> bool:
    """Whether Kubernetes put this variable there for a Service of the namespace (enableServiceLinks)."""
    return _INJECTED_NAME.fullmatch(variable) is not None or (variable.endswith("_PORT") and is_injected_value(value))


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant; empty if none is near. Prefix, case, and dashes for underscores don't count."""
    by_folded = {_folded(each): each for each in known}
    matches = difflib.get_close_matches(_folded(name), by_folded, n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else ""


def _folded(name: str) -> str:
    return name.lower().replace("-", "_").removeprefix("delegate_")
