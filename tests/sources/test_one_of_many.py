"""Many Applications in one repository: a commit to one of them costs the others neither a fetch nor a render nor a process."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web

from delegate.engine.sources import commands
from delegate.engine.sources.caches import RenderCache
from delegate.engine.sources.git.objects import TreeMemory
from delegate.engine.sources.manifests import Sources
from delegate.engine.sources.renders import Rendered
from delegate.engine.sources.trees import Entry, EntryKind
from delegate.model.sources import Source
from tests.sources.repositories import HttpServer, Repository, config_map, make_sources, source_of
from tests.tools import require_tool

APPLICATIONS = 500


class Counted:
    """What reading all Applications took: requests of the server, processes, renders."""

    def __init__(self, server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fetches = self.listings = self.renders = 0
        self.programs: list[str] = []
        server.interfere = self._see
        put, spawn = RenderCache.put, commands._spawn

        def count(cache: RenderCache, key: str, loaded: object) -> None:
            self.renders += 1
            put(cache, key, loaded)  # type: ignore[arg-type]  # as it came

        async def start(command: commands.Command, *rest: object) -> object:
            self.programs.append(" ".join(command.arguments))
            return await spawn(command, *rest)  # type: ignore[arg-type]  # as it came

        monkeypatch.setattr(RenderCache, "put", count)
        monkeypatch.setattr(commands, "_spawn", start)

    def reset(self) -> None:
        self.fetches = self.listings = self.renders = 0
        self.programs.clear()

    async def _see(self, request: web.Request) -> None:
        body = await request.read()
        self.fetches += b"command=fetch" in body
        self.listings += b"command=ls-refs" in body


async def read_all(sources: Sources, wanted: Sequence[Source]) -> list[Rendered]:
    turns = asyncio.Semaphore(16)

    async def read(source: Source) -> Rendered:
        revision = await sources.resolve(source, timeout=50)
        async with turns:
            return await sources.render(source, revision, timeout=50)

    return list(await asyncio.gather(*(read(source) for source in wanted)))


async def test_a_commit_to_one_of_500(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One fetch, one render; the listings are shared by all who ask at the same time."""
    repository.commit({f"apps/{number}/cm.yaml": config_map(f"app-{number}") for number in range(APPLICATIONS)})
    async with HttpServer(tmp_path).running() as server:
        counted = Counted(server, monkeypatch)
        sources = make_sources(tmp_path)
        wanted = [source_of(server.url("origin.git"), "main", f"apps/{number}") for number in range(APPLICATIONS)]
        before = await read_all(sources, wanted)
        assert (counted.fetches, counted.renders) == (1, APPLICATIONS)

        commit = repository.commit({"apps/7/cm.yaml": config_map("app-7", changed="yes")})
        counted.reset()
        after = await read_all(sources, wanted)

    assert (counted.fetches, counted.renders) == (1, 1)
    assert counted.listings <= 3
    assert len([program for program in counted.programs if "cat-file" in program]) <= 20, "what is known is not read again"
    assert {each.revision for each in after} == {commit}
    changed = [index for index, (old, new) in enumerate(zip(before, after, strict=True)) if old.content != new.content]
    assert changed == [7]
    sources.close()


async def test_renderers_too(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kustomizations that share a base: the base's change renders those that read it, an overlay's only itself."""
    require_tool("kubectl")
    files = {"base/kustomization.yaml": "resources: [cm.yaml]\n", "base/cm.yaml": config_map("base"), "other.txt": "1"}
    for number in range(4):
        files[f"apps/{number}/kustomization.yaml"] = f"resources: [../../base]\nnamePrefix: app-{number}-\n"
    files["apps/4/kustomization.yaml"] = "configMapGenerator: [{name: own, literals: [a=b]}]\n"
    repository.commit(files)
    async with HttpServer(tmp_path).running() as server:
        counted = Counted(server, monkeypatch)
        sources = make_sources(tmp_path)
        wanted = [source_of(server.url("origin.git"), "main", f"apps/{number}") for number in range(5)]
        await read_all(sources, wanted)
        for change, renders in (
            ({"other.txt": "2"}, 0),
            ({"apps/1/kustomization.yaml": "resources: [../../base]\nnamePrefix: one-\n"}, 1),
            ({"base/cm.yaml": config_map("base", changed="yes")}, 4),
        ):
            repository.commit(change)
            counted.reset()
            await read_all(sources, wanted)
            assert (counted.fetches, counted.renders, len([each for each in counted.programs if "kustomize" in each])) == (
                1,
                renders,
                renders,
            )
    sources.close()


def test_what_is_remembered_has_an_end() -> None:
    """The directories used last stay; a mirror that is thrown away is forgotten."""
    memory = TreeMemory(most_entries=10)
    members = {"a": Entry(EntryKind.FILE, "1"), "b": Entry(EntryKind.FILE, "2")}
    first, second = Path("/first"), Path("/second")
    for name in ("1", "2", "3"):
        memory.put(first, name, members)
    assert memory.get(first, "1") == members
    memory.put(second, "4", members)

    assert [memory.get(first, name) is not None for name in ("1", "2", "3")] == [True, False, True]
    assert memory.forget(first)
    assert not memory.forget(first)
    assert memory.get(first, "1") is None
    assert memory.get(second, "4") == members
