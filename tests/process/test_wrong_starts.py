"""Whatever is wrong at the start is named with its remedy, and nothing is done by halves."""

import asyncio
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from tests.daemon.harness import running_manager
from tests.fakes.scripted_manager import LOGIN_PAGE, raw, scripted_manager
from tests.process.harness import ROOT, Child, child_delegate, delegate_variables, plain_delegate


async def expect_refusal(child: Child, *words: str) -> None:
    """It ends with 2, and the words are in what it said."""
    assert await child.ended() == 2, child.text()
    text = child.text()
    assert "error:" in text
    assert "hint:" in text
    for word in words:
        assert word in text, text


async def test_a_wrong_token_is_named_and_ends_with_2(tmp_path: Path) -> None:
    """The error names the setting and how to get a token; the token itself is nowhere."""
    async with running_manager(tmp_path) as operator:
        token = "dgt_" + "wrong" * 8
        async with plain_delegate(tmp_path, **delegate_variables(operator.manager.url, token, tmp_path / "state")) as child:
            await expect_refusal(child, "DELEGATE_TOKEN", "delegate token create")
            assert token not in child.text()
        assert await operator.delegates() == []


async def test_a_token_with_another_scope_is_named(tmp_path: Path) -> None:
    """Which scope is missing is said."""
    async with running_manager(tmp_path) as operator:
        admin = operator.manager.admin_token
        async with plain_delegate(tmp_path, **delegate_variables(operator.manager.url, admin, tmp_path / "state")) as child:
            await expect_refusal(child, "GITOPS")


async def test_no_token_at_all_is_named(tmp_path: Path) -> None:
    """Before anything is connected."""
    async with plain_delegate(tmp_path, **delegate_variables("http://127.0.0.1:9", "", tmp_path / "state")) as child:
        await expect_refusal(child, "DELEGATE_TOKEN is not set", "delegate token create")


async def test_a_manager_that_is_down_is_waited_for(tmp_path: Path) -> None:
    """The log names the address and what to check; when the manager comes, the delegate is there; SIGTERM ends it with 0."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    async with running_manager(tmp_path, listen=f"127.0.0.1:{port}") as operator:
        token = await operator.token()
    async with plain_delegate(tmp_path, **delegate_variables(f"http://127.0.0.1:{port}", token, tmp_path / "state")) as child:
        failure = await child.logged("connection.failed")
        assert f"nothing answers at 127.0.0.1:{port}" in failure["error"]
        assert "check that the manager runs" in failure["hint"]
        async with running_manager(tmp_path, listen=f"127.0.0.1:{port}") as operator:
            await child.logged("session.opened")
            child.signal(signal.SIGTERM)
            assert await child.ended() == 0


async def test_a_manager_that_never_comes_does_not_hold_the_stop_up(tmp_path: Path) -> None:
    """SIGTERM before registration ends the process at once, with 0."""
    async with plain_delegate(tmp_path, **delegate_variables("http://127.0.0.1:9", "dgt_x", tmp_path / "state")) as child:
        await child.logged("connection.failed")
        child.signal(signal.SIGTERM)
        assert await child.ended(within=10.0) == 0


@asynccontextmanager
async def serving_tls(authority: trustme.CA, name: str) -> AsyncIterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.mark.parametrize("trusted", [True, False], ids=["another name", "another authority"])
async def test_a_certificate_that_proves_nothing_ends_with_2(tmp_path: Path, trusted: bool) -> None:
    """The name, or the missing authority, is told with the remedy."""
    authority = trustme.CA()
    (authority if trusted else trustme.CA()).cert_pem.write_to_path(tmp_path / "ca.pem")
    async with serving_tls(authority, "manager.example") as url:
        variables = delegate_variables(url, "dgt_x", tmp_path / "state", SSL_CERT_FILE=str(tmp_path / "ca.pem"))
        async with plain_delegate(tmp_path, **variables) as child:
            words = ("not for the name 127.0.0.1", "DELEGATE_MANAGER_URL") if trusted else ("nobody trusted here", "SSL_CERT_FILE")
            await expect_refusal(child, *words)


async def test_a_port_that_answers_html_is_told_and_tried_again(tmp_path: Path) -> None:
    """Case 36: a login page is no manager; who answered is in the log, and the delegate tries on until it is gone."""
    async with scripted_manager() as manager:
        for route in ("enroll", "session"):
            manager.always[f"/api/delegate/v1/{route}"] = raw(200, LOGIN_PAGE, Content_Type="text/html", Via="1.1 portal")
        async with plain_delegate(tmp_path, **delegate_variables(manager.url, "dgt_x", tmp_path / "state")) as child:
            failure = await child.logged("connection.failed")
            assert (failure["status"], failure["content_type"], failure["via"]) == (200, "text/html", "1.1 portal")
            assert "Sign in" in failure["preview"]
            assert "something between" in failure["hint"]

            manager.always.clear()

            await child.logged("session.opened")
            child.signal(signal.SIGTERM)
            assert await child.ended() == 0
            assert len(child.logs("connection.failed")) == 1


@asynccontextmanager
async def small_disk(directory: Path, options: str) -> AsyncIterator[Path]:
    """A file system of its own; skips where this user may not mount one."""
    mounted = await asyncio.to_thread(mount, directory, options)
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield directory
    finally:
        await asyncio.to_thread(unmount, directory)


async def test_a_full_disk_at_the_start_ends_with_2(tmp_path: Path) -> None:
    """The directory and the remedy are named."""
    async with small_disk(tmp_path / "state", "size=64k") as state:
        fill(state)
        async with plain_delegate(tmp_path, **delegate_variables("http://127.0.0.1:9", "dgt_x", state)) as child:
            await expect_refusal(child, str(state), "No space left on device", "free some space")


async def test_a_read_only_directory_ends_with_2(tmp_path: Path) -> None:
    """The directory and the remedy are named."""
    state = tmp_path / "state"
    variables = delegate_variables("http://127.0.0.1:9", "dgt_x", state)
    async with small_disk(state, "ro"), plain_delegate(tmp_path, **variables) as child:
        await expect_refusal(child, str(state), "Read-only file system", "DELEGATE_STATE_DIR")


async def test_a_directory_of_dead_letters_that_can_not_be_used_ends_with_2(tmp_path: Path) -> None:
    """The directory and its own setting are named, and no identity was counted up."""
    (tmp_path / "dlq").write_text("")
    variables = delegate_variables("http://127.0.0.1:9", "dgt_x", tmp_path / "state", DELEGATE_DLQ_DIR=str(tmp_path / "dlq"))
    async with plain_delegate(tmp_path, **variables) as child:
        await expect_refusal(child, f"the dead-letter spool {tmp_path / 'dlq'}", "DELEGATE_DLQ_DIR")
        assert list((tmp_path / "state").iterdir()) == []


async def test_a_disk_that_fills_up_later_loses_nothing(tmp_path: Path) -> None:
    """A running delegate goes on sending what it has, says why it takes no more, and recovers when there is room."""
    async with small_disk(tmp_path / "state", "size=256k") as state, running_manager(tmp_path) as operator:
        token = await operator.token()
        async with child_delegate(tmp_path, operator.manager.url, token, name="state") as child:
            await operator.finished(await operator.submit("quick"))
            fill(state)
            task = await operator.submit("big")
            failure = await child.logged("outbox.unwritable")
            assert str(state) in failure["error"]
            assert "free some space" in failure["hint"]

            (state / "filler").unlink()

            shown = await operator.finished(task)
            assert shown["task"]["outcome"] == "succeeded"
            await child.logged("outbox.writable_again")


def mount(directory: Path, options: str) -> "subprocess.CompletedProcess[bytes]":
    directory.mkdir()
    return subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], capture_output=True, check=False)


def unmount(directory: Path) -> None:
    subprocess.run(["umount", "-l", directory], check=True)


def ask_probe(port: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "delegate", "probe", "readyz", "--http-port", port]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def fill(directory: Path) -> None:
    with (directory / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            return


async def test_a_port_in_use_ends_with_2(tmp_path: Path) -> None:
    """The port and the setting are named."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        variables = delegate_variables("http://127.0.0.1:9", "dgt_x", tmp_path / "state", DELEGATE_HTTP_PORT=str(taken.getsockname()[1]))
        async with plain_delegate(tmp_path, **variables) as child:
            await expect_refusal(child, str(taken.getsockname()[1]), "DELEGATE_HTTP_PORT")


async def test_probes_answer_before_the_manager_does(tmp_path: Path) -> None:
    """A delegate that waits for its manager is healthy and not ready, with the reason."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = str(reserved.getsockname()[1])
    async with plain_delegate(
        tmp_path, **delegate_variables("http://127.0.0.1:9", "dgt_x", tmp_path / "state", DELEGATE_HTTP_PORT=port)
    ) as child:
        await child.logged("connection.failed")
        answered = await asyncio.to_thread(ask_probe, port)
        assert answered.returncode == 1
        assert "nothing answers at 127.0.0.1:9" in answered.stdout
        assert child.process.returncode is None
