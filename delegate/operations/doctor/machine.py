"""The machine, or the container: who we are there, what may be written, how much disk, memory and processor there is, and the programs."""

import asyncio
import os
import platform
import pwd
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from delegate.foundation.passwd import INSTALL, find_wrapper
from delegate.foundation.settings.programs import DelegateSettings
from delegate.operations.doctor.findings import Area, Finding, Status

_LEAST_DISK_BYTES, _LITTLE_DISK_BYTES = 64 * 2**20, 2**30
_LEAST_MEMORY_BYTES = 256 * 2**20
_PROGRAM_SECONDS = 10.0
_LEAST_GIT = (2, 30)


async def check_user() -> list[Finding]:
    """Any uid will do, also one without a passwd entry or a home."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        name, given = pwd.getpwuid(uid).pw_name, ""
    except KeyError:
        name, given = "", find_wrapper()
    home = os.environ.get("HOME", "")
    words = f"runs as uid {uid} ({name or 'without a passwd entry'}), gid {gid}, HOME {home or 'unset'}"
    if not name:
        words += f"; ssh has an entry by {given}" if given else "; ssh refuses to work without one"
    facts: dict[str, str | int | float | bool | list[str] | None] = {"uid": uid, "gid": gid, "user": name, "home": home}
    if uid == 0:
        hint = "run it as any other user: it needs no privilege"
        return [Finding(check="user", area=Area.MACHINE, status=Status.WARNING, what=f"{words}: root", hint=hint, facts=facts)]
    if not name and not given:
        hint = f"for repositories that are read by SSH, and signatures of SSH keys: {INSTALL}"
        return [Finding(check="user", area=Area.MACHINE, status=Status.WARNING, what=words, hint=hint, facts=facts)]
    return [Finding(check="user", area=Area.MACHINE, status=Status.OK, what=words, facts=facts)]


async def check_directories(settings: DelegateSettings) -> list[Finding]:
    """Each directory that is written: whether it may be, by trying it; and the disk under it."""
    wanted = {
        "DELEGATE_STATE_DIR": settings.identity.state_dir,
        "DELEGATE_CERT_DIR": settings.identity.cert_dir,
        "DELEGATE_DLQ_DIR": settings.dead_letters.directory,
    }
    found = await asyncio.gather(*(asyncio.to_thread(_examine_directory, name, path) for name, path in wanted.items()))
    return [*found, await asyncio.to_thread(_examine_temporary), _examine_root()]


def _examine_directory(setting: str, path: Path) -> Finding:
    def finding(status: Status, what: str, hint: str = "", **facts: str | int | float | bool | list[str] | None) -> Finding:
        return Finding(check=f"directory {setting}", area=Area.STORAGE, status=status, what=what, where=str(path), hint=hint, facts=facts)

    # What lies in a directory that may not be entered counts as absent, and that one is told.
    there = next((each for each in (path, *path.parents) if os.path.exists(each)), Path("/"))
    try:
        _try_writing(there)
    except OSError as error:
        owner = _describe_owner(there)
        hint = (
            f"mount a volume that uid {os.geteuid()} or group {os.getegid()} may write to (fsGroup in a pod), or set {setting} to another"
        )
        if error.errno == 30:  # EROFS
            hint = (
                f"the file system is read-only: mount a writable volume there (an emptyDir), or set {setting} to a place that is writable"
            )
        return finding(Status.FAILED, f"can't be written to: {error.strerror}{owner}", hint)
    free = shutil.disk_usage(there).free
    made = "" if there == path else " (it will be made)"
    words = f"may be written{made}; {free / 2**30:.1f} GiB free"
    if free < _LEAST_DISK_BYTES:
        return finding(Status.FAILED, words, "free some: results and dead letters are kept there", free_bytes=free)
    if free < _LITTLE_DISK_BYTES:
        return finding(Status.WARNING, words, "caches of Git and charts grow; leave a GiB", free_bytes=free)
    return finding(Status.OK, words, free_bytes=free)


def _describe_owner(path: Path) -> str:
    try:
        facts = path.stat()
    except OSError:
        return ""
    mode = f"{facts.st_mode & 0o7777:04o}"
    return f"; {path} belongs to {facts.st_uid}:{facts.st_gid}, mode {mode}, and this runs as {os.geteuid()}:{os.getegid()}"


def _try_writing(directory: Path) -> None:
    probe = directory / f".delegate-doctor-{uuid.uuid4().hex}"
    descriptor = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, b"x" * 4096)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
        probe.unlink()


def _examine_temporary() -> Finding:
    place = Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - looked at alone
    try:
        _try_writing(place)
    except OSError as error:
        return Finding(
            check="directory TMPDIR",
            area=Area.STORAGE,
            status=Status.WARNING,
            what=f"can't be written to: {error.strerror}",
            where=str(place),
            hint="the daemon takes a directory in DELEGATE_STATE_DIR instead, for credential plugins too; TMPDIR names another one",
        )
    return Finding(check="directory TMPDIR", area=Area.STORAGE, status=Status.OK, what="may be written", where=str(place))


def _examine_root() -> Finding:
    read_only = bool(os.statvfs("/").f_flag & os.ST_RDONLY)
    words = "is read-only, as it should be in a container" if read_only else "is writable; a container may have it read-only"
    return Finding(check="root file system", area=Area.STORAGE, status=Status.OK, what=words, where="/", facts={"read_only": read_only})


async def check_limits() -> list[Finding]:
    """What the cgroup allows (versions 1 and 2), and how much of it is used."""
    memory, used = (
        _cgroup_number("memory.max", "memory/memory.limit_in_bytes"),
        _cgroup_number("memory.current", "memory/memory.usage_in_bytes"),
    )
    processes = _cgroup_number("pids.max", "pids/pids.max")
    processors = _processors()
    facts: dict[str, str | int | float | bool | list[str] | None] = {
        "memory_bytes": memory,
        "memory_used_bytes": used,
        "processors": processors,
        "pids": processes,
    }
    shown = [
        f"memory {memory / 2**20:.0f} MiB" if memory else "memory without a limit",
        f"{processors:g} processors",
        f"{processes} processes" if processes else "processes without a limit",
    ]
    hint = ""
    if memory and memory < _LEAST_MEMORY_BYTES:
        hint = "give it 256 MiB at least: rendering charts runs in child processes that count too"
    elif processors < 0.1:
        hint = "give it a tenth of a processor at least: throttled heartbeats lose leases"
    elif processes and processes < 64:
        hint = "allow 64 processes at least: threads count too"
    status = Status.WARNING if hint else Status.OK
    return [
        Finding(check="limits", area=Area.MACHINE, status=status, what=", ".join(shown), where="/sys/fs/cgroup", hint=hint, facts=facts)
    ]


def _cgroup_number(second: str, first: str) -> int | None:
    for path in (Path("/sys/fs/cgroup") / second, Path("/sys/fs/cgroup") / first):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < 2**60:
            return int(text)
    return None


def _processors() -> float:
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            return round(int(quota) / int(period), 2)
    except (OSError, ValueError):
        pass
    return float(len(os.sched_getaffinity(0)))


async def check_programs(settings: DelegateSettings, environment: Mapping[str, str]) -> list[Finding]:
    """git has to be there; helm and kubectl for sources that need them."""
    git, helm, kubectl = await asyncio.gather(
        _ask(["git", "--version"], environment),
        _ask([settings.sources.helm, "version", "--short"], environment),
        _ask([settings.sources.kubectl, "version", "--client"], environment),
    )
    found = [_judge_git(*git)]
    for name, (path, words), setting in (("helm", helm, "DELEGATE_HELM"), ("kubectl", kubectl, "DELEGATE_KUBECTL")):
        if path:
            found.append(_program(name, Status.OK, words, path))
        else:
            hint = f"install it, or set {setting}, where Applications are rendered with it"
            found.append(_program(name, Status.WARNING, words, name, hint))
    python = platform.python_version()
    found.append(Finding(check="python", area=Area.MACHINE, status=Status.OK, what=f"Python {python}", facts={"version": python}))
    return found


def _judge_git(path: str, words: str) -> Finding:
    if not path:
        return _program("git", Status.FAILED, words, "git", "install git: every Git source is read with it")
    parts = words.removeprefix("git version ").split(".")
    version = tuple(int(part) for part in parts[:2] if part.isdigit())
    if len(version) == 2 and version < _LEAST_GIT:
        return _program("git", Status.WARNING, words, path, "use 2.30 or later")
    return _program("git", Status.OK, words, path)


def _program(name: str, status: Status, what: str, where: str, hint: str = "") -> Finding:
    return Finding(check=name, area=Area.TOOLS, status=status, what=what, where=where, hint=hint)


async def _ask(command: Sequence[str], environment: Mapping[str, str]) -> tuple[str, str]:
    """Path and version of a program; no path where it isn't there or doesn't run."""
    path = shutil.which(command[0], path=environment.get("PATH", os.defpath))
    if path is None:
        return "", f"{command[0]} is not installed"
    try:
        answer = await asyncio.to_thread(_run, [path, *command[1:]])
    except (OSError, subprocess.SubprocessError) as error:
        return "", f"{path} does not run: {type(error).__name__}"
    return path, answer or "no version said"


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, timeout=_PROGRAM_SECONDS, check=True, stdin=subprocess.DEVNULL)
    return done.stdout.decode(errors="replace").strip().partition("\n")[0][:200]
