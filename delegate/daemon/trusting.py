"""The gate before every task: what this machine's own policy allows, and whose signature it wants. The manager has no say in it.

The policy is read again when its file changes. One that can't be read or meant lets nothing through, and says so: a gate that opens when
it breaks is none.
"""

import asyncio
import datetime as dt
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from delegate.engine.tasks.contexts import AttemptContext
from delegate.foundation.clocks import Clock
from delegate.foundation.errors import Category, DelegateError
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult, failed_result
from delegate.model.tasks import Task, TaskSignature
from delegate.model.trust import TrustPolicy
from delegate.protocol.signatures import SignatureError, check_signature, expiry_of, read_public_key

log = structlog.get_logger(__name__)
_LARGEST = 2**20
_MOST_REMEMBERED = 100_000
Execute = Callable[[Task, AttemptContext], Awaitable[TaskResult]]


class TrustPolicyError(DelegateError):
    """A policy that can't be read or meant."""

    default_code = "policy.unreadable"
    category = Category.POLICY


class TrustGate:
    """Runs what the policy lets through; the rest ends as refused. Without a policy file it lets everything through.

    `open` raises TrustPolicyError for a file that can't be meant: at the start that is the end of it.
    """

    def __init__(self, path: Path | None, state_dir: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._seen: tuple[int, int, int] | None = None
        self._policy = TrustPolicy()
        self._keys: dict[str, Ed25519PublicKey] = {}
        self._finished = FinishedTasks(state_dir / "signed-tasks")

    def open(self) -> None:
        if self._path is None:
            return
        self._refresh()
        self._finished.load(self._clock.now())
        log.info("trust.policy", file=str(self._path), keys=sorted(self._keys), signatures=len(self._policy.signatures))

    def guard(self, execute: Execute) -> Execute:
        """The same work behind the gate."""
        if self._path is None:
            return execute

        async def run(task: Task, context: AttemptContext) -> TaskResult:
            try:
                self._check(task, context.task_id)
            except DelegateError as error:
                log.warning("trust.refused", kind=task.kind.value, error=str(error), error_code=error.code)
                return failed_result(
                    task=context.task_id,
                    attempt=context.attempt_id,
                    kind=task.kind,
                    application=task.application,
                    error=error,
                    outcome=Outcome.REFUSED,
                )
            return await execute(task, replace(context, check_namespace=self._policy.check_namespace))

        return run

    async def note_ended(self, document: JsonObject, task_id: str, outcome: Outcome) -> None:
        """After the result of a signed task is safe: it is never begun again here, whoever hands it out."""
        if self._path is None or "signature" not in document or outcome in (Outcome.INTERRUPTED, Outcome.REFUSED):
            return
        signature = msgspec.convert(document["signature"], TaskSignature)
        await asyncio.to_thread(self._finished.add, task_id, expiry_of(signature))

    def _check(self, task: Task, task_id: str) -> None:
        if self._path is None:
            return
        self._refresh()
        self._policy.check_document(task)
        if not self._policy.wants_signature(task):
            return
        name = check_signature(task, task_id, self._keys, self._clock.now())
        if task_id in self._finished:
            raise SignatureError(
                f"task {task_id} has ended here before: it is handed out a second time", hint="submit it anew, signed anew"
            )
        log.info("trust.signature_holds", key=name)

    def _refresh(self) -> None:
        assert self._path is not None
        try:
            state = os.stat(self._path)
            seen = (state.st_ino, state.st_mtime_ns, state.st_size)
            if seen == self._seen:
                return
            with self._path.open("rb") as file:
                content = file.read(_LARGEST + 1)
        except OSError as error:
            raise TrustPolicyError(f"the policy can't be read: {error.strerror}", file=str(self._path), hint=_FAIL_CLOSED) from error
        policy = read_policy(content, str(self._path))
        self._keys = {name: read_public_key(text) for name, text in policy.keys.items()}
        self._policy, self._seen = policy, seen


_FAIL_CLOSED = "until it can be read, no task is begun"


def read_policy(content: bytes, file: str) -> TrustPolicy:
    """Raises TrustPolicyError that names what is wrong."""
    import yaml  # noqa: PLC0415 - most delegates have no such file

    if len(content) > _LARGEST:
        raise TrustPolicyError(f"the policy is larger than {_LARGEST} bytes", file=file, hint=_FAIL_CLOSED)
    try:
        loaded = yaml.load(content, Loader=yaml.CSafeLoader)
        return msgspec.convert({} if loaded is None else loaded, TrustPolicy)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise TrustPolicyError(f"the policy is no YAML: {error}", file=file, hint=_FAIL_CLOSED) from error
    except msgspec.ValidationError as error:
        raise TrustPolicyError(f"the policy can't be meant: {error}", file=file, hint=_FAIL_CLOSED) from error


class FinishedTasks:
    """Signed tasks that have ended here, until their signatures end: one line each, on disk before it counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._until: dict[str, dt.datetime] = {}

    def __contains__(self, task_id: str) -> bool:
        return task_id in self._until

    def load(self, now: dt.datetime) -> None:
        """Reads what earlier processes wrote, and leaves out what can't be begun any more anyway. A torn last line counts for nothing."""
        try:
            lines = self._path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            task_id, _, moment = line.partition(" ")
            try:
                until = dt.datetime.fromisoformat(moment)
            except ValueError:
                continue
            if until.tzinfo is not None and until > now:
                self._until[task_id] = until
        temporary = self._path.with_name(self._path.name + ".new")
        with temporary.open("w") as file:
            file.writelines(f"{task_id} {until.isoformat()}\n" for task_id, until in self._until.items())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._path)

    def add(self, task_id: str, until: dt.datetime) -> None:
        if len(self._until) >= _MOST_REMEMBERED:
            del self._until[next(iter(self._until))]
        self._until[task_id] = until
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, f"{task_id} {until.isoformat()}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
