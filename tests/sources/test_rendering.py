"""Rendering from Git: case 29, the cache, places of fields, and what goes on meanwhile."""

import asyncio
import threading
import time
from pathlib import Path

import msgspec
import pytest

from delegate.engine.sources.errors import ForeignDocumentError, NoManifestsError, PathNotFoundError, SourceTooLargeError, SubmoduleError
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.manifests import Sources
from delegate.foundation.errors import DelegateError, ErrorGroup
from delegate.model.resources import Origin
from tests.sources.repositories import ENVIRONMENT, Repository, config_map, git, make_sources, names, render, resolve, run_case, source_of


class TestCase29:
    """Submodules, LFS pointers, and commits that change something else."""

    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        run_case("29-submodule-lfs-shallow", tmp_path / "case")
        return f"file://{tmp_path}/case/main.git"

    async def test_commits_elsewhere_change_no_content(self, url: str, sources: Sources, tmp_path: Path) -> None:
        """The same files below the path are the same content, whatever the commit."""
        head = await resolve(sources, url, "main")
        first = git("-C", f"{tmp_path}/case/main.git", "rev-list", "--max-parents=0", "main").strip()

        old, new = await render(sources, source_of(url, first, "apps/a")), await render(sources, source_of(url, head.revision, "apps/a"))
        assert (old.revision, new.revision) == (first, head.revision)
        assert old.content == new.content
        assert names(new) == ["a"]
        other = [await render(sources, source_of(url, revision, "apps/b")) for revision in (first, head.revision)]
        assert other[0].content != other[1].content

    async def test_a_submodule_is_not_fetched(self, url: str, sources: Sources) -> None:
        """Reading one fails with its name; leaving it out works."""
        with pytest.raises(SubmoduleError, match="vendor/sub is a submodule"):
            await render(sources, source_of(url, "main", "."))
        with pytest.raises(SubmoduleError, match="vendor/sub is a submodule"):
            await render(sources, source_of(url, "main", "vendor/sub"))
        rendered = await render(sources, source_of(url, "main", ".", exclude="{vendor/*,assets/*}"))
        assert names(rendered) == ["a", "b"]

    async def test_a_pointer_is_no_manifest(self, url: str, sources: Sources) -> None:
        """It is refused, never parsed."""
        with pytest.raises(ForeignDocumentError, match="LFS pointer, content not fetched") as raised:
            await render(sources, source_of(url, "main", "assets"))
        assert raised.value.file == "assets/blob.yaml"


async def test_many_renders_of_one_commit_at_once(sources: Sources, repository: Repository) -> None:
    """No lock is held while rendering, and each has objects of its own."""
    repository.commit({f"cm{number}.yaml": config_map(f"cm{number}") for number in range(20)})
    revision = await resolve(sources, repository.url, "main")
    source = source_of(repository.url, "main")

    rendered = await asyncio.gather(*(sources.render(source, revision, timeout=50) for _ in range(30)))

    assert all(len(each.manifests) == 20 for each in rendered)
    bodies = {id(each.manifests[0].body) for each in rendered}
    assert len(bodies) == len(rendered)


async def test_what_comes_from_the_cache_is_equal_and_its_own(sources: Sources, repository: Repository) -> None:
    """Bodies, origins, notices and places; changing one copy changes no other."""
    text = "# first\napiVersion: e.com/v1\nkind: Sample\nmetadata: {name: s}\nspec: {big: 9223372036854775807, half: 0.5, x: null}\n"
    repository.commit({"a/s.yaml": text, "a/values.yaml": "a: 1\n"})
    first, second = [await render(sources, source_of(repository.url, "main", "a")) for _ in range(2)]

    assert first.manifests == second.manifests
    assert first.notices == second.notices != ()
    assert second.locate(second.manifests[0], "/spec/half") == Origin("a/s.yaml", 5, 1)
    first.manifests[0].body["spec"]["half"] = 1
    assert (await render(sources, source_of(repository.url, "main", "a"))).manifests == second.manifests


async def test_places_of_fields(sources: Sources, repository: Repository) -> None:
    """By JSON pointer and by field path, also of a manifest that was changed since, with the nearest ancestor as fallback."""
    text = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: 1\n  template:\n    spec:\n"
        "      containers:\n      - name: main\n        image: a\n      - name: side\n        image: b\n"
    )
    repository.commit({"web.yaml": config_map("x") + "---\n" + text})
    rendered = await render(sources, source_of(repository.url, "main"))
    web = rendered.manifests[1]
    changed = msgspec.structs.replace(web, body={**web.body, "metadata": {"name": "web", "namespace": "demo"}})

    lines = {
        pointer: rendered.locate(changed, pointer).line
        for pointer in (
            "/spec/replicas",
            "spec.replicas",
            "/spec/template/spec/containers/1/image",
            "spec.template.spec.containers[1].image",
            '.spec.template.spec.containers[name="side"].image',
            "/spec/template/spec/containers/1/ports/0",
            "/metadata/namespace",
            "",
        )
    }
    assert list(lines.values()) == [10, 10, 17, 17, 17, 16, 7, 5]


async def test_every_fault_has_the_path_from_the_top(sources: Sources, repository: Repository) -> None:
    """As results show it."""
    repository.commit({"apps/dev/a.yaml": "a: [\n", "apps/dev/b.yaml": "x\n", "apps/dev/c.yaml": config_map("c")})
    with pytest.raises(ErrorGroup) as raised:
        await render(sources, source_of(repository.url, "main", "apps/dev"))
    assert [error.file for error in raised.value.errors] == ["apps/dev/a.yaml", "apps/dev/b.yaml"]


async def test_what_is_not_there_is_named(sources: Sources, repository: Repository) -> None:
    """A path, or manifests at it."""
    commit = repository.commit({"readme.md": "hello"})
    with pytest.raises(PathNotFoundError, match=f"{repository.url} at {commit[:12]}: there is no apps"):
        await render(sources, source_of(repository.url, "main", "apps"))
    with pytest.raises(NoManifestsError, match="no manifests in"):
        await render(sources, source_of(repository.url, "main"))


async def test_one_file_of_a_commit_may_be_the_source(sources: Sources, repository: Repository) -> None:
    """As with the release manifests that projects publish in one file."""
    repository.commit({"release/all.yaml": config_map("a") + "---\n" + config_map("b"), "release/other.yaml": config_map("c")})
    assert names(await render(sources, source_of(repository.url, "main", "release/all.yaml"))) == ["a", "b"]


async def test_a_file_past_its_limit_is_not_even_read(tmp_path: Path, repository: Repository) -> None:
    """Its size is known before its content."""
    repository.commit({"big.yaml": config_map("big", x="y" * 5000)})
    sources = make_sources(tmp_path, limits=msgspec.structs.replace(SourceLimits(), file_bytes=1000))
    with pytest.raises(SourceTooLargeError, match="the limit is 1000"):
        await render(sources, source_of(repository.url, "main"))


async def test_a_broken_mirror_is_made_anew(sources: Sources, repository: Repository, tmp_path: Path) -> None:
    """Packs that were cut short, or an object that is gone, cost one more fetch."""
    repository.commit({"cm.yaml": config_map("one")})
    source = source_of(repository.url, "main")
    revision = await resolve(sources, repository.url, "main")
    assert names(await sources.render(source, revision, timeout=40)) == ["one"]

    for pack in (tmp_path / "cache").rglob("*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(pack.read_bytes()[:20])
    assert names(await make_sources(tmp_path).render(source, revision, timeout=40)) == ["one"]


async def test_the_loop_and_other_threads_go_on_while_a_big_set_is_decoded(sources: Sources, tmp_path: Path) -> None:
    """A thread that beats like the heartbeats does, and the loop, keep beating."""
    document = "apiVersion: v1\nkind: Sample\nmetadata: {name: s%d}\nspec: {a: [1, 2, {b: c}], d: text, e: {f: g}}\n"
    (tmp_path / "set.yaml").write_text("---\n".join(document % number for number in range(20_000)))
    beats: list[float] = []
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.01):
            beats.append(time.monotonic())

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.01)
            ticks.append(time.monotonic())

    ticks: list[float] = []
    thread, ticking = threading.Thread(target=beat), asyncio.ensure_future(tick())
    thread.start()
    try:
        started = time.monotonic()
        rendered = await render(sources, source_of("", path=str(tmp_path / "set.yaml")))
        ended = time.monotonic()
    finally:
        stop.set()
        thread.join()
        ticking.cancel()
    assert len(rendered.manifests) == 20_000
    # Far below one in ten milliseconds, far above what a decoder that holds the interpreter leaves: nothing in between.
    least = (ended - started) / 0.5
    assert sum(started < each < ended for each in beats) > least
    assert sum(started < each < ended for each in ticks) > least


async def test_a_render_that_is_cancelled_frees_its_thread(sources: Sources, tmp_path: Path) -> None:
    """The loader stops at the next document."""
    (tmp_path / "set.yaml").write_text("---\n".join(config_map(f"cm{number}") for number in range(30_000)))
    (tmp_path / "one.yaml").write_text(config_map("one"))
    big = [asyncio.ensure_future(render(sources, source_of("", path=str(tmp_path / "set.yaml")))) for _ in range(2)]
    while not any(thread.name.startswith("loader") for thread in threading.enumerate()):  # noqa: ASYNC110 - threads tell nobody
        await asyncio.sleep(0)
    for task in big:
        task.cancel()
    for task in big:
        with pytest.raises(asyncio.CancelledError):
            await task
    assert names(await render(sources, source_of("", path=str(tmp_path / "one.yaml")))) == ["one"]


def test_a_rendered_set_shows_no_bodies(tmp_path: Path) -> None:
    """Secrets are among them."""

    async def rendered() -> str:
        text = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: hunter2}\n"
        (tmp_path / "s.yaml").write_text(text)
        return repr(await render(make_sources(tmp_path), source_of("", path=str(tmp_path / "s.yaml"))))

    assert "hunter2" not in asyncio.run(rendered())


async def test_faults_are_counted_by_kind(repository: Repository, tmp_path: Path) -> None:
    """Once each, whether one source is read or several."""
    told: list[str] = []
    sources = Sources(cache_dir=tmp_path / "cache", allow_local=True, environment=ENVIRONMENT, on_fault=told.append)
    files = {"good/cm.yaml": config_map("a"), "bad/cm.yaml": "a: b: c\n", "kust/kustomization.yaml": "resources: [nothing.yaml]\n"}
    repository.commit(files)
    for path in ("bad", "kust"):
        wanted = (source_of(repository.url, "main", path),)
        for several in (wanted, (*wanted, source_of(repository.url, "main", "good"))):
            revisions = await sources.resolve_all(several, timeout=40)
            with pytest.raises(DelegateError):
                await sources.render_all(several, revisions, timeout=40)
    with pytest.raises(DelegateError):
        await sources.resolve(source_of(repository.url, "nowhere"), timeout=40)
    sources.close()

    assert told == ["decode", "decode", "kustomize", "kustomize", "git"]
