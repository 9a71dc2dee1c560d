"""Shuts itself in, then becomes another program: `launcher.py JSON PROGRAM ARGUMENT...`, run by an isolated interpreter.

Only the standard library is used, because nothing else is on its path, and everything is done once the process is alone:
what an interpreter with threads does between fork and exec is not safe. On Linux:

- resource limits (setrlimit(2)): memory by RLIMIT_DATA, which counts what is written to and not what is only reserved, and by a
  wide RLIMIT_AS; processor time, size of files, open files, no core dumps; first choice of the kernel when memory runs out;
- no capabilities, also for root (capabilities(7), secure bits);
- no_new_privs, and a seccomp(2) filter that refuses sockets, new processes (not threads), tracing and signalling others,
  namespaces, mounts, io_uring;
- with a hatch (see `hatches`): sockets are handed in from outside, connected already, and connect(2) does nothing;
- a Landlock ruleset (where the kernel has it): nothing can be opened but the paths that were named.

What can't be set up ends it with EXIT_CODE and a line on standard error that begins with MARKER, but for Landlock, which
older kernels lack. On systems other than Linux only the resource limits hold.
"""

import ctypes
import json
import os
import resource
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

EXIT_CODE = 125
MARKER = "jail: "

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_PR_SET_SECUREBITS, _NO_ROOT, _CAPABILITY_VERSION = 28, 0x2F, 0x20080522
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_VERSION = 1
_LANDLOCK_PATH_BENEATH = 1
_FS_EXECUTE, _FS_WRITE_FILE, _FS_READ_FILE, _FS_READ_DIR = 1, 2, 4, 8
_FS_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_FS_RIGHTS_NEWEST = (1 << 16) - 1
_FS_OF_FILES = _FS_EXECUTE | _FS_WRITE_FILE | _FS_READ_FILE | (1 << 14)

_LOAD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ASK, _FAIL, _KILL = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000
_NEW_LISTENER = 8
_SOL_SOCKET, _SCM_RIGHTS = 1, 1
_EPERM, _ENOSYS = 1, 38
_CLONE_THREAD = 0x00010000
_ARGUMENT_0 = 16
"""Where the filter finds a call's first argument, its lower half (linux/seccomp.h)."""

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The column of the tables below, and what the kernel calls the architecture (linux/audit.h)."""
_REFUSED = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "fork": (57, None),
    "vfork": (58, None),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kill": (62, 129),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "setns": (308, 268),
    "unshare": (272, 97),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
}
_SOCKET = "socket"
_REFUSED_WITH_HATCH = {
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
}
"""What could reach somebody without connecting."""
_CONNECT, _SECCOMP = (42, 203), (317, 277)
_ABOUT_OURSELVES = {"tgkill": (234, 131), "prlimit64": (302, 261)}
"""A runtime signals its own threads and reads its own limits."""
_CLONE, _CLONE3 = (56, 220), (435, 435)
_X32_BIT = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)


def main(settings: dict[str, object], command: list[str]) -> None:
    """Never returns."""
    limit(settings)
    if sys.platform == "linux":
        drop_capabilities()
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            fail("no_new_privs", ctypes.get_errno())
        hatch = settings.get("hatch")
        channel = channel_of(int(str(hatch))) if hatch is not None else None
        restrict_paths(list(settings["reads"]), list(settings["writes"]))  # type: ignore[call-overload]  # lists of paths, by contract
        if channel is not None:
            open_hatch(channel)
        filter_calls(has_hatch=channel is not None)
    os.execve(command[0], command, dict(os.environ))  # noqa: S606 - becoming another program is what this one is for


def limit(settings: dict[str, object]) -> None:
    memory, seconds, files = int(str(settings["memory"])), int(str(settings["seconds"])), int(str(settings["file_bytes"]))
    wanted = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, files),
        (resource.RLIMIT_NOFILE, 1024),
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_AS, memory + 4 * 2**30),  # reservations of a runtime are not memory, but have an end too
    ]
    for which, limit_wanted in wanted:
        _, most = resource.getrlimit(which)
        value = limit_wanted if most == resource.RLIM_INFINITY else min(limit_wanted, most)
        try:
            resource.setrlimit(which, (value, value))
        except (ValueError, OSError):
            if sys.platform == "linux":
                raise
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def drop_capabilities() -> None:
    """Who has none can't drop any, and needn't."""
    libc.prctl(_PR_SET_SECUREBITS, _NO_ROOT, 0, 0, 0)
    libc.capset(struct.pack("Ii", _CAPABILITY_VERSION, 0), bytes(24))


def restrict_paths(reads: list[str], writes: list[str]) -> None:
    version = libc.syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION)
    if version < 1:
        return
    rights = _FS_RIGHTS_BY_VERSION.get(version, _FS_RIGHTS_NEWEST)
    ruleset = libc.syscall(_LANDLOCK_CREATE, struct.pack("Q", rights), 8, 0)
    if ruleset < 0:
        fail("landlock ruleset", ctypes.get_errno())
    for paths, allowed in ((reads, _FS_EXECUTE | _FS_READ_FILE | _FS_READ_DIR), (writes, rights & ~_FS_EXECUTE)):
        for path in paths:
            allow_path(ruleset, path, allowed)
    if libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) != 0:
        fail("landlock", ctypes.get_errno())
    os.close(ruleset)


def allow_path(ruleset: int, path: str, allowed: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        allowed &= _FS_OF_FILES
    # packed: struct landlock_path_beneath_attr has no padding
    if libc.syscall(_LANDLOCK_ADD, ruleset, _LANDLOCK_PATH_BENEATH, struct.pack("=Qi", allowed, descriptor), 0) != 0:
        fail(f"landlock rule for {path}", ctypes.get_errno())
    os.close(descriptor)


def machine_column() -> tuple[int, int]:
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        fail(f"no filter of system calls for {machine}", _ENOSYS)
    return _ARCHITECTURES[machine]


def channel_of(descriptor: int) -> "socket.socket":
    """Imported only where it is needed, and while files can still be read."""
    import socket  # noqa: PLC0415

    return socket.socket(fileno=descriptor)


def open_hatch(channel: "socket.socket") -> None:
    """Hands the right to answer for every socket(2) to whoever holds the other end of a channel."""
    column, _ = machine_column()
    program = [(_LOAD, 0, 0, 0), (_JUMP_EQUAL, 0, 1, _REFUSED[_SOCKET][column]), (_RETURN, 0, 0, _ASK)]
    program += [(_JUMP_EQUAL, 0, 1, _CONNECT[column]), (_RETURN, 0, 0, _FAIL), (_RETURN, 0, 0, _ALLOW)]
    header, _memory = as_program(program)
    listener = libc.syscall(_SECCOMP[column], 1, _NEW_LISTENER, header)
    if listener < 0:
        fail("seccomp listener", ctypes.get_errno())
    channel.sendmsg([b"."], [(_SOL_SOCKET, _SCM_RIGHTS, struct.pack("i", listener))])
    channel.close()
    os.close(listener)


def filter_calls(*, has_hatch: bool) -> None:
    column, architecture = machine_column()
    program = [(_LOAD, 0, 0, 4), (_JUMP_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    program += [(_JUMP_SET, 0, 1, _X32_BIT), (_RETURN, 0, 0, _FAIL | _EPERM)]
    refused = {name: numbers for name, numbers in _REFUSED.items() if not (has_hatch and name == _SOCKET)}
    for numbers in (refused | (_REFUSED_WITH_HATCH if has_hatch else {})).values():
        number = numbers[column]
        if number is not None:
            program += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, _FAIL | _EPERM)]
    # The flags of clone3 can't be seen; who is told that there is none uses clone.
    program += [(_JUMP_EQUAL, 0, 1, _CLONE3[column]), (_RETURN, 0, 0, _FAIL | _ENOSYS)]
    program += [(_JUMP_EQUAL, 0, 4, _CLONE[column]), (_LOAD, 0, 0, _ARGUMENT_0), (_JUMP_SET, 1, 0, _CLONE_THREAD)]
    program += [(_RETURN, 0, 0, _FAIL | _EPERM), (_RETURN, 0, 0, _ALLOW)]
    for numbers in _ABOUT_OURSELVES.values():
        # The process id is the same after exec, and 0 means oneself too.
        program += [(_JUMP_EQUAL, 0, 5, numbers[column]), (_LOAD, 0, 0, _ARGUMENT_0)]
        program += [(_JUMP_EQUAL, 2, 0, os.getpid()), (_JUMP_EQUAL, 1, 0, 0)]
        program += [(_RETURN, 0, 0, _FAIL | _EPERM), (_RETURN, 0, 0, _ALLOW)]
    program.append((_RETURN, 0, 0, _ALLOW))
    header, _memory = as_program(program)
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) != 0:
        fail("seccomp filter", ctypes.get_errno())


def as_program(program: "Sequence[tuple[int, int, int, int | None]]") -> tuple[bytes, object]:
    """A struct sock_fprog, and the memory that it points to."""
    instructions = b"".join(struct.pack("HBBI", code, yes, no, value) for code, yes, no, value in program)
    memory = ctypes.create_string_buffer(instructions)
    return struct.pack("HxxxxxxQ", len(program), ctypes.addressof(memory)), memory


def fail(what: str, number: int) -> None:
    sys.stderr.write(f"{MARKER}{what}: {os.strerror(number)}\n")
    sys.stderr.flush()
    os._exit(EXIT_CODE)


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]), sys.argv[2:])
    except OSError as error:
        fail(str(error.filename or "system call"), error.errno or 0)
