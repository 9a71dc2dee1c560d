"""Sections of the manager's settings. Durations are seconds."""

import os
from collections.abc import Iterator
from pathlib import Path

from delegate.foundation.secrets import SecretUrl
from delegate.foundation.settings.declarations import Fault, Resolving, section, setting
from delegate.foundation.settings.directories import state_directory
from delegate.foundation.settings.kinds import BOOLEAN, EXISTING_FILE, LISTEN, NAMES, PATH, SECRET_URL, duration, integer, size
from delegate.foundation.settings.urls import ListenAddress, is_loopback

_DAY = 86400.0
_YEAR = 365 * _DAY
_SYSTEM_STATE_DIR = Path("/var/lib/delegate-manager")


def _state_directory(resolving: Resolving) -> Path:
    if os.geteuid() == 0 or os.access(_SYSTEM_STATE_DIR, os.W_OK):
        return _SYSTEM_STATE_DIR
    return state_directory(resolving.environment).with_name("delegate-manager")


def _database(resolving: Resolving) -> SecretUrl:
    return SecretUrl(f"sqlite:///{Path(str(resolving.values['manager_state_dir'])).absolute() / 'manager.db'}")


def _grace(resolving: Resolving) -> float:
    return float(str(resolving.values["manager_lease"]))


@section
class Serving:
    """Where the manager listens."""

    listen: ListenAddress = setting("DELEGATE_MANAGER_LISTEN", LISTEN, "Address and port.", default=ListenAddress("127.0.0.1", 8080))
    tls_cert: Path | None = setting("DELEGATE_MANAGER_TLS_CERT", EXISTING_FILE, "Certificate chain (PEM).", default=None)
    tls_key: Path | None = setting("DELEGATE_MANAGER_TLS_KEY", EXISTING_FILE, "Its private key (PEM).", default=None)

    tls_self: bool = setting(
        "DELEGATE_MANAGER_TLS_SELF",
        BOOLEAN,
        "Speaks TLS with a certificate that the manager's own authority signs; delegates believe it by DELEGATE_MANAGER_CA_FILE or "
        "DELEGATE_MANAGER_CA_PIN.",
        default=False,
        flag="--tls-self",
    )
    tls_names: tuple[str, ...] = setting(
        "DELEGATE_MANAGER_TLS_NAMES", NAMES, "Names and addresses in that certificate, beside those of this machine.", default=()
    )
    client_ca_file: Path | None = setting(
        "DELEGATE_MANAGER_CLIENT_CA_FILE",
        EXISTING_FILE,
        "Authorities of outside issuers whose certificates delegates may show (PEM), beside the manager's own.",
        default=None,
    )
    certificate_life: float = setting(
        "DELEGATE_MANAGER_CERTIFICATE_LIFE", duration(2.0, 10 * _YEAR), "Longest life of a delegate's certificate.", default=30 * _DAY
    )
    certificate_grace: float = setting(
        "DELEGATE_MANAGER_CERTIFICATE_GRACE",
        duration(0.0, _YEAR),
        "How long after its end a delegate's certificate can still be renewed by its key, for machines that were asleep.",
        default=7 * _DAY,
    )

    def faults(self) -> Iterator[Fault]:
        if self.tls_self and self.tls_cert:
            yield Fault("manager_tls_self", "there is a certificate for the manager already", "leave one of the two out")
        if self.tls_cert and not self.tls_key:
            yield Fault("manager_tls_cert", "a certificate without its key", "set DELEGATE_MANAGER_TLS_KEY too")
        if self.tls_key and not self.tls_cert:
            yield Fault("manager_tls_key", "a key without its certificate", "set DELEGATE_MANAGER_TLS_CERT too")

    def doubts(self) -> Iterator[Fault]:
        if not self.tls_cert and not self.tls_self and not is_loopback(self.listen.host):
            yield Fault(
                "manager_listen",
                f"{self.listen} is reachable beyond this machine without TLS",
                "give --tls-self, or set DELEGATE_MANAGER_TLS_CERT and DELEGATE_MANAGER_TLS_KEY, unless something before it speaks TLS",
            )


@section
class Storage:
    """What the manager keeps, and where."""

    state_dir: Path = setting(
        "DELEGATE_MANAGER_STATE_DIR",
        PATH,
        "Database and first admin token; by default /var/lib/delegate-manager, or under $XDG_STATE_HOME where that can't be written.",
        computed=_state_directory,
    )
    database_url: SecretUrl = setting(
        "DELEGATE_MANAGER_DATABASE_URL",
        SECRET_URL,
        "postgresql://user:password@host/name for many machines; by default SQLite in the state directory.",
        computed=_database,
    )


@section
class Leasing:
    """How long an attempt is its delegate's, and what happens when it is lost."""

    lease_seconds: float = setting(
        "DELEGATE_MANAGER_LEASE", duration(1.0, 3600.0), "Life of a lease since the last heartbeat.", default=45.0
    )
    heartbeat_seconds: float = setting(
        "DELEGATE_MANAGER_HEARTBEAT", duration(0.1, 600.0), "Interval that delegates are asked to report in.", default=10.0
    )
    poll_seconds: float = setting(
        "DELEGATE_MANAGER_POLL", duration(0.1, 600.0), "Longest time a poll for tasks is held open; below what proxies cut.", default=45.0
    )
    grace_seconds: float = setting(
        "DELEGATE_MANAGER_GRACE",
        duration(0.0, 3600.0),
        "After a restart no lease ends before that, so that delegates can come back; by default one lease.",
        computed=_grace,
    )
    requeues: int = setting(
        "DELEGATE_MANAGER_REQUEUES", integer(0, 1000), "Times that a task is handed out again after its delegate was lost.", default=5
    )
    requeue_base_seconds: float = setting(
        "DELEGATE_MANAGER_REQUEUE_BASE", duration(0.0, 3600.0), "First wait before it is; doubled each time.", default=1.0
    )
    requeue_max_seconds: float = setting("DELEGATE_MANAGER_REQUEUE_MAX", duration(0.0, 86400.0), "Cap of that wait.", default=60.0)

    def faults(self) -> Iterator[Fault]:
        if self.lease_seconds < 2 * self.heartbeat_seconds:
            yield Fault(
                "manager_lease",
                f"a lease of {self.lease_seconds:g} s ends before a second heartbeat ({self.heartbeat_seconds:g} s apart) can be late",
                "make the lease at least twice the heartbeat, better four times",
            )


@section
class Retention:
    """What the manager keeps, and for how long."""

    keep_tasks_seconds: float = setting(
        "DELEGATE_MANAGER_KEEP_TASKS",
        duration(3600.0, 10 * _YEAR),
        "How long finished tasks are kept, with attempts, results, events and history.",
        default=30 * _DAY,
    )
    keep_tasks: int = setting(
        "DELEGATE_MANAGER_KEEP_TASKS_COUNT", integer(100, 100_000_000), "How many of them; the oldest go first.", default=100_000
    )
    keep_letters_seconds: float = setting(
        "DELEGATE_MANAGER_KEEP_DEAD_LETTERS",
        duration(3600.0, 10 * _YEAR),
        "How long the index holds a dead letter.",
        default=90 * _DAY,
    )
    keep_letters: int = setting(
        "DELEGATE_MANAGER_KEEP_DEAD_LETTERS_COUNT", integer(100, 100_000_000), "How many of them; the oldest go first.", default=200_000
    )
    blob_bytes: int = setting(
        "DELEGATE_MANAGER_RESULT_MAX_BYTES",
        size(2**20),
        "Largest result of a task; of a larger one the short form is kept, and the whole becomes a dead letter.",
        default=64 * 2**20,
    )
    all_blob_bytes: int = setting("DELEGATE_MANAGER_RESULTS_MAX_BYTES", size(2**20), "All results over 1 MiB, together.", default=2 * 2**30)
