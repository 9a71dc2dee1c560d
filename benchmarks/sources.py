"""Sources: a clone and a fetch, cold and warm, against git itself; and many Applications in one repository.

The repository is on the same machine and reached through git's own protocol (file://), so that no network's time is in it.
"""

import asyncio
import shutil
import subprocess
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.errors import BrokenRunError
from benchmarks.machine import load_average
from benchmarks.reports import Figure, Report, of_samples
from delegate.engine.sources.manifests import Sources
from delegate.model.sources import Source

_SECONDS = 120.0
_AT_ONCE = 16
_IDENTITY = {
    f"GIT_{role}_{field}": f"bench{end}" for role in ("AUTHOR", "COMMITTER") for field, end in (("NAME", ""), ("EMAIL", "@example.test"))
}


@dataclass(frozen=True)
class Sizes:
    applications: int
    files: int
    commits: int
    rounds: int


FULL = Sizes(applications=500, files=4, commits=300, rounds=5)
QUICK = Sizes(applications=5, files=2, commits=3, rounds=1)


async def measure(directory: Path, *, quick: bool) -> Report:
    sizes = QUICK if quick else FULL
    origin = await asyncio.to_thread(_Origin, directory, sizes)
    bench = _Bench(directory, origin, sizes)
    return Report(
        subject="sources",
        title=f"a repository of {sizes.applications:,} Applications with {sizes.commits:,} commits, median of {sizes.rounds}",
        circumstances=(load_average(),),
        figures=(*await bench.one_application(), *await bench.all_applications()),
    )


class _Origin:
    """A bare repository and a work tree that pushes to it."""

    def __init__(self, directory: Path, sizes: Sizes) -> None:
        self.bare, self._work = directory / "origin.git", directory / "work"
        self._count = 0
        git("init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))
        git("init", "--quiet", "--initial-branch=main", str(self._work))
        self._git("remote", "add", "origin", str(self.bare))
        for number in range(sizes.applications):
            for file in range(sizes.files):
                self._write(number, file, "0")
        self._commit()
        for number in range(sizes.commits - 1):
            self._write(number % sizes.applications, 0, f"{number} old")
            self._commit()
        self._git("push", "--quiet", "origin", "HEAD:main")

    @property
    def url(self) -> str:
        return f"file://{self.bare}"

    def change_one(self) -> None:
        """A commit that touches one Application."""
        self._count += 1
        self._write(0, 0, f"{self._count} new")
        self._commit()
        self._git("push", "--quiet", "origin", "HEAD:main")

    def _write(self, number: int, file: int, value: str) -> None:
        path = self._work / f"apps/{number}/{file}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: app-{number}-{file}}}\ndata:\n  value: '{value}'\n"
        path.write_text(head + "".join(f"  key-{line}: '{number * line}'\n" for line in range(60)))

    def _commit(self) -> None:
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message=change")

    def _git(self, *arguments: str) -> None:
        git("-C", str(self._work), *arguments)


class _Bench:
    def __init__(self, directory: Path, origin: _Origin, sizes: Sizes) -> None:
        self._directory = directory
        self._origin = origin
        self._sizes = sizes

    async def one_application(self) -> list[Figure]:
        """Cold: nothing is there. Warm: a mirror, and one new commit. Known: nothing new."""
        seconds: dict[str, list[float]] = {}
        for _ in range(self._sizes.rounds):
            clone, shallow, cache = (self._directory / name for name in ("clone", "shallow", "cache"))
            for place in (clone, shallow, cache):
                await asyncio.to_thread(shutil.rmtree, place, True)
            await _timed(seconds, "git clone", asyncio.to_thread(git, "clone", "--quiet", self._origin.url, str(clone)))
            arguments = ("clone", "--quiet", "--depth=1", self._origin.url, str(shallow))
            await _timed(seconds, "git clone --depth=1", asyncio.to_thread(git, *arguments))
            sources = self._sources(cache)
            await _timed(seconds, "cold", self._read(sources, 0))
            await asyncio.to_thread(self._origin.change_one)
            await _timed(seconds, "git fetch", asyncio.to_thread(_update, shallow))
            await _timed(seconds, "warm", self._read(sources, 0))
            await _timed(seconds, "known", self._read(sources, 0))
            sources.close()
        clones, fetches = seconds["git clone --depth=1"], seconds["git fetch"]
        return [
            of_samples("git clone, with its history and a work tree", seconds["git clone"], "s"),
            of_samples("git clone --depth=1", clones, "s"),
            of_samples("  one Application, cold: resolve, fetch, decode", seconds["cold"], "s", against="git clone --depth=1", base=clones),
            of_samples("git fetch --depth=1 and git reset of one commit", fetches, "s"),
            of_samples("  one Application, warm mirror and one new commit", seconds["warm"], "s", against="git fetch", base=fetches),
            of_samples("  one Application, nothing new", seconds["known"], "s", against="git fetch", base=fetches),
        ]

    async def all_applications(self) -> list[Figure]:
        sources = self._sources(self._directory / "all")
        seconds: dict[str, list[float]] = {}
        for _ in range(self._sizes.rounds):
            await _timed(seconds, "first" if not seconds else "changed", self._read_all(sources))
            await _timed(seconds, "unchanged", self._read_all(sources))
            await asyncio.to_thread(self._origin.change_one)
        sources.close()
        count, unchanged = f"{self._sizes.applications:,} Applications", seconds["unchanged"]
        figures = [of_samples(f"{count}, for the first time", seconds["first"], "s"), of_samples("  nothing new", unchanged, "s")]
        if "changed" in seconds:
            figures.append(of_samples("  a commit to one of them", seconds["changed"], "s"))
        return figures

    def _sources(self, cache: Path) -> Sources:
        return Sources(cache_dir=cache, allow_local=True, environment={"PATH": "/usr/local/bin:/usr/bin:/bin"})

    async def _read(self, sources: Sources, number: int) -> None:
        source = Source(repo_url=self._origin.url, target_revision="main", path=f"apps/{number}")
        rendered = await sources.render(source, await sources.resolve(source, timeout=_SECONDS), timeout=_SECONDS)
        if len(rendered.manifests) != self._sizes.files:
            raise BrokenRunError(f"{len(rendered.manifests)} objects where there are {self._sizes.files}")

    async def _read_all(self, sources: Sources) -> None:
        turns = asyncio.Semaphore(_AT_ONCE)

        async def read(number: int) -> None:
            async with turns:
                await self._read(sources, number)

        await asyncio.gather(*(read(number) for number in range(self._sizes.applications)))


async def _timed(seconds: dict[str, list[float]], name: str, work: Awaitable[object]) -> None:
    began = time.monotonic()
    await work
    seconds.setdefault(name, []).append(time.monotonic() - began)


def _update(clone: Path) -> None:
    git("-C", str(clone), "fetch", "--quiet", "--depth=1", "origin", "main")
    git("-C", str(clone), "reset", "--quiet", "--hard", "FETCH_HEAD")


def git(*arguments: str) -> None:
    """Raises BrokenRunError."""
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **_IDENTITY}
    completed = subprocess.run(["git", *arguments], env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS)
    if completed.returncode != 0:
        raise BrokenRunError(f"git {arguments[0]} failed: {completed.stderr.strip()[:200]}")
