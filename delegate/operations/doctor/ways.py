"""The way to an address, hop by hop: name, TCP, proxy, TLS. Blocking parts run in threads; nothing is sent but greetings."""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.x509.oid import NameOID

from delegate.foundation.authorities import system_bundle, system_directory
from delegate.operations.doctor.findings import Area, Finding, Status
from delegate.operations.doctor.tunnels import CONNECT_SECONDS, Place, TunnelRefusedError, Way, greet

_FEW_AUTHORITIES = 20


class _Findings:
    """Collects what one way shows."""

    def __init__(self, check: str) -> None:
        self._check = check
        self.all: list[Finding] = []

    def add(self, status: Status, what: str, where: str, hint: str = "", **facts: str | int | float | bool | list[str] | None) -> None:
        self.all.append(Finding(check=self._check, area=Area.NETWORK, status=status, what=what, where=where, hint=hint, facts=dict(facts)))


async def examine_way(check: str, url: str, proxy: str | None, context: Callable[[], ssl.SSLContext], setting: str) -> list[Finding]:
    """Name and TCP of the first hop (the proxy where there is one), and who signed what is shown: by a proxy that speaks TLS, and by
    the URL's host, as it is seen through the proxy."""
    found = _Findings(check)
    first, target = Place.of(proxy or url), Place.of(url)
    if proxy:
        found.add(Status.OK, f"reached through the proxy {first}", str(target), proxy=str(first))
    addresses = await _resolve(found, first, "HTTP_PROXY, HTTPS_PROXY" if proxy else setting)
    if not addresses or not await _connect(found, first, addresses, proxied=proxy is not None):
        return found.all
    way = Way(target, addresses[0], proxy, context)
    if proxy and urlsplit(proxy).scheme == "https" and not await _examine_chain(found, way.without_proxy(), "proxy tls"):
        return found.all
    if url.startswith("https:"):
        await _examine_chain(found, way, "tls")
    return found.all


async def _resolve(found: _Findings, place: Place, setting: str) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        answers = await loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        words = getattr(error, "strerror", None) or str(error)
        found.add(
            Status.FAILED,
            f"the name {place.host} can't be resolved: {words}",
            str(place),
            f"check {setting}, and the resolver of this machine (/etc/resolv.conf; in a pod its dnsPolicy)",
            hop="name",
        )
        return []
    fours = list(dict.fromkeys(str(each[4][0]) for each in answers if each[0] == socket.AF_INET))
    sixes = list(dict.fromkeys(str(each[4][0]) for each in answers if each[0] == socket.AF_INET6))
    found.add(Status.OK, f"A: {', '.join(fours) or 'none'}; AAAA: {', '.join(sixes) or 'none'}", place.host, a=fours, aaaa=sixes)
    return list(dict.fromkeys(str(each[4][0]) for each in answers))


async def _connect(found: _Findings, place: Place, addresses: Iterable[str], *, proxied: bool) -> bool:
    results = await asyncio.gather(*(_try(address, place.port) for address in addresses))
    good = [f"{address} ({seconds * 1000:.0f} ms)" for address, seconds, fault in results if not fault]
    bad = [f"{address}: {fault}" for address, _, fault in results if fault]
    hop = "proxy tcp" if proxied else "tcp"
    if not good:
        hint = "check that something listens there, and that a firewall or NetworkPolicy lets the connection out"
        if proxied:
            hint = "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY, and that the proxy runs"
        found.add(Status.FAILED, f"no connection: {'; '.join(bad)}", str(place), hint, hop=hop)
        return False
    if bad:
        hint = "connections go to the others after a moment; take the dead address out of the name, or mend the way to it"
        found.add(Status.WARNING, f"connects to {', '.join(good)}, but not to {'; '.join(bad)}", str(place), hint, hop=hop)
    else:
        found.add(Status.OK, f"connects to {', '.join(good)}", str(place))
    return True


async def _try(address: str, port: int) -> tuple[str, float, str]:
    began_at = time.monotonic()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(address, port)
    except TimeoutError:
        return address, 0.0, f"silent for {CONNECT_SECONDS:g} s"
    except OSError as error:
        # asyncio adds the address to the words of errors.
        words = next((text for text in ("refused", "unreachable", "No route") if text.lower() in str(error).lower()), str(error))
        return address, 0.0, words
    writer.close()
    return address, time.monotonic() - began_at, ""


async def _examine_chain(found: _Findings, way: Way, hop: str) -> bool:
    """Who signed what is shown there, whether we believe it or not; the judgement itself is the call's. Whether we do."""
    place = way.target
    try:
        chain, words = await asyncio.to_thread(_fetch_chain, way)
    except TunnelRefusedError as error:
        hint = "have the host and port allowed at the proxy, give it the credentials that it wants, or name the host in NO_PROXY"
        found.add(Status.FAILED, str(error), str(place), hint, hop="proxy connect")
        return False
    if not chain:
        hint = f"check the port, and whether the address should begin with http://; what answered: {words}"
        found.add(Status.FAILED, f"no TLS is spoken there: {words}", str(place), hint, hop=hop)
        return False
    leaf, last = chain[0], chain[-1]
    fault = await asyncio.to_thread(_judge, way)
    signed_by = _name(leaf.issuer)
    expiry = leaf.not_valid_after_utc
    facts: dict[str, str | list[str]] = {
        "subject": _name(leaf.subject),
        "issuer": signed_by,
        "root": _name(last.issuer),
        "not_after": expiry.isoformat(),
        "chain": [_name(each.subject) for each in chain],
    }
    words = f"the certificate of {_name(leaf.subject)} was signed by {signed_by}, good until {expiry:%Y-%m-%d %H:%M} UTC"
    if not fault:
        found.add(Status.OK, words, str(place), "", **facts)
        return True
    hint = f"if {signed_by} is yours (the manager's authority, or a proxy's that intercepts TLS), point SSL_CERT_FILE to its certificate"
    overlaid = examine_roots()
    if overlaid is not None:
        hint = f"{overlaid.what}; {hint}"
    found.add(Status.FAILED, f"{words}, which is not accepted here: {fault}", str(place), hint, hop=hop, **facts)
    return False


def _fetch_chain(way: Way) -> tuple[list[x509.Certificate], str]:
    """Raises TunnelRefusedError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing secret is sent, and nothing is believed: it is only looked at
    try:
        with way.open() as connection:
            inside = greet(connection, context, way.target.host)._sslobj  # type: ignore[attr-defined]  # public since Python 3.13 only
            encoded = [each.public_bytes() for each in inside.get_unverified_chain() or ()]
            whole = "".join(each if isinstance(each, str) else each.decode() for each in encoded).encode()
            return x509.load_pem_x509_certificates(whole), ""
    except TunnelRefusedError:
        raise
    except (OSError, ValueError) as error:
        return [], getattr(error, "reason", None) or str(error)


def _judge(way: Way) -> str:
    """Why we don't believe it; empty when we do."""
    try:
        with way.open() as connection:
            greet(connection, way.context(), way.target.host)
            return ""
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except OSError as error:
        return str(error)


def examine_roots() -> Finding | None:
    """A certificate directory that hides the system's authorities: a volume mounted over it, or an image without any."""
    bundle, directory = system_bundle(), system_directory()
    here = str(bundle or directory or "/etc/ssl/certs")
    count = _count(bundle, directory)
    if count >= _FEW_AUTHORITIES:
        return None
    mounted = _mounted_over([str(each) for each in (bundle, directory) if each is not None] + ["/etc/ssl/certs", "/etc/pki"])
    if mounted:
        what = f"{mounted} is mounted over the system's authorities: only {count} are left, and nobody that public ones signed is believed"
        hint = "mount your authority somewhere else and point SSL_CERT_FILE to it; it is believed beside the system's"
    else:
        what = f"the system has only {count} authorities"
        hint = "install the package ca-certificates, or ignore this where all that is reached was signed by an authority in SSL_CERT_FILE"
    return Finding(
        check="system authorities",
        area=Area.NETWORK,
        status=Status.WARNING,
        what=what,
        where=here,
        hint=hint,
        facts={"authorities": count, "mounted": mounted or None},
    )


def _count(bundle: Path | None, directory: Path | None) -> int:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if bundle is not None:
        try:
            context.load_verify_locations(cafile=bundle)
        except OSError:
            return 0
    hashed = len({each.name for each in directory.iterdir() if each.suffix.removeprefix(".").isdigit()}) if directory is not None else 0
    return max(context.cert_store_stats()["x509_ca"], hashed)


def _mounted_over(places: list[str]) -> str:
    try:
        points = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    except OSError:
        return ""
    real = {str(Path(place).resolve()) for place in places} | set(places)
    parents = {str(parent) for place in real for parent in (Path(place), *Path(place).parents)}
    return min((point for point in points & parents if point.startswith(("/etc/", "/usr/"))), default="")


def _name(name: x509.Name) -> str:
    for kind in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME):
        found = name.get_attributes_for_oid(kind)
        if found:
            return str(found[0].value)
    return name.rfc4514_string() or "nobody"
