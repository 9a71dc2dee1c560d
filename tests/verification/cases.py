"""The shared cases of verification, as they are written."""

from pathlib import Path
from typing import Any

import yaml

_CASES = Path(__file__).parent.parent / "data" / "cases" / "canary"


def case(number: str) -> dict[str, Any]:
    (folder,) = _CASES.glob(f"{number}-*")
    loaded: dict[str, Any] = yaml.safe_load((folder / "task.yaml").read_text())
    return loaded
