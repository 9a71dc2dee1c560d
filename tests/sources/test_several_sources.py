"""Several sources of one Application: one set, and files that one lends to another."""

from pathlib import Path
from typing import Any

import pytest

from delegate.engine.sources.errors import ChartError, PathNotFoundError
from delegate.engine.sources.manifests import Sources
from delegate.engine.sources.renders import Rendered
from delegate.engine.sources.targets import Target
from delegate.foundation.errors import DelegateError, flatten
from delegate.model.errors import DuplicateObjectError
from delegate.model.resources import GroupKind, Origin
from delegate.model.scoping import settle_namespaces
from delegate.model.sources import HelmFileParameter, HelmOptions, Source
from tests.sources.charts import chart
from tests.sources.repositories import Repository, config_map, names
from tests.tools import require_tool


@pytest.fixture
def values(tmp_path: Path) -> Repository:
    """A second repository, for values."""
    return Repository(tmp_path, "values")


async def render_all(sources: Sources, *wanted: Source) -> Rendered:
    revisions = await sources.resolve_all(wanted, timeout=40)
    return await sources.render_all(wanted, revisions, timeout=40, target=Target(application="shop"))


def source(repository: Repository, path: str = "", **fields: Any) -> Source:
    return Source(repo_url=repository.url, target_revision="main", path=path, **fields)


async def test_one_set_in_order(repository: Repository, values: Repository, sources: Sources) -> None:
    """Each object says which source it is from, each field its line."""
    first = repository.commit({"b/b.yaml": config_map("b"), "a/a.yaml": config_map("a", key="x")})
    second = values.commit({"c.yaml": config_map("c")})

    rendered = await render_all(sources, source(repository, "b"), source(repository, "a"), source(values))

    assert names(rendered) == ["b", "a", "c"]
    assert rendered.revision == f"{first},{first},{second}"
    assert [str(each.origin) for each in rendered.manifests] == ["sources[0]:b/b.yaml:1", "sources[1]:a/a.yaml:1", "sources[2]:c.yaml:1"]
    assert rendered.locate(rendered.manifests[1], "/data/key") == Origin("sources[1]:a/a.yaml", 5, 1)


async def test_one_alone_is_as_it_is(repository: Repository, sources: Sources) -> None:
    """Nothing is put in front of its files."""
    repository.commit({"a.yaml": config_map("a")})

    rendered = await render_all(sources, source(repository))

    assert str(rendered.manifests[0].origin) == "a.yaml:1"


async def test_values_of_another_repository(repository: Repository, values: Repository, sources: Sources) -> None:
    """`$ref/...`, for files of values and for parameters; the lender holds no objects itself."""
    require_tool("helm")
    repository.commit(chart(directory="charts/shop"))
    values.commit(
        {"env/prod/a.yaml": "level: prod\n", "env/prod/b.yaml": "level: last\n", "note.txt": "hello", "unused.yaml": config_map("no")}
    )
    options = HelmOptions(
        value_files=("$values/env/$ARGOCD_APP_NAME/*.yaml", "$values/env/prod/*.yaml"),
        ignore_missing_value_files=True,
        file_parameters=(HelmFileParameter("note", "$values/note.txt"),),
    )

    rendered = await render_all(sources, source(repository, "charts/shop", helm=options), source(values, ref="values"))

    (manifest,) = rendered.manifests
    assert manifest.name == "shop-config"
    assert manifest.body["data"]["values"] == '{"level":"last","note":"hello"}'
    assert str(manifest.origin) == "sources[0]:charts/shop/templates/config.yaml"


async def test_a_lender_may_have_objects_too(repository: Repository, values: Repository, sources: Sources) -> None:
    """Where it says a path."""
    require_tool("helm")
    repository.commit(chart(directory="charts/shop"))
    values.commit({"values.yaml": "level: other\n", "more/cm.yaml": config_map("more")})
    lender = source(values, "more", ref="values")

    rendered = await render_all(sources, source(repository, "charts/shop", helm=HelmOptions(value_files=("$values/values.yaml",))), lender)

    assert names(rendered) == ["shop-config", "more"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("$values/nowhere.yaml", "there is no file of values $values/nowhere.yaml"),
        ("$values/../../etc/passwd", "leads out of the repository"),
        ("$nobody/values.yaml", "there is no file of values $nobody/values.yaml"),
    ],
)
async def test_files_that_nobody_lends(path: str, words: str, repository: Repository, values: Repository, sources: Sources) -> None:
    """The path is named as it was written."""
    require_tool("helm")
    repository.commit(chart(directory="charts/shop"))
    values.commit({"values.yaml": ""})

    with pytest.raises(DelegateError) as caught:
        await render_all(sources, source(repository, "charts/shop", helm=HelmOptions(value_files=(path,))), source(values, ref="values"))

    assert words in caught.value.message
    assert caught.value.file.startswith("sources[0]")
    assert isinstance(caught.value, ChartError) == ("there is no file" in words)


async def test_a_fault_says_its_source(repository: Repository, values: Repository, sources: Sources) -> None:
    """And its file there."""
    repository.commit({"a.yaml": config_map("a")})
    values.commit({"bad.yaml": "a: b: c\n"})

    with pytest.raises(DelegateError) as caught:
        await render_all(sources, source(repository), source(values))
    assert caught.value.file == "sources[1]:bad.yaml"

    with pytest.raises(PathNotFoundError) as missing:
        await render_all(sources, source(repository), source(values, "nowhere"))
    assert missing.value.file == "sources[1]:nowhere"


async def test_an_object_of_two_sources(repository: Repository, values: Repository, sources: Sources) -> None:
    """The rules of sets refuse it, with both places."""
    repository.commit({"a.yaml": config_map("a")})
    values.commit({"b.yaml": config_map("a")})

    rendered = await render_all(sources, source(repository), source(values))
    with pytest.raises(DelegateError) as caught:
        settle_namespaces(rendered.manifests, scopes={GroupKind("", "ConfigMap"): True}, destination_namespace="shop")

    (fault,) = flatten(caught.value)
    assert isinstance(fault, DuplicateObjectError)
    assert "sources[0]:a.yaml:1 and sources[1]:b.yaml:1" in fault.message


async def test_a_broken_mirror_is_made_anew(repository: Repository, values: Repository, sources: Sources, tmp_path: Path) -> None:
    """Also where several are read at once."""
    repository.commit({"a.yaml": config_map("a")})
    values.commit({"b.yaml": config_map("b")})
    await render_all(sources, source(repository), source(values))
    for pack in (tmp_path / "cache").glob("*.git/objects/pack/*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(b"")

    assert names(await render_all(sources, source(repository), source(values))) == ["a", "b"]
