"""One writer a mirror: among processes, past kills, and without a lock that stays behind."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from delegate.engine.sources.errors import CacheDirectoryError, GitTimeoutError
from delegate.engine.sources.git import mirrors
from delegate.engine.sources.git.locks import MirrorLock
from delegate.engine.sources.manifests import Sources
from tests.sources.repositories import HttpServer, Repository, config_map, make_sources, names, render, resolve, source_of

RENDER = """
import asyncio, sys
from pathlib import Path
from tests.sources.repositories import make_sources, names, render, source_of
print(names(asyncio.run(render(make_sources(Path(sys.argv[1])), source_of(sys.argv[2], "main")))))
"""
ROOT = Path(__file__).parent.parent.parent


def start_render(folder: Path, url: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", RENDER, str(folder), url], cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def test_processes_may_share_a_cache(repository: Repository, tmp_path: Path) -> None:
    """Three of them fetch the same new commit at once."""
    repository.commit({"cm.yaml": config_map("one")})
    processes = [start_render(tmp_path, repository.url) for _ in range(3)]
    outputs = [await asyncio.to_thread(process.communicate, timeout=50) for process in processes]

    assert [output.splitlines()[-1] for output, _ in outputs] == ["['one']"] * 3


async def test_a_killed_process_leaves_nothing_in_the_way(repository: Repository, tmp_path: Path) -> None:
    """SIGKILL in the middle of a fetch: its git child keeps the lock until it is gone, then everything works again."""
    repository.commit({"cm.yaml": config_map("one")})
    async with HttpServer(tmp_path).running() as server:
        fetching, released = asyncio.Event(), asyncio.Event()

        async def stall(request: object) -> None:
            if b"command=fetch" in await request.read():  # type: ignore[attr-defined]
                fetching.set()
                await released.wait()

        server.interfere = stall
        process = start_render(tmp_path, server.url("origin.git"))
        await asyncio.wait_for(fetching.wait(), 40)
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.communicate, timeout=40)
        (mirror,) = (tmp_path / "cache").glob("*.git")
        (mirror / "shallow.lock").touch()
        (mirror / "refs" / "delegate" / "refs").mkdir(parents=True, exist_ok=True)
        (mirror / "refs" / "delegate" / "refs" / "x.lock").touch()

        sources = make_sources(tmp_path)
        source = source_of(server.url("origin.git"), "main")
        resolved = await sources.resolve(source, timeout=40)
        with pytest.raises(GitTimeoutError):
            await sources.render(source, resolved, timeout=0.5)

        server.interfere = None
        released.set()
        assert names(await sources.render(source, resolved, timeout=40)) == ["one"]
    assert not [*mirror.rglob("*.lock")]
    assert not [*mirror.rglob("tmp_pack_*")]


async def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    """Another holder, in this process or another, goes first."""
    order: list[str] = []
    first, second = MirrorLock(tmp_path / "x.lock"), MirrorLock(tmp_path / "x.lock")

    async def late() -> None:
        async with second.held():
            order.append("second")

    async with first.held():
        waiting = asyncio.ensure_future(late())
        await asyncio.sleep(0)
        order.append("first")
    await asyncio.wait_for(waiting, 10)
    assert order == ["first", "second"]


async def test_a_cache_that_cannot_be_written_is_named(repository: Repository, tmp_path: Path) -> None:
    """With what to do about it."""
    repository.commit({"cm.yaml": config_map("one")})
    (tmp_path / "cache").write_text("a file, no directory")
    with pytest.raises(CacheDirectoryError, match=f"{tmp_path}/cache") as raised:
        await resolve(make_sources(tmp_path), repository.url)
    assert "writable" in raised.value.hint


async def test_many_fetches_make_few_packs(
    sources: Sources, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packs are put together, and what no ref leads to any more stays."""
    monkeypatch.setattr(mirrors, "_MOST_PACKS", 5)
    first = repository.commit({"cm.yaml": config_map("first")})
    await render(sources, source_of(repository.url, "main"))
    for number in range(12):
        repository.commit({"cm.yaml": config_map(f"cm{number}")})
        assert names(await render(sources, source_of(repository.url, "main"))) == [f"cm{number}"]

    assert len(list((tmp_path / "cache").rglob("*.pack"))) <= 6
    assert names(await render(sources, source_of(repository.url, first))) == ["first"]
