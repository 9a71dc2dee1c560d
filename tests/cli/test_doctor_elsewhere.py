"""The doctor and the daemon in containers: as a user that nobody knows, and on a file system that is read-only."""

import asyncio
import contextlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import trustme

from tests.cli.clusters import Bench
from tests.cli.containers import UID, container, inside
from tests.cli.programs import Ended
from tests.daemon.harness import running_manager
from tests.daemon.networks.servers import program
from tests.process.harness import delegate_variables


def examine(place: Path, *, read_only: bool = False, **variables: str) -> Ended:
    """What the doctor says to uid 1000710000 of group 0, without a home and without a passwd entry."""
    command = inside(variables, "doctor", "--idle=0s")
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, env=container(place, read_only=read_only), check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


def test_a_user_without_passwd_entry_or_home_is_no_fault(place: Path) -> None:
    """Case 33: it is told who runs, and a directory of another's with owner, mode and the group that is needed."""
    (place / "locked").mkdir(mode=0o700)

    ended = examine(place, DELEGATE_STATE_DIR=str(place / "locked"), DELEGATE_DLQ_DIR=str(place / "writable" / "letters"))

    assert f"runs as uid {UID} (without a passwd entry), gid 0, HOME unset" in ended.stdout
    (line,) = [each for each in ended.stdout.splitlines() if "directory DELEGATE_STATE_DIR" in each]
    assert "belongs to 0:0, mode 0700" in line
    assert f"uid {UID} or group 0 may write" in ended.stdout
    assert "ok    directory DELEGATE_DLQ_DIR" in ended.stdout
    assert ended.code == 13 or "FAIL  manager" in ended.stdout


def test_a_read_only_file_system_with_one_writable_volume_is_enough(place: Path) -> None:
    """Case 32: not even /tmp; what needs writing lies on the volume, and what does not is named with what to mount."""
    ended = examine(
        place,
        read_only=True,
        DELEGATE_STATE_DIR=str(place / "writable" / "state"),
        DELEGATE_DLQ_DIR="/var/log/dlq",
        SSL_CERT_FILE="/etc/ssl/certs/ca-certificates.crt",
    )

    assert "ok    directory DELEGATE_STATE_DIR" in ended.stdout
    assert "FAIL  directory DELEGATE_DLQ_DIR: can't be written to: Read-only file system" in ended.stdout
    assert "mount a writable volume there (an emptyDir)" in ended.stdout
    assert "root file system: is read-only" in ended.stdout


async def test_a_daemon_needs_the_one_volume_and_no_other(place: Path, tmp_path: Path, bench: Bench) -> None:
    """Cases 32 and 33: a user that nobody knows, no home, no /tmp: it enrols and finds its cluster; temporary files stay in its place."""
    state, kubeconfig = place / "writable" / "state", place / "kubeconfig"
    kubeconfig.write_bytes(bench.kubeconfig.read_bytes())
    async with running_manager(tmp_path) as operator:
        given = delegate_variables(operator.manager.url, await operator.token(), state, DELEGATE_KUBECONFIG=str(kubeconfig))
        environment = container(place, read_only=True)
        process = await asyncio.create_subprocess_exec(
            *inside(given, "run"), env=environment, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        try:
            assert process.stderr is not None
            async with asyncio.timeout(30.0):
                said = b""
                while b"clusters.found" not in said:
                    line = await process.stderr.readline()
                    assert line, said.decode()
                    said += line
                process.terminate()
                said += await process.stderr.read()
            assert await process.wait() == 0, said.decode()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    assert stat.S_IMODE((state / "tmp").stat().st_mode) == stat.S_IMODE(state.stat().st_mode) == 0o700


def test_a_volume_over_the_systems_authorities_is_told(place: Path) -> None:
    """A certificate directory mounted at /etc/ssl/certs hides all public authorities: it is named, with what to do instead."""
    script = 'mount -t tmpfs none /etc/ssl/certs && cp "$PLACE/ca.crt" /etc/ssl/certs/ && exec "$@"'
    trustme.CA().cert_pem.write_to_path(place / "ca.crt")
    command = [
        program("unshare", "util-linux"),
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        sys.executable,
        "-m",
        "delegate",
        "doctor",
        "--idle=0s",
    ]
    variables = {"DELEGATE_STATE_DIR": str(place / "writable"), "DELEGATE_DLQ_DIR": str(place / "writable")}

    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(place), "PLACE": str(place), **variables},
    )

    lines = done.stdout.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("WARN  system authorities")]
    assert "/etc/ssl/certs is mounted over the system's authorities" in lines[at]
    assert "point SSL_CERT_FILE to it" in lines[at + 1]
