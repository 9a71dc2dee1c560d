"""What a benchmark has to say of the machine that it ran on."""

import os
import platform
import subprocess
from pathlib import Path


def load_average() -> str:
    """How busy the machine was in the minute before: above its cores, absolute figures mean little."""
    return f"{os.cpu_count()} cores with a load of {os.getloadavg()[0]:.1f}, Python {platform.python_version()}"


def file_system_of(path: Path) -> str:
    """The type of the file system: durability on tmpfs costs nothing and means nothing."""
    listed = subprocess.run(["stat", "--file-system", "--format=%T", str(path)], capture_output=True, text=True, check=False)
    return listed.stdout.strip() or "an unknown file system"
