"""Directories and single files of this machine."""

import os
from pathlib import Path

import msgspec
import pytest

from delegate.engine.sources.errors import (
    EncodingError,
    LocalSourceError,
    NoManifestsError,
    PathNotFoundError,
    SourceError,
    SourceTooLargeError,
    UnreadableFileError,
)
from delegate.engine.sources.globs import Filter
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.manifests import Sources
from tests.sources.repositories import ENVIRONMENT, config_map, make_sources, names, render, source_of


def fill(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_yaml", ".yaml").replace("_yml", ".yml").replace("_json", ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


async def test_files_come_in_path_order(sources: Sources, tmp_path: Path) -> None:
    """Directory by directory, whatever their endings; other files and `.git` are left alone."""
    json = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "json"}}'
    folder = fill(
        tmp_path / "app", a__z_yaml=config_map("az"), b_yml=config_map("b"), a_yaml=config_map("a"), c_json=json, d=config_map("d")
    )
    fill(folder, **{".git__cm_yaml": config_map("git"), "readme_md": "hello"})

    rendered = await render(sources, source_of("", path=str(folder)))

    assert names(rendered) == ["az", "a", "b", "json"]
    assert [str(manifest.origin) for manifest in rendered.manifests] == ["a/z.yaml:1", "a.yaml:1", "b.yml:1", "c.json:1"]


async def test_one_file_may_be_the_source(sources: Sources, tmp_path: Path) -> None:
    """Whatever it is called."""
    (tmp_path / "set.txt").write_text(config_map("one") + "---\n" + config_map("two"))

    rendered = await render(sources, source_of("", path=str(tmp_path / "set.txt")))

    assert names(rendered) == ["one", "two"]
    assert str(rendered.manifests[1].origin) == "set.txt:5"


async def test_the_revision_is_the_content(sources: Sources, tmp_path: Path) -> None:
    """It changes with any byte, and with nothing else."""
    fill(tmp_path / "app", a_yaml=config_map("a"))
    source = source_of("", path=str(tmp_path / "app"))
    first, second = await render(sources, source), await render(sources, source)
    (tmp_path / "app" / "a.yaml").write_text(config_map("a") + "\n")

    assert first.revision == second.revision
    assert first.revision.startswith("sha256:")
    assert (await render(sources, source)).revision != first.revision


async def test_a_task_from_afar_reads_no_path(tmp_path: Path) -> None:
    """Neither as a directory nor as a repository."""
    sources = Sources(cache_dir=tmp_path / "cache", environment=ENVIRONMENT)
    for url, path in (("", str(tmp_path)), (f"file://{tmp_path}", "."), (str(tmp_path), ".")):
        with pytest.raises(LocalSourceError):
            await render(sources, source_of(url, path=path))


async def test_what_is_not_there_is_named(sources: Sources, tmp_path: Path) -> None:
    """A missing path, an empty directory, a directory whose manifests lie deeper."""
    with pytest.raises(PathNotFoundError, match=f"there is no {tmp_path}/none"):
        await render(sources, source_of("", path=str(tmp_path / "none")))
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoManifestsError, match=f"{tmp_path}/empty: no manifests"):
        await render(sources, source_of("", path=str(tmp_path / "empty")))
    fill(tmp_path / "deep", below__a_yaml=config_map("a"))
    with pytest.raises(NoManifestsError) as raised:
        await render(sources, source_of("", path=str(tmp_path / "deep"), recurse=False))
    assert raised.value.hint == "directories below it are not read, because recurse is off"


async def test_what_is_no_text_is_located(sources: Sources, tmp_path: Path) -> None:
    """A picture that is called YAML."""
    (tmp_path / "logo.yaml").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
    with pytest.raises(EncodingError, match=r"logo\.yaml:1: not UTF-8: byte 0x89 at byte offset 0"):
        await render(sources, source_of("", path=str(tmp_path / "logo.yaml")))


async def test_what_is_no_file_is_not_waited_for(sources: Sources, tmp_path: Path) -> None:
    """A named pipe would never end."""
    (tmp_path / "app").mkdir()
    os.mkfifo(tmp_path / "app" / "pipe.yaml")
    with pytest.raises(UnreadableFileError, match=r"pipe\.yaml is no regular file"):
        await render(sources, source_of("", path=str(tmp_path / "app")))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_what_may_not_be_read_is_named(sources: Sources, tmp_path: Path) -> None:
    """As a matter of permission."""
    folder = fill(tmp_path / "app", a_yaml=config_map("a"))
    (folder / "a.yaml").chmod(0)
    with pytest.raises(UnreadableFileError, match=r"a\.yaml can't be read: Permission denied"):
        await render(sources, source_of("", path=str(folder)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"files": 2}, "more than 2 files"),
        ({"file_bytes": 10}, "the limit of one file"),
        ({"total_bytes": 100}, "more than 100 bytes of manifests"),
    ],
)
async def test_bounds(tmp_path: Path, change: dict[str, int], words: str) -> None:
    """Number, size and sum of files."""
    sources = make_sources(tmp_path, limits=msgspec.structs.replace(SourceLimits(), **change))
    folder = fill(tmp_path / "app", a_yaml=config_map("a"), b_yaml=config_map("b"), c_yaml=config_map("c"))
    with pytest.raises(SourceTooLargeError, match=words):
        await render(sources, source_of("", path=str(folder)))


class TestFilter:
    """Argo CD's globs."""

    @pytest.mark.parametrize(
        ("include", "exclude", "accepted"),
        [
            ("", "", ["a.yaml", "b/c.yml", "b/d.json", "values.yaml"]),
            ("*.yaml", "", ["a.yaml", "values.yaml"]),
            ("b/*", "", ["b/c.yml", "b/d.json"]),
            ("*.{yml,json}", "", ["b/c.yml", "b/d.json"]),
            ("{a.yaml,b/{c,x}.yml}", "", ["a.yaml", "b/c.yml"]),
            ("", "{values.yaml,b/*}", ["a.yaml"]),
            ("?.yaml", "", ["a.yaml"]),
            ("[!a-u]*.yaml", "", ["values.yaml"]),
            (r"\{a.yaml\}", "", []),
        ],
    )
    def test_include_and_exclude(self, include: str, exclude: str, accepted: list[str]) -> None:
        """Whole paths below the source's directory are matched."""
        chosen = Filter(include, exclude)
        assert [path for path in ("a.yaml", "b/c.yml", "b/d.json", "values.yaml", "x.txt") if chosen.accepts_file(path)] == accepted

    def test_stars_cost_no_time(self) -> None:
        """A pattern that would take a backtracking matcher for ever."""
        assert not Filter("*a" * 100 + "b.yaml").accepts_file("a" * 4000 + ".yaml")

    @pytest.mark.parametrize("pattern", ["{a,b", "x" * 2000, "{a,b}" * 20])
    def test_patterns_are_bounded(self, pattern: str) -> None:
        """What can't be read, or stands for too much, is refused."""
        with pytest.raises(SourceError):
            Filter(pattern)
