"""Which sections each program has. A program is a frozen set of sections; `loading.load` builds one."""

from dataclasses import dataclass

from delegate.foundation.settings.manager import Leasing, Retention, Serving, Storage
from delegate.foundation.settings.sections import (
    Cluster,
    DeadLetters,
    Evidence,
    Identity,
    LocalLogging,
    Logging,
    ManagerLink,
    Network,
    OperatorLink,
    Pool,
    Probes,
    Retry,
    Rules,
    Sources,
    Trust,
    Workspace,
)


@dataclass(frozen=True, kw_only=True)
class DelegateSettings:
    """`delegate run` and what operates on a delegate."""

    link: ManagerLink
    identity: Identity
    pool: Pool
    retry: Retry
    cluster: Cluster
    sources: Sources
    rules: Rules
    evidence: Evidence
    trust: Trust
    dead_letters: DeadLetters
    probes: Probes
    logging: Logging
    network: Network


@dataclass(frozen=True, kw_only=True)
class ManagerSettings:
    """`delegate manager ...`."""

    serving: Serving
    storage: Storage
    leasing: Leasing
    retention: Retention
    logging: Logging
    network: Network


@dataclass(frozen=True, kw_only=True)
class OperatorSettings:
    """Commands of people against a manager."""

    link: OperatorLink
    logging: LocalLogging
    network: Network


@dataclass(frozen=True, kw_only=True)
class LocalSettings:
    """Commands of people that work here and now, without a manager: exec, sync, diff, render, demo."""

    workspace: Workspace
    cluster: Cluster
    sources: Sources
    rules: Rules
    evidence: Evidence
    retry: Retry
    logging: LocalLogging
    network: Network


@dataclass(frozen=True, kw_only=True)
class ProbeSettings:
    """`delegate probe`: what it needs to find the daemon."""

    probes: Probes


PROGRAMS: tuple[type, ...] = (DelegateSettings, ManagerSettings, OperatorSettings, LocalSettings)
"""Every program: what any of them knows is no unknown name to the others."""
