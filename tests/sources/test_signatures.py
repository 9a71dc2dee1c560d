"""Signed commits and tags: GnuPG's and OpenSSH's own programs sign, and a revision that isn't signed as it has to be is not read."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from delegate.engine.sources.errors import SignatureError
from delegate.engine.sources.git.signatures import read_answer
from delegate.engine.sources.manifests import Sources
from delegate.engine.sources.renders import Rendered
from delegate.engine.sources.targets import Target
from delegate.model.sources import SignaturePolicy, SignedObject, Source
from tests.sources.repositories import GIT_ENVIRONMENT, Repository, config_map, names
from tests.sources.test_chart_repositories import sources_in, write_document
from tests.tools import require_tool


class GpgKey:
    """A key ring with one key that signs."""

    def __init__(self, home: Path, name: str) -> None:
        self.home = home
        home.chmod(0o700)
        self.run("--quick-generate-key", f"{name} <{name}@example.test>", "ed25519", "sign", "never")
        listed = self.run("--list-keys", "--with-colons")
        self.fingerprint = next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))

    def run(self, *arguments: str, stdin: str = "") -> str:
        command = ["gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "", *arguments]
        environment = {**GIT_ENVIRONMENT, "GNUPGHOME": str(self.home)}
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, input=stdin, timeout=50).stdout

    @property
    def public(self) -> str:
        return self.run("--armor", "--export", self.fingerprint)

    def git(self, repository: Repository, *arguments: str) -> str:
        settings = ["-c", f"user.signingKey={self.fingerprint}", "-c", "gpg.program=gpg"]
        return _git(repository, {"GNUPGHOME": str(self.home)}, *settings, *arguments)


class SshKey:
    def __init__(self, path: Path) -> None:
        self.path = path
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True, timeout=30)
        self.public = path.with_name(f"{path.name}.pub").read_text().strip()

    def git(self, repository: Repository, *arguments: str) -> str:
        return _git(repository, {}, "-c", "gpg.format=ssh", "-c", f"user.signingKey={self.path}", *arguments)


def _git(repository: Repository, environment: dict[str, str], *arguments: str) -> str:
    command = ["git", "-C", str(repository.work), *arguments]
    return subprocess.run(
        command, env={**GIT_ENVIRONMENT, **environment}, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=50
    ).stdout.strip()


@pytest.fixture(scope="module")
def gpg() -> Iterator[tuple[GpgKey, GpgKey]]:
    """Two keys; an agent's socket wants a short path."""
    require_tool("gpg")
    homes = [Path(tempfile.mkdtemp(prefix="gpg-")) for _ in range(2)]
    yield GpgKey(homes[0], "ada"), GpgKey(homes[1], "eve")
    for home in homes:
        end(home)


def end(home: Path) -> None:
    """The agent of a key ring, and the ring."""
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False, timeout=30)
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def ssh(tmp_path: Path) -> SshKey:
    require_tool("ssh-keygen")
    return SshKey(tmp_path / "ada")


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[Sources]:
    made = sources_in(tmp_path)
    yield made
    made.close()


def know(folder: Path, name: str, data: dict[str, str]) -> None:
    write_document(folder, name, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})


async def read(
    sources: Sources, repository: Repository, revision: str = "main", policy: SignaturePolicy | None = None, project: str = ""
) -> Rendered:
    source = Source(repo_url=repository.url, target_revision=revision, verify=policy)
    return await sources.render(source, await sources.resolve(source, timeout=40), timeout=40, target=Target("shop", project=project))


ANY = SignaturePolicy()


async def test_a_commit_signed_by_gnupg(repository: Repository, tmp_path: Path, sources: Sources, gpg: tuple[GpgKey, GpgKey]) -> None:
    """By a key of argocd-gpg-keys-cm: read, and said who signed; by any other, or by nobody: refused."""
    ada, eve = gpg
    know(tmp_path, "argocd-gpg-keys-cm", {ada.fingerprint[-16:]: ada.public})
    repository.commit({"cm.yaml": config_map("one")})
    with pytest.raises(SignatureError, match="is not accepted: it is not signed") as caught:
        await read(sources, repository, policy=ANY)
    assert (caught.value.category, caught.value.retryable) == ("policy", False)

    eve.git(repository, "commit", "-q", "--allow-empty", "-S", "-m", "by eve")
    repository.git("push", "-q", "origin", "HEAD:main")
    with pytest.raises(SignatureError, match="signed by a key that is not known"):
        await read(sources, repository, policy=ANY)

    ada.git(repository, "commit", "-q", "--allow-empty", "-S", "-m", "by ada")
    repository.git("push", "-q", "origin", "HEAD:main")
    rendered = await read(sources, repository, policy=ANY)
    assert names(rendered) == ["one"]
    assert f"commit {rendered.revision[:12]} is signed by {ada.fingerprint}" in rendered.notices


async def test_the_accepted_keys(repository: Repository, tmp_path: Path, sources: Sources, gpg: tuple[GpgKey, GpgKey]) -> None:
    """By fingerprint or its last 16 digits; a known key that is none of them is refused."""
    ada, eve = gpg
    know(tmp_path, "argocd-gpg-keys-cm", {"ada": ada.public, "eve": eve.public})
    repository.commit({"cm.yaml": config_map("one")})
    eve.git(repository, "commit", "-q", "--allow-empty", "-S", "-m", "by eve")
    repository.git("push", "-q", "origin", "HEAD:main")

    for key in (eve.fingerprint, eve.fingerprint[-16:].lower()):
        assert names(await read(sources, repository, policy=SignaturePolicy(keys=(key,)))) == ["one"]
    for key in (ada.fingerprint, eve.fingerprint[-8:]):
        with pytest.raises(SignatureError, match="none of the accepted keys"):
            await read(sources, repository, policy=SignaturePolicy(keys=(key,)))


async def test_a_project_may_want_it(repository: Repository, tmp_path: Path, sources: Sources, gpg: tuple[GpgKey, GpgKey]) -> None:
    """The signatureKeys of an Argo CD AppProject bind every Application of it, whatever that says itself."""
    ada, _ = gpg
    know(tmp_path, "argocd-gpg-keys-cm", {"ada": ada.public})
    project = {"signatureKeys": [{"keyID": ada.fingerprint[-16:]}]}
    write_document(
        tmp_path, "project", {"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "prod"}, "spec": project}
    )
    repository.commit({"cm.yaml": config_map("one")})

    assert names(await read(sources, repository, project="dev")) == ["one"]
    with pytest.raises(SignatureError, match="it is not signed"):
        await read(sources, repository, project="prod")
    ada.git(repository, "commit", "-q", "--allow-empty", "-S", "-m", "by ada")
    repository.git("push", "-q", "origin", "HEAD:main")
    assert names(await read(sources, repository, project="prod")) == ["one"]


async def test_a_revoked_key(repository: Repository, tmp_path: Path, sources: Sources) -> None:
    """Refused, whenever it signed."""
    require_tool("gpg")
    home = Path(tempfile.mkdtemp(prefix="gpg-"))
    try:
        key = GpgKey(home, "old")
        repository.commit({"cm.yaml": config_map("one")})
        key.git(repository, "commit", "-q", "--allow-empty", "-S", "-m", "by old")
        repository.git("push", "-q", "origin", "HEAD:main")
        certificate = home / "openpgp-revocs.d" / f"{key.fingerprint}.rev"
        key.run("--import", stdin=certificate.read_text().replace(":-----BEGIN", "-----BEGIN"))
        know(tmp_path, "argocd-gpg-keys-cm", {"old": key.public})
        with pytest.raises(SignatureError, match="has been revoked"):
            await read(sources, repository, policy=ANY)
    finally:
        end(home)


async def test_a_commit_signed_by_openssh(repository: Repository, tmp_path: Path, sources: Sources, ssh: SshKey) -> None:
    """By a key of delegate-ssh-signers-cm; accepted by its principal or its fingerprint."""
    repository.commit({"cm.yaml": config_map("one")})
    ssh.git(repository, "commit", "-q", "--allow-empty", "-S", "-m", "by ada")
    repository.git("push", "-q", "origin", "HEAD:main")
    know(tmp_path, "delegate-ssh-signers-cm", {"allowed_signers": f"eve@example.test {SshKey(tmp_path / 'eve').public}"})
    with pytest.raises(SignatureError, match="signed by a key that is not known"):
        await read(sources, repository, policy=ANY)

    know(tmp_path, "delegate-ssh-signers-cm", {"allowed_signers": f'ada@example.test namespaces="git" {ssh.public}'})
    rendered = await read(sources, repository, policy=ANY)
    (told,) = [notice for notice in rendered.notices if "is signed by ada@example.test (SHA256:" in notice]
    fingerprint = told.rpartition("(")[2].rstrip(")")
    for key in ("ada@example.test", fingerprint):
        assert names(await read(sources, repository, policy=SignaturePolicy(keys=(key,)))) == ["one"]
    with pytest.raises(SignatureError, match="none of the accepted keys"):
        await read(sources, repository, policy=SignaturePolicy(keys=("eve@example.test",)))


async def test_a_signature_of_something_else(repository: Repository, tmp_path: Path, sources: Sources, ssh: SshKey) -> None:
    """One that was cut out of another commit."""
    know(tmp_path, "delegate-ssh-signers-cm", {"allowed_signers": f"ada@example.test {ssh.public}"})
    repository.commit({"cm.yaml": config_map("one")})
    ssh.git(repository, "commit", "-q", "--allow-empty", "-S", "-m", "by ada")
    text = repository.git("cat-file", "commit", "HEAD") + "\n"
    (tmp_path / "forged").write_text(text.replace("by ada", "by eve"))
    forged = repository.git("hash-object", "-t", "commit", "-w", str(tmp_path / "forged"))
    repository.git("push", "-q", "-f", "origin", f"{forged}:refs/heads/main")

    with pytest.raises(SignatureError, match="not of this content"):
        await read(sources, repository, policy=ANY)


class TestTags:
    @pytest.fixture(autouse=True)
    def _signed(self, repository: Repository, tmp_path: Path, ssh: SshKey) -> None:
        know(tmp_path, "delegate-ssh-signers-cm", {"allowed_signers": f"ada@example.test {ssh.public}"})
        repository.commit({"cm.yaml": config_map("one")})
        ssh.git(repository, "tag", "-s", "-m", "release", "v1.0.0")
        repository.git("tag", "-a", "-m", "unsigned", "v1.1.0")
        repository.git("tag", "light")
        repository.git("push", "-q", "origin", "--tags")

    async def test_a_signed_tag_is_enough(self, repository: Repository, sources: Sources) -> None:
        """Also where the mirror has had its commit for long, by a branch."""
        await read(sources, repository, "main")
        rendered = await read(sources, repository, "v1.0.0", ANY)
        assert [notice for notice in rendered.notices if notice.startswith("tag v1.0.0 is signed by ada@example.test")]
        assert names(await read(sources, repository, "v1.0.*", SignaturePolicy(of=SignedObject.TAG))) == ["one"]

    @pytest.mark.parametrize(
        ("revision", "of", "words"),
        [
            ("v1.1.0", SignedObject.EITHER, "tag v1.1.0 is not accepted: it is not signed"),
            ("v1.0.0", SignedObject.COMMIT, r"commit \w+ is not accepted: it is not signed"),
            ("v1.0.0", SignedObject.BOTH, r"commit \w+ is not accepted: it is not signed"),
            ("light", SignedObject.TAG, "no annotated tag led to it"),
            ("main", SignedObject.TAG, "no annotated tag led to it"),
        ],
    )
    async def test_what_is_not_enough(self, revision: str, of: SignedObject, words: str, repository: Repository, sources: Sources) -> None:
        """An unsigned tag, a tag where the commit is wanted, anything else where a tag is."""
        with pytest.raises(SignatureError, match=words):
            await read(sources, repository, revision, SignaturePolicy(of=of))

    async def test_a_tag_under_another_name(self, repository: Repository, sources: Sources) -> None:
        """Somebody's signed v1.0.0 is no v9.0.0, whatever ref it is put under."""
        repository.git("push", "-q", "origin", "refs/tags/v1.0.0:refs/tags/v9.0.0")
        with pytest.raises(SignatureError, match=r"was made as v1\.0\.0"):
            await read(sources, repository, "v9.0.0", ANY)


def test_words_that_only_look_like_a_signature() -> None:
    """Two of them, or one beside a bad one, are none."""
    good = "[GNUPG:] GOODSIG 1234 ada\n[GNUPG:] VALIDSIG AAAA 2026 0 0 0 0 0 0 0 BBBB\n"
    assert str(read_answer(good)[0]) == "BBBB"
    assert read_answer(good * 2)[0] is None
    assert read_answer(good + "[GNUPG:] BADSIG 1234 eve\n") == (None, "its signature is not of this content")
    assert read_answer("") == (None, "")


def test_no_agent_of_ours_is_left() -> None:
    """The checks start no daemon: their key rings are gone, and who would serve them with it."""
    left = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes()
        except OSError:
            continue
        if b"gpg-agent" in words and b"/tmp/tmp" in words:
            left.append(words)
    assert not left
