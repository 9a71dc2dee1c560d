"""The hosts that Applications come from: the way to each Git and chart host, hop by hop. No credentials are sent, nor any request."""

import asyncio
import re
import ssl
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from delegate.daemon.connection.trust import tls_context
from delegate.foundation.settings.programs import DelegateSettings
from delegate.foundation.settings.proxies import ProxyRules
from delegate.model.resources import JsonObject, Manifest
from delegate.operations.doctor.findings import Area, Finding, Status
from delegate.operations.doctor.ways import examine_way

_SCP = re.compile(r"(?:[^@/:]+@)?(\[[0-9a-fA-F:]+\]|[^@/:]+):(?!//).+")
_PORTS = {"https": 443, "http": 80, "ssh": 22, "git": 9418}
_GROUP, _KIND = "argoproj.io", "Application"
_MOST = 32


def repositories_of(manifests: Iterable[Manifest]) -> set[str]:
    """The repositories that Applications among the manifests name."""
    found: set[str] = set()
    for manifest in manifests:
        if (manifest.group_kind.group, manifest.group_kind.kind) != (_GROUP, _KIND):
            continue
        spec: JsonObject = manifest.body.get("spec") or {}
        for source in (spec.get("source"), *(spec.get("sources") or ())):
            if isinstance(source, dict) and isinstance(source.get("repoURL"), str):
                found.add(source["repoURL"])
    return found


def address_of(repository: str) -> str | None:
    """Scheme, host and port of a repository alone, as a URL: neither path nor user. None for a directory, or what is no address."""
    if "://" not in repository:
        short = _SCP.fullmatch(repository)
        return f"ssh://{short[1].lower()}:22" if short else None
    try:
        parts = urlsplit(repository)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    scheme = "https" if parts.scheme == "oci" else parts.scheme
    if not host or scheme not in _PORTS:
        return None
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}:{port or _PORTS[scheme]}"


async def check_sources(settings: DelegateSettings, repositories: Iterable[str]) -> list[Finding]:
    """Name, proxy, TCP, and who signed the certificate that is seen: once for each host."""
    addresses = sorted({address for each in repositories if (address := address_of(each)) is not None})
    if not addresses:
        hint = "name files that hold Applications with --manifests"
        return [Finding(check="sources", area=Area.NETWORK, status=Status.SKIPPED, what="no host of a repository is known", hint=hint)]
    rules = ProxyRules.from_settings(settings.network)

    def context() -> ssl.SSLContext:
        return tls_context(settings.network.ssl_cert_file)

    ways = [_examine(address, rules.address_for, context) for address in addresses[:_MOST]]
    found = [finding for each in await asyncio.gather(*ways) for finding in each]
    if len(addresses) > _MOST:
        what = f"{len(addresses) - _MOST} more hosts were left out"
        found.append(Finding(check="sources", area=Area.NETWORK, status=Status.SKIPPED, what=what))
    return found


async def _examine(address: str, proxy_for: Callable[[str], str | None], context: Callable[[], ssl.SSLContext]) -> list[Finding]:
    parts = urlsplit(address)
    proxy = proxy_for(address) if parts.scheme in ("http", "https") else None  # SSH goes straight
    return await examine_way(f"source {parts.hostname}", address, proxy, context, "the repoURL")
