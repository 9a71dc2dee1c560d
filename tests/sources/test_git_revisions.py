"""What a revision means: case 24, and the rules behind it."""

from pathlib import Path

import pytest

from delegate.engine.sources.errors import AmbiguousRevisionError, RevisionNotFoundError
from delegate.engine.sources.git.references import References, is_short_id, read_listing, resolve_name, resolve_version
from delegate.engine.sources.manifests import Sources
from delegate.model.sources import Source
from tests.sources.repositories import Repository, config_map, git, names, render, resolve, run_case, source_of


class Origin:
    """The repository that the case's script makes, and what it says each ref stands for."""

    def __init__(self, folder: Path) -> None:
        self.refs: dict[str, str] = {}
        self.release = ""
        for line in run_case("24-git-refs", folder).splitlines():
            name, arrow, commit = line.partition(" -> ")
            if arrow:
                self.refs[name] = commit
            elif line.startswith("release: "):
                self.release = line.removeprefix("release: ")
            elif line.startswith("unreachable "):
                self.refs["unreachable"] = line.split()[1]
            elif line.startswith("tag-object "):
                self.refs["tag-object"] = line.split()[1]
        self.bare = folder / "origin.git"
        self.url = f"file://{self.bare}"


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path)


class TestCase24:
    @pytest.mark.parametrize(
        ("wanted", "tag"),
        [
            ("v1.0.*", "v1.0.1"),
            (">=1.0.0", "v1.0.1"),
            (">=1.0.0-0", "v1.1.0-rc.1"),
            ("*", "v1.0.1"),
            ("v1.0.0", "v1.0.0"),
        ],
    )
    async def test_a_range_is_the_newest_tag_in_it(self, wanted: str, tag: str, origin: Origin, sources: Sources) -> None:
        """Pre-releases only where the range has one; a tag by its name is that tag."""
        resolved = await resolve(sources, origin.url, wanted)

        assert (resolved.ref, resolved.revision) == (f"refs/tags/{tag}", git("-C", str(origin.bare), "rev-parse", f"{tag}^{{commit}}"))

    async def test_nothing_in_a_range(self, origin: Origin, sources: Sources) -> None:
        """The newest tag is named; branches are no versions."""
        with pytest.raises(RevisionNotFoundError, match=r"versions is in '>=2'") as raised:
            await resolve(sources, origin.url, ">=2")
        assert "v1.0.1" in raised.value.hint or "v1.1.0-rc.1" in raised.value.hint

    async def test_every_revision_is_a_commit(self, origin: Origin, sources: Sources) -> None:
        """An annotated tag gives its commit, never the tag object."""
        for revision in ("v1.0.0", "main", "feature/sub", "refs/pull/7/head"):
            resolved = await resolve(sources, origin.url, revision)
            assert resolved.revision == origin.refs[revision]
        assert (await resolve(sources, origin.url, "v1.0.0")).ref == "refs/tags/v1.0.0"
        assert (await resolve(sources, origin.url, "HEAD")).ref == "refs/heads/main"

    async def test_a_name_of_two_refs_is_refused(self, origin: Origin, sources: Sources) -> None:
        """Both are named, and each is reached by its full name."""
        with pytest.raises(AmbiguousRevisionError, match=r"refs/heads/release .* and refs/tags/release") as raised:
            await resolve(sources, origin.url, "release")
        assert raised.value.hint == "write refs/heads/release or refs/tags/release"

        branch = await resolve(sources, origin.url, "refs/heads/release")
        tag = await resolve(sources, origin.url, "refs/tags/release")
        assert origin.release == f"branch {branch.revision} tag {tag.revision}"

    async def test_a_name_may_become_a_directory(self, sources: Sources, repository: Repository) -> None:
        """A mirror that had `feature` fetches `feature/sub`, and the other way round."""
        repository.commit({"cm.yaml": config_map("one")}, push="feature")
        assert names(await render(sources, source_of(repository.url, "feature"))) == ["one"]

        git("-C", str(repository.bare), "branch", "-D", "feature")
        repository.commit({"cm.yaml": config_map("two")}, push="feature/sub")
        assert names(await render(sources, source_of(repository.url, "feature/sub"))) == ["two"]

        git("-C", str(repository.bare), "branch", "-D", "feature/sub")
        repository.commit({"cm.yaml": config_map("three")}, push="feature")
        assert names(await render(sources, source_of(repository.url, "feature"))) == ["three"]

    async def test_a_force_push_is_followed_and_the_old_commit_stays(self, sources: Sources, repository: Repository) -> None:
        """A pinned commit that nothing leads to any more comes from the mirror."""
        first = repository.commit({"cm.yaml": config_map("base")})
        old = repository.commit({"cm.yaml": config_map("old")})
        assert names(await render(sources, source_of(repository.url, "main"))) == ["old"]

        repository.git("reset", "-q", "--hard", first)
        new = repository.commit({"cm.yaml": config_map("new")})
        git("-C", str(repository.bare), "gc", "-q", "--prune=now")

        rendered = await render(sources, source_of(repository.url, "main"))
        assert (rendered.revision, names(rendered)) == (new, ["new"])
        pinned = await render(sources, source_of(repository.url, old))
        assert (pinned.revision, names(pinned)) == (old, ["old"])

    async def test_an_unreachable_commit_is_fetched_by_its_id(self, origin: Origin, sources: Sources, tmp_path: Path) -> None:
        """The mirror never saw it, but the server still has it."""
        lost = origin.refs["unreachable"]
        assert (await resolve(sources, origin.url, lost)).revision == lost
        assert lost not in git("-C", str(origin.bare), "rev-list", "--all")

    async def test_a_commit_that_is_gone_is_an_error(self, origin: Origin, sources: Sources) -> None:
        """No other commit is taken instead."""
        lost = origin.refs["unreachable"]
        git("-C", str(origin.bare), "gc", "-q", "--prune=now")

        with pytest.raises(RevisionNotFoundError, match=rf"commit {lost} is not in the repository any more \(history rewritten\)"):
            await resolve(sources, origin.url, lost)

    async def test_a_deleted_branch_is_an_error(self, origin: Origin, sources: Sources) -> None:
        """There is no fallback to the default branch."""
        with pytest.raises(RevisionNotFoundError, match="has no branch or tag 'feature'") as raised:
            await resolve(sources, origin.url, "feature")
        assert raised.value.category == "input"
        assert not raised.value.retryable

    async def test_a_short_id_is_stored_in_full(self, origin: Origin, sources: Sources) -> None:
        """Seven characters will do where they are unique."""
        commit = origin.refs["v1.0.0"]
        assert (await resolve(sources, origin.url, commit[:7])).revision == commit
        assert (await resolve(sources, origin.url, commit[:12].upper())).revision == commit
        with pytest.raises(RevisionNotFoundError, match="no commit's id begins with"):
            await resolve(sources, origin.url, "0000000" if not commit.startswith("0000000") else "1111111")

    async def test_the_id_of_a_tag_object_leads_to_its_commit(self, origin: Origin, sources: Sources) -> None:
        """It never stands as a revision itself."""
        assert (await resolve(sources, origin.url, origin.refs["tag-object"])).revision == origin.refs["v1.0.0"]


async def test_a_ref_named_like_an_id_needs_its_full_name(sources: Sources, repository: Repository) -> None:
    """`20240922` reads as an id; the hint says how to mean the tag."""
    commit = repository.commit({"cm.yaml": config_map("one")})
    repository.git("push", "-q", "origin", "HEAD:refs/tags/20240922")

    with pytest.raises(RevisionNotFoundError) as raised:
        await resolve(sources, repository.url, "20240922")
    assert raised.value.hint == "to mean the ref of that name, write refs/tags/20240922"
    assert (await resolve(sources, repository.url, "refs/tags/20240922")).revision == commit


async def test_an_empty_repository_says_so(sources: Sources, repository: Repository) -> None:
    """It has no HEAD to resolve."""
    with pytest.raises(RevisionNotFoundError, match="has no HEAD"):
        await resolve(sources, repository.url)


async def test_a_repository_of_sha256_ids_is_read(tmp_path: Path, sources: Sources) -> None:
    """The mirror takes the format of what it mirrors."""
    bare, work = tmp_path / "long.git", tmp_path / "long"
    git("init", "-q", "--bare", "-b", "main", "--object-format=sha256", str(bare))
    git("init", "-q", "-b", "main", "--object-format=sha256", str(work))
    (work / "cm.yaml").write_text(config_map("long"))
    git("-C", str(work), "add", ".")
    git("-C", str(work), "commit", "-q", "-m", "x")
    git("-C", str(work), "push", "-q", str(bare), "main")

    rendered = await render(sources, source_of(f"file://{bare}", "main"))
    assert len(rendered.revision) == 64
    assert names(rendered) == ["long"]


class TestNames:
    """The pure rules."""

    LISTING = References(
        {
            "HEAD": "a" * 40,
            "refs/heads/main": "a" * 40,
            "refs/heads/both": "b" * 40,
            "refs/tags/both": "b" * 40,
            "refs/pull/7/head": "c" * 40,
        },
        "refs/heads/main",
    )

    def test_a_listing_is_read(self) -> None:
        """Peeled tags win over tag objects, and HEAD says where it points."""
        output = b"ref: refs/heads/main\tHEAD\n11\tHEAD\n11\trefs/heads/main\n22\trefs/tags/v1\n33\trefs/tags/v1^{}\n"
        assert read_listing(output) == References({"HEAD": "11", "refs/heads/main": "11", "refs/tags/v1": "33"}, "refs/heads/main")

    def test_two_refs_are_ambiguous_even_at_one_commit(self) -> None:
        """They may part at any time."""
        with pytest.raises(AmbiguousRevisionError):
            resolve_name(self.LISTING, "both", "x")

    @pytest.mark.parametrize("name", ["heads/main", "refs/heads/main", "main", "pull/7/head", "HEAD"])
    def test_longer_names_work(self, name: str) -> None:
        """As far as they are exact."""
        assert resolve_name(self.LISTING, name, "x").commit in ("a" * 40, "c" * 40)

    @pytest.mark.parametrize(
        "name", ["-x", "--upload-pack=touch", "a..b", "a b", "a~1", "main^", "x:y", "/a", "a\n", "a@{1}", "refs/heads/*"]
    )
    def test_what_git_would_read_otherwise_is_no_name(self, name: str) -> None:
        """No option, range, pattern or expression gets through."""
        with pytest.raises(RevisionNotFoundError, match="can't be a revision"):
            resolve_name(self.LISTING, name, "x")

    def test_a_near_name_is_offered(self) -> None:
        """Typing errors are common."""
        with pytest.raises(RevisionNotFoundError) as raised:
            resolve_name(self.LISTING, "mian", "x")
        assert raised.value.hint == "did you mean main?"

    @pytest.mark.parametrize(
        ("text", "short"), [("abcdef1", True), ("abcdef", False), ("a" * 40, False), ("abcdefg", False), ("1" * 39, True)]
    )
    def test_short_ids(self, text: str, short: bool) -> None:
        """Seven hexadecimal characters or more, but not all of them."""
        assert is_short_id(text) is short


REFS = References(
    {
        "refs/heads/main": "0" * 40,
        "refs/heads/9.x": "9" * 40,
        "refs/tags/1.0.0": "1" * 40,
        "refs/tags/v1.2.0": "2" * 40,
        "refs/tags/1.3.0-rc.1": "3" * 40,
        "refs/tags/2024-09-22-test": "4" * 40,
        "refs/tags/shop/v1.0.0": "5" * 40,
        "refs/tags/shop/v1.1.0": "6" * 40,
        "refs/tags/shop/other": "7" * 40,
    }
)


@pytest.mark.parametrize(
    ("wanted", "prefix", "ref"),
    [
        ("1.x", "", "refs/tags/v1.2.0"),
        (">=1.0.0-0", "", "refs/tags/1.3.0-rc.1"),
        ("9.x", "", "refs/heads/9.x"),  # a name that exists wins over a range
        ("1.*", "shop/", "refs/tags/shop/v1.1.0"),
        ("v1.0.0", "shop/", "refs/tags/shop/v1.0.0"),
        ("other", "shop/", "refs/tags/shop/other"),
        ("1.0", "shop/", "refs/tags/shop/v1.0.0"),
    ],
)
def test_versions_among_tags(wanted: str, prefix: str, ref: str) -> None:
    """With a prefix among the tags that have it, without it."""
    assert resolve_version(REFS, wanted, "here", prefix).ref == ref


@pytest.mark.parametrize(
    ("wanted", "prefix", "words", "hint"),
    [
        ("3.x", "", "none of 3 tagged versions is in '3.x'", "the newest tagged version is 1.3.0-rc.1"),
        ("~1.3", "", "none of 3 tagged versions is in '~1.3'", "add -0 to its version"),
        ("1.x", "none/", "none of 0 tagged versions", "versions are tagged like v1.2.3"),
        ("main", "shop/", "'main' is no range of versions", "with tagPrefix"),
        ("HEAD", "shop/", "'HEAD' is no range of versions", "with tagPrefix"),
    ],
)
def test_versions_that_are_not_there(wanted: str, prefix: str, words: str, hint: str) -> None:
    """What is there instead is said."""
    with pytest.raises(RevisionNotFoundError) as raised:
        resolve_version(REFS, wanted, "here", prefix)

    assert words in raised.value.message
    assert hint in raised.value.hint


def test_one_version_tagged_twice() -> None:
    """Of two commits neither is taken; of one commit it doesn't matter."""
    twice = {"refs/tags/1.0.0": "1" * 40, "refs/tags/v1.0.0": "2" * 40}
    with pytest.raises(AmbiguousRevisionError, match=r"refs/tags/1\.0\.0 .* and refs/tags/v1\.0\.0"):
        resolve_version(References(twice), "1.x", "here", "")
    assert resolve_version(References(dict.fromkeys(twice, "1" * 40)), "1.x", "here", "").commit == "1" * 40


async def test_a_source_says_its_prefix(repository: Repository, sources: Sources) -> None:
    """`tagPrefix`, as Argo CD writes it."""
    repository.commit({"cm.yaml": config_map("one")})
    repository.git("tag", "shop/1.0.0")
    repository.git("push", "-q", "origin", "shop/1.0.0")

    resolved = await sources.resolve(Source(repo_url=repository.url, target_revision="^1", tag_prefix="shop/"), timeout=40)

    assert resolved.ref == "refs/tags/shop/1.0.0"
