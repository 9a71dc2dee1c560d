"""Repositories that are read by SSH for a user whom no passwd file knows, as some clusters choose them."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.clusters import Bench
from tests.cli.containers import UID, container, inside
from tests.cli.programs import Ended
from tests.sources.repositories import Repository, config_map
from tests.sources.test_chart_repositories import write_document, write_secret
from tests.sources.test_git_access import SshDaemon, sshd
from tests.sources.test_signatures import SshKey
from tests.tools import require_tool


@pytest.fixture
def origin(place: Path) -> Repository:
    """With a commit that is signed by a key of OpenSSH."""
    require_tool("ssh-keygen")
    made, key = Repository(place), SshKey(place / "ada")
    made.commit({"cm.yaml": config_map("one")})
    key.git(made, "commit", "-q", "--allow-empty", "-S", "-m", "signed")
    made.git("push", "-q", "origin", "HEAD:main")
    signers = {"allowed_signers": f"ada@example.test {key.public}"}
    write_document(
        place, "signers", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "delegate-ssh-signers-cm"}, "data": signers}
    )
    return made


async def diff(place: Path, bench: Bench, server: SshDaemon, origin: Repository) -> Ended:
    """`delegate exec` of a diff whose source has to be signed, in such a container."""
    source = {"repoURL": server.url(origin), "targetRevision": "main", "verify": {"of": "commit"}}
    task = {"kind": "diff", "application": "shop", "destination": {"namespace": "default"}, "spec": {"source": source}}
    (place / "task.json").write_text(json.dumps(task))
    (place / "kubeconfig").write_bytes(bench.kubeconfig.read_bytes())
    write_secret(place, "one", url=server.url(origin), sshPrivateKey=server.key)
    server.know(place)
    for file in (place / "repositories").iterdir():
        file.chmod(0o644)
    places = {name: str(place / "writable" / name.lower()) for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")}
    given = places | {"DELEGATE_REPOSITORIES_DIR": str(place / "repositories")}
    command = inside(given, "exec", str(place / "task.json"), "--kubeconfig", str(place / "kubeconfig"), "-o", "json")

    def run() -> Ended:
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, env=container(place, read_only=True), check=False)
        return Ended(done.returncode, done.stdout, done.stderr)

    return await asyncio.to_thread(run)


async def test_ssh_has_a_user(place: Path, bench: Bench, origin: Repository) -> None:
    """Case 33: a repository is cloned over SSH, and the signature of its commit checked by ssh-keygen."""
    async with sshd(place) as server:
        ended = await diff(place, bench, server, origin)

    assert ended.code == 1, ended.stdout + ended.stderr  # there is a difference
    (made,) = ended.document["resources"]
    assert (made["name"], made["action"]) == ("one", "created")
    (passwd,) = (place / "writable").rglob("passwd")
    assert passwd.stat().st_uid == UID
    assert passwd.stat().st_mode & 0o777 == 0o600
