"""Thousands of tasks leave nothing behind: memory, descriptors, threads and child processes stay as they were."""

import sys
from pathlib import Path

import pytest

from benchmarks.soak import Holdings, soak

TASKS = 5_000
_MEBIBYTE = 2**20


@pytest.mark.timeout(240)
async def test_thousands_of_tasks_leave_nothing_behind(tmp_path: Path) -> None:
    """Manager and delegate after five thousand tasks, against themselves after five hundred. (`make bench` does a hundred thousand.)"""
    if sys.platform != "linux":
        pytest.skip("what a process holds is counted in /proc")

    first, last = [pair async for pair in soak(tmp_path, TASKS)]

    for name, before, after in (("manager", first.manager, last.manager), ("delegate", first.delegate, last.delegate)):
        assert_flat(name, before, after)


def assert_flat(name: str, before: Holdings, after: Holdings) -> None:
    assert after.rss_bytes - before.rss_bytes < 24 * _MEBIBYTE, (name, before, after)
    assert after.descriptors - before.descriptors <= 70, (name, before, after)  # the client's connections may be more of them by now
    assert after.threads - before.threads <= 4, (name, before, after)
    assert after.children == before.children == 0, (name, before, after)
