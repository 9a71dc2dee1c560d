"""Case 25: links are followed inside a source and never out of it, in a commit and in a directory alike."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from delegate.engine.sources.errors import LinkError, PathNotFoundError, SourceTooLargeError
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.renders import Rendered
from tests.sources.repositories import Repository, config_map, make_sources, names, render, source_of

RenderPath = Callable[..., Awaitable[Rendered]]


@pytest.fixture(params=["directory", "commit"])
def render_path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RenderPath]:
    """Renders a path of the tree in `tmp_path/origin.work`, as a directory or as a commit of a repository."""
    repository = Repository(tmp_path)
    limits = msgspec.structs.replace(SourceLimits(), files=200)
    sources = make_sources(tmp_path, limits=limits)

    async def rendered(path: str = ".", **options: object) -> Rendered:
        if request.param == "commit":
            repository.commit_work_tree()
            return await render(sources, source_of(repository.url, "main", path, **options))  # type: ignore[arg-type]
        return await render(sources, source_of("", path=str(repository.work / path), **options))  # type: ignore[arg-type]

    yield rendered
    sources.close()


@pytest.fixture
def tree(tmp_path: Path, render_path: RenderPath) -> Path:
    del render_path
    return tmp_path / "origin.work"


def write(path: Path, name: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config_map(name))


async def test_links_inside_are_followed(tree: Path, render_path: RenderPath) -> None:
    """To files and directories, in chains, by way of other links, and up again."""
    write(tree / "base" / "cm.yaml", "base")
    write(tree / "base" / "deep" / "cm.yaml", "deep")
    (tree / "a.yaml").symlink_to("base/cm.yaml")
    (tree / "chain.yaml").symlink_to("a.yaml")
    (tree / "current").symlink_to("base")
    (tree / "through.yaml").symlink_to("current/deep/../deep/cm.yaml")

    rendered = await render_path()

    found = [(manifest.origin.file, manifest.name) for manifest in rendered.manifests]
    assert found == [
        ("a.yaml", "base"),
        ("base/cm.yaml", "base"),
        ("base/deep/cm.yaml", "deep"),
        ("chain.yaml", "base"),
        ("current/cm.yaml", "base"),
        ("current/deep/cm.yaml", "deep"),
        ("through.yaml", "deep"),
    ]


@pytest.mark.parametrize("target", ["../outside.yaml", "/etc/hostname", "base/../../outside.yaml", "away/outside.yaml"])
async def test_a_link_that_leads_out_is_refused(tree: Path, render_path: RenderPath, target: str) -> None:
    """Relative, absolute, by a detour, by another link: the file outside is not read."""
    write(tree.parent / "outside.yaml", "outside")
    write(tree / "base" / "cm.yaml", "base")
    (tree / "away").symlink_to("..")
    (tree / "x.yaml").symlink_to(target)

    with pytest.raises(LinkError, match=r"(x\.yaml|away) is a link that leads out of the source") as raised:
        await render_path(exclude="away")
    assert raised.value.file == "x.yaml"


async def test_a_directory_link_that_leads_out_is_refused(tree: Path, render_path: RenderPath) -> None:
    """A directory outside is not walked."""
    write(tree.parent / "other" / "cm.yaml", "outside")
    write(tree / "cm.yaml", "inside")
    (tree / "other").symlink_to("../other")

    with pytest.raises(LinkError, match="other is a link that leads out of the source"):
        await render_path()
    assert names(await render_path(exclude="other")) == ["inside"]


async def test_links_in_circles_are_refused(tree: Path, render_path: RenderPath) -> None:
    """To themselves, to each other, to a directory above."""
    write(tree / "base" / "cm.yaml", "base")
    for loop, target in (("x.yaml", "x.yaml"), ("base/up", ".."), ("base/self", ".")):
        (tree / loop).symlink_to(target)
        with pytest.raises(LinkError, match="leads in circles"):
            await render_path()
        (tree / loop).unlink()


async def test_links_that_multiply_are_bounded(tree: Path, render_path: RenderPath) -> None:
    """Ten levels of two links each stand for a thousand directories."""
    for level in range(10):
        directory = tree / f"d{level}"
        directory.mkdir()
        (directory / "a").symlink_to(f"../d{level + 1}")
        (directory / "b").symlink_to(f"../d{level + 1}")
    write(tree / "d10" / "cm.yaml", "end")

    with pytest.raises(SourceTooLargeError):
        await render_path()


async def test_a_link_to_nothing(tree: Path, render_path: RenderPath) -> None:
    """As a manifest it is a fault; as anything else it is skipped with a notice."""
    write(tree / "cm.yaml", "one")
    (tree / "note").symlink_to("missing")
    rendered = await render_path()
    assert (names(rendered), rendered.notices) == (["one"], ("note: a link to nothing is skipped",))

    (tree / "x.yaml").symlink_to("missing.yaml")
    with pytest.raises(LinkError, match=r"x\.yaml is a link to nothing"):
        await render_path()


async def test_the_path_itself_may_go_through_links(tree: Path, render_path: RenderPath) -> None:
    """`current` is a link to the version that is deployed."""
    write(tree / "versions" / "v2" / "cm.yaml", "two")
    (tree / "current").symlink_to("versions/v2")

    assert names(await render_path("current")) == ["two"]


@pytest.mark.parametrize("path", ["nowhere", "cm.yaml/x", "deep/nowhere"])
async def test_a_path_that_is_not_there_is_named(tree: Path, render_path: RenderPath, path: str) -> None:
    """Whatever part of it is missing."""
    write(tree / "cm.yaml", "one")
    write(tree / "deep" / "cm.yaml", "two")

    with pytest.raises(PathNotFoundError, match=f"there is no .*{path}"):
        await render_path(path)
