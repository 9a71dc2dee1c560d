"""What PATH-OR-URL, --revision and --path mean together, and the name that an application gets from them."""

import subprocess
from pathlib import Path

import pytest

from delegate.cli.locations import LocationError, application_name, source_of
from delegate.model.sources import Source


@pytest.mark.parametrize(
    "url",
    ["https://git.example/shop.git", "ssh://git@git.example/shop", "git@git.example:team/shop.git", "file:///srv/git/shop.git"],
)
def test_a_url_is_a_repository(url: str) -> None:
    """At HEAD unless a revision is given."""
    assert source_of(url, revision="", path="apps/web") == Source(repo_url=url, target_revision="HEAD", path="apps/web")
    assert source_of(url, revision="v1", path="") == Source(repo_url=url, target_revision="v1", path=".")


def test_a_directory_is_taken_as_it_stands(tmp_path: Path) -> None:
    """Also inside a work tree, where no revision is given."""
    work_tree = _work_tree(tmp_path)

    assert source_of(str(work_tree / "apps"), revision="", path="") == Source(path=str(work_tree / "apps"))
    assert source_of(str(work_tree), revision="", path="apps/web") == Source(path=str(work_tree / "apps/web"))


def test_with_a_revision_its_repository_is_meant(tmp_path: Path) -> None:
    """The path is relative to the repository's root then."""
    work_tree = _work_tree(tmp_path)
    at_revision = Source(repo_url=str(work_tree), target_revision="v1", path="apps/web")

    assert source_of(str(work_tree / "apps"), revision="v1", path="web") == at_revision
    assert source_of(str(work_tree / "apps/web"), revision="v1", path="") == at_revision
    assert source_of(str(work_tree), revision="v1", path="gone/since") == Source(
        repo_url=str(work_tree), target_revision="v1", path="gone/since"
    )


def test_a_bare_repository_is_one_without_asking(tmp_path: Path) -> None:
    """There is nothing else in it that could be meant."""
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "shop.git")], check=True)

    assert source_of(str(tmp_path / "shop.git"), revision="", path="guestbook") == Source(
        repo_url=str(tmp_path / "shop.git"), target_revision="HEAD", path="guestbook"
    )


@pytest.mark.parametrize(
    ("location", "revision", "path", "words"),
    [
        ("nowhere", "", "", "neither an existing path nor a URL"),
        ("apps", "", "absent", "there is no absent in"),
        ("apps", "", "../../etc", "leads out of"),
        ("apps", "", "/etc", "leads out of"),
        ("apps/web/web.yaml", "", "web", "is a file"),
        ("apps", "main", "", "in no Git work tree"),
    ],
)
def test_what_leads_nowhere_is_refused(
    *, location: str, revision: str, path: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the words that say which part of it is wrong."""
    _files(tmp_path)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(LocationError, match=words):
        source_of(location, revision=revision, path=path)


@pytest.mark.parametrize(
    ("location", "path", "name"),
    [
        ("https://git.example/team/Shop_Config.git", "", "shop-config"),
        ("https://git.example/team/shop.git/", "", "shop"),
        ("https://git.example/team/shop", "apps/checkout/", "checkout"),
        ("git@git.example:shop.git", "", "shop"),
        ("./manifests/web.yaml", "", "web"),
        (".", "deploy/.", "deploy"),
        ("/srv/" + "a" * 60, "", "a" * 53),
    ],
)
def test_an_application_is_named_by_its_place(location: str, path: str, name: str) -> None:
    """The last element, made a valid name."""
    assert application_name(location, path) == name


def test_a_dot_is_named_by_where_it_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`delegate sync .` in a directory `shop` is the application `shop`."""
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path / "shop")

    assert application_name(".", "") == "shop"


def test_a_place_without_a_name_asks_for_one() -> None:
    """And shows no credentials."""
    with pytest.raises(LocationError, match="gives no name") as caught:
        application_name("https://user:hunter22@git.example/", "")

    assert "hunter22" not in str(caught.value)
    assert "--app" in caught.value.hint


def _files(directory: Path) -> None:
    (directory / "apps/web").mkdir(parents=True)
    (directory / "apps/web/web.yaml").write_text("")


def _work_tree(directory: Path) -> Path:
    work_tree = directory / "repository"
    _files(work_tree)
    subprocess.run(["git", "init", "--quiet", str(work_tree)], check=True)
    return work_tree
