"""Which checks there are for the settings of a delegate, in the order in which a person reads them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from delegate.daemon.connection.trust import tls_context
from delegate.daemon.directories import StateDirectoryError
from delegate.daemon.identity.generations import Generations
from delegate.engine.clusters.registry import ClusterRegistry, ClusterSettings
from delegate.foundation.clocks import SYSTEM_CLOCK
from delegate.foundation.lifecycle import Retrying
from delegate.foundation.quantities import format_duration
from delegate.foundation.settings.loading import Examined
from delegate.foundation.settings.programs import DelegateSettings
from delegate.foundation.settings.proxies import ProxyRules
from delegate.operations.doctor.checking import Check, run_checks
from delegate.operations.doctor.findings import Area, Finding, Status
from delegate.operations.doctor.link import Link, check_answer, check_idle, check_token, follow
from delegate.operations.doctor.machine import check_directories, check_limits, check_programs, check_user
from delegate.operations.doctor.permissions import Need, check_clusters
from delegate.operations.doctor.sources import check_sources
from delegate.operations.doctor.storing import check_bucket
from delegate.operations.doctor.ways import examine_roots, examine_way

Checking = Callable[[], Awaitable[list[Finding]]]
_CLUSTER_SECONDS, _BUCKET_SECONDS, _SOURCE_SECONDS = 60.0, 45.0, 30.0
_QUICK = Retrying(max_attempts=2, base_seconds=0.2, max_seconds=1.0, max_duration_seconds=10.0)


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What a person asked for: how long a quiet call is tried, what is to be synced and where it comes from, and in which namespaces
    records are."""

    idle_seconds: float = 10.0
    wanted: Sequence[Need] = ()
    namespaces: Sequence[str] = ()
    repositories: Sequence[str] = ()


async def examine_delegate(
    examined: Examined[DelegateSettings],
    environment: Mapping[str, str],
    wishes: Wishes,
    on_done: Callable[[Check, Sequence[Finding]], None] = lambda check, found: None,
) -> list[Finding]:
    """Everything that was found. Needs no daemon, and no settings that are all right."""
    return await run_checks(_checks(examined, environment, wishes), on_done)


def _checks(examined: Examined[DelegateSettings], environment: Mapping[str, str], wishes: Wishes) -> list[Check]:
    settings = examined.settings
    checks = [
        Check("settings", Area.SETTINGS, lambda: _check_settings(examined)),
        Check("user", Area.MACHINE, check_user),
        Check("limits", Area.MACHINE, check_limits),
        Check("directories", Area.STORAGE, lambda: check_directories(settings)),
        Check("programs", Area.TOOLS, lambda: check_programs(settings, environment)),
        Check("system authorities", Area.NETWORK, _check_roots),
    ]
    if settings.link.url and "network" not in examined.broken and not any(settings.link.faults()):
        checks += _link_checks(settings, wishes)
    else:
        checks.append(Check("manager", Area.NETWORK, lambda: _no_manager(settings.link.url)))
    if wishes.repositories and "network" not in examined.broken:
        checks.append(Check("sources", Area.NETWORK, lambda: check_sources(settings, wishes.repositories), "", _SOURCE_SECONDS))
    checks += [
        Check("certificate", Area.IDENTITY, lambda: _check_certificate(settings)),
        Check("bucket", Area.STORAGE, lambda: check_bucket(settings), settings.dead_letters.bucket or "", _BUCKET_SECONDS),
        Check("clusters", Area.CLUSTER, lambda: _check_clusters(settings, environment, wishes), "", _CLUSTER_SECONDS),
    ]
    return checks


def _link_checks(settings: DelegateSettings, wishes: Wishes) -> list[Check]:
    url = settings.link.url
    proxy = ProxyRules.from_settings(settings.network).address_for(url)
    answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def look_at_way() -> list[Finding]:
        link = Link.of_settings(settings)

        def context() -> object:
            return link.context() or tls_context(None)

        return await examine_way("way to the manager", url, proxy, context, "DELEGATE_MANAGER_URL")  # type: ignore[arg-type]

    async def ask() -> list[Finding]:
        try:
            found = await check_answer(Link.of_settings(settings))
            answered.set_result(True)
            return found
        finally:
            if not answered.done():
                answered.set_result(False)

    async def token() -> list[Finding]:
        return await check_token(Link.of_settings(settings))

    async def idle() -> list[Finding]:
        return await check_idle(Link.of_settings(settings), wishes.idle_seconds)

    return [
        Check("way to the manager", Area.NETWORK, look_at_way, url),
        Check("manager", Area.NETWORK, ask, url),
        Check("token", Area.IDENTITY, follow(answered, token, "token", Area.IDENTITY), url, 40.0),
        Check("idle", Area.NETWORK, follow(answered, idle, "idle", Area.NETWORK), url, 40.0 + wishes.idle_seconds),
    ]


async def _check_settings(examined: Examined[DelegateSettings]) -> list[Finding]:
    found = [
        Finding(check="settings", area=Area.SETTINGS, status=Status.FAILED, what=str(error), where=error.file, hint=error.hint)
        for error in examined.errors
    ]
    found += [
        Finding(check="settings", area=Area.SETTINGS, status=Status.WARNING, what=warning.message, where=warning.name, hint=warning.hint)
        for warning in examined.loaded.warnings
    ]
    if not examined.errors:
        files = {place.file for place in examined.loaded.places.values() if place.file}
        words = f"are all right, with {', '.join(sorted(files))}" if files else "are all right"
        found.append(Finding(check="settings", area=Area.SETTINGS, status=Status.OK, what=words))
    return found


async def _no_manager(url: str) -> list[Finding]:
    what, hint = "no usable address of a manager is set", "set DELEGATE_MANAGER_URL"
    if url:
        what, hint = "was not looked at: a setting of the way there can't be used", "mend what is said under settings first"
    return [Finding(check="manager", area=Area.SETTINGS, status=Status.FAILED, what=what, where=url, hint=hint)]


async def _check_roots() -> list[Finding]:
    overlaid = await asyncio.to_thread(examine_roots)
    what = "the system's authorities are there"
    return [overlaid or Finding(check="system authorities", area=Area.NETWORK, status=Status.OK, what=what)]


async def _check_certificate(settings: DelegateSettings) -> list[Finding]:
    """The one on disk, whoever wrote it there. Raises StateDirectoryError."""
    place = settings.identity.cert_dir
    try:
        generation = await asyncio.to_thread(lambda: Generations(place).load_current() if place.is_dir() else None)
    except PermissionError as error:
        hint = "run this as the delegate's user"
        raise StateDirectoryError(f"{place} can't be read: {error.strerror}", hint=hint, file=str(place)) from error
    if generation is None:
        what = "there is none yet; enrolment brings one where the manager gives them"
        return [Finding(check="certificate", area=Area.IDENTITY, status=Status.SKIPPED, what=what, where=str(place))]
    certificate = generation.material.certificate
    left = (certificate.not_after - SYSTEM_CLOCK.now()).total_seconds()
    whole = (certificate.not_after - certificate.not_before).total_seconds()
    if left <= 0:
        status, words, hint = Status.FAILED, "has expired", "the daemon enrols again by itself where it runs; check this clock and the log"
    elif left < 0.1 * whole:
        status, words, hint = Status.WARNING, f"ends in {format_duration(round(left))}", "it should have been renewed: see the daemon's log"
    else:
        status, words, hint = Status.OK, f"ends in {format_duration(round(left))}", ""
    what = f"{certificate.serial} {words}"
    return [Finding(check="certificate", area=Area.IDENTITY, status=status, what=what, where=str(place), hint=hint)]


async def _check_clusters(settings: DelegateSettings, environment: Mapping[str, str], wishes: Wishes) -> list[Finding]:
    registry = ClusterRegistry(
        ClusterSettings(kubeconfig=str(settings.cluster.kubeconfig or ""), policy=_QUICK),
        proxy_for=ProxyRules.from_settings(settings.network).address_for,
        environment=environment,
    )
    try:
        return await check_clusters(registry, wishes.wanted, wishes.namespaces)
    finally:
        await registry.close()
