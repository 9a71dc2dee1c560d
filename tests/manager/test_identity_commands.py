"""Operators' commands about whom a manager believes, against a real one."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from delegate.manager.service import Manager
from tests.manager.accounts import ACCOUNT, ISSUER, SigningKey, key_set
from tests.manager.delegates import Caller, FakeDelegate, RefusedCallError
from tests.manager.presenting import Asked
from tests.manager.test_commands import Terminal

KEY = SigningKey()


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[Manager]:
    async with Manager(state_dir=tmp_path / "state") as manager:
        yield manager


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def terminal(tmp_path: Path, manager: Manager) -> Terminal:
    (tmp_path / "keys.json").write_text(json.dumps(key_set(KEY)))
    return Terminal(tmp_path, manager.url, manager.admin_token)


async def document(terminal: Terminal, *arguments: str) -> Any:
    ended = await terminal.run(*arguments, "-o", "json")
    assert ended.code == 0, ended.err
    return ended.document


async def test_a_cluster_s_keys_from_registration_to_the_end_of_the_trust(
    terminal: Terminal, manager: Manager, http: aiohttp.ClientSession
) -> None:
    """Its service account enrols; the list counts it; once forgotten, neither that delegate nor the next pod gets in."""
    arguments = ("--keys", "keys.json", "--service-account", ACCOUNT, "--labels", "env=prod")
    registered = await terminal.run("manager", "cluster-keys", "register", "prod", *arguments)
    assert (registered.code, registered.out) == (0, f"{ACCOUNT} of cluster prod may enrol with tokens of {ISSUER}\n")
    delegate = await FakeDelegate(Caller(http, manager.url)).start(KEY.token())

    listed = await terminal.run("manager", "cluster-keys", "list")
    assert listed.out.splitlines()[1].split()[:5] == ["prod", ACCOUNT, "GITOPS", "env=prod", "1"]
    assert (await document(terminal, "manager", "cluster-keys", "forget", "prod"))["cluster"] == "prod"
    with pytest.raises(RefusedCallError, match="revoked"):
        await delegate.acquire(1, wait_seconds=0.0)
    with pytest.raises(RefusedCallError, match="not trusted any more"):
        await FakeDelegate(Caller(http, manager.url)).start(KEY.token(pod="pod-2"))
    empty = await terminal.run("manager", "cluster-keys", "list")
    assert "no cluster's keys are registered" in empty.out


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "no JSON Web Key Set"), ("[]", "no JSON Web Key Set"), ('{"keys": []}', "no JSON Web Key Set"), (None, "can't be read")],
    ids=["empty", "no object", "no keys", "no file"],
)
async def test_a_file_that_holds_no_keys_is_wrong_input(terminal: Terminal, tmp_path: Path, content: str | None, words: str) -> None:
    """2, with the command that prints them."""
    if content is not None:
        (tmp_path / "wrong.json").write_text(content)

    ended = await terminal.run("manager", "cluster-keys", "register", "prod", "--keys", "wrong.json")

    assert ended.code == 2
    assert words in ended.err
    assert "/openid/v1/jwks" in ended.err or content is None


async def test_a_certificate_is_listed_and_revoked(terminal: Terminal, manager: Manager, http: aiohttp.ClientSession) -> None:
    """By serial; the delegate may still enrol again, until it is revoked itself."""
    token = (await document(terminal, "token", "create", "--name", "edge", "--scope", "GITOPS"))["secret"]
    fresh = FakeDelegate(Caller(http, manager.url), "edge-1")
    await fresh.enrol(token, Asked().csr)
    (certificate,) = (await document(terminal, "manager", "certificates", "list"))["items"]
    assert certificate["delegate"] == fresh.delegate_id

    revoked = await terminal.run("manager", "certificates", "revoke", "--serial", certificate["serial"], "--reason", "laptop lost")

    assert (revoked.code, revoked.out) == (0, f"serial {certificate['serial']} is revoked\n")
    shown = await terminal.run("manager", "certificates", "list", "--delegate", fresh.delegate_id)
    assert shown.out.splitlines()[1].split()[:3] == [certificate["serial"], "revoked", fresh.delegate_id]
    listed = await terminal.run("manager", "certificates", "revocations")
    assert "laptop lost" in listed.out
    ended = await terminal.run("delegates", "revoke", "edge-1")
    assert (ended.code, ended.out) == (0, f"delegate edge-1 ({fresh.delegate_id}) is revoked\n")
    with pytest.raises(RefusedCallError, match="was revoked"):
        await fresh.enrol(token, Asked().csr)


@pytest.mark.parametrize("options", [(), ("--serial", "1", "--key", "2")], ids=["none", "two"])
async def test_a_revocation_names_exactly_one_thing(terminal: Terminal, options: tuple[str, ...]) -> None:
    """2; nothing was revoked."""
    ended = await terminal.run("manager", "certificates", "revoke", *options)
    assert ended.code == 2
    assert "exactly one of --serial, --key and --certificate" in ended.err


async def test_the_next_authority_is_announced(terminal: Terminal) -> None:
    """It is listed beside the one that signs, with the time from which on it does."""
    assert [each["state"] for each in (await document(terminal, "manager", "authorities", "list"))["items"]] == ["signing"]

    announced = await terminal.run("manager", "authorities", "announce", "--signs-after", "24h")

    assert announced.code == 0
    assert sorted(line.split()[0] for line in announced.out.splitlines()[1:]) == ["announced", "signing"]
    wrong = await terminal.run("manager", "authorities", "announce", "--signs-after", "soon")
    assert (wrong.code, "--signs-after" in wrong.err) == (2, True)
