"""The manager as it is reached: what answers, what it sees of us, clock, token, registration, and how long the way bears silence."""

import asyncio
import datetime as dt
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from delegate import __version__
from delegate.daemon.connection.contexts import Contexts
from delegate.daemon.connection.errors import TransportError, UntrustedError
from delegate.daemon.connection.pinging import fetch_authorities, ping
from delegate.daemon.connection.transport import Endpoint
from delegate.daemon.directories import StateDirectoryError
from delegate.daemon.identity.generations import Generations
from delegate.daemon.identity.store import Identity, IdentityStore
from delegate.foundation.quantities import format_duration
from delegate.foundation.secrets import Secret
from delegate.foundation.settings.programs import DelegateSettings
from delegate.foundation.settings.proxies import ProxyRules
from delegate.operations.doctor.findings import Area, Finding, Status
from delegate.protocol.enrolment import PingAnswer, TokenFacts
from delegate.protocol.pki.bundles import read_bundle

_PING_SECONDS = 10.0
_SKEW_WARNING, _SKEW_FAILURE = 5.0, 60.0
_TOKEN_WARNING_SECONDS = 7 * 86400.0
_SLACK_SECONDS = 5.0


@dataclass(frozen=True)
class Link:
    """What the checks of the manager have in common: the endpoint, and who we are to it."""

    settings: DelegateSettings
    endpoint: Endpoint
    identity: Identity | None
    context: Callable[[], ssl.SSLContext | None]

    @classmethod
    def of_settings(cls, settings: DelegateSettings) -> "Link":
        """Reads files alone. Raises StateDirectoryError."""
        rules = ProxyRules.from_settings(settings.network)
        state = settings.identity.state_dir
        try:
            identity = IdentityStore(state).look() if state.is_dir() else None
        except PermissionError as error:
            hint = "run this as the delegate's user"
            raise StateDirectoryError(f"{state} can't be read: {error.strerror}", hint=hint, file=str(state)) from error
        endpoint = Endpoint(join=settings.link.join, proxy=rules.address_for)
        return cls(settings, endpoint, identity, lambda: _context(settings))

    @property
    def place(self) -> str:
        return self.settings.link.url

    async def make_context(self) -> ssl.SSLContext | None:
        """Whom we believe and what we show, as the daemon would now. Raises AuthoritiesError, TransportError."""
        link = self.settings.link
        context = await asyncio.to_thread(self.context)
        if context is not None and link.manager_ca_pin:
            found = read_bundle(await fetch_authorities(self.endpoint, _PING_SECONDS))
            pinned = [each for each in found.certificates if each.fingerprint == link.manager_ca_pin]
            if not pinned:
                raise UntrustedError(
                    f"the authority of what answers there is not the pinned one but {', '.join(found.fingerprints) or 'none'}",
                    hint="compare DELEGATE_MANAGER_CA_PIN with the fingerprint that the manager logs at its start",
                )
            context.load_verify_locations(cadata=pinned[0].to_pem())
        return context

    async def ping(self, token: Secret | None = None, wait_seconds: float = 0.0) -> PingAnswer:
        within = wait_seconds + (_SLACK_SECONDS if wait_seconds else _PING_SECONDS)
        return await ping(self.endpoint, await self.make_context(), within, token=token, wait_seconds=wait_seconds)

    def token(self) -> Secret | None:
        """The one that proves us best: of the enrolled identity, else the delegate token."""
        if self.identity is not None and self.identity.enrolled:
            return self.identity.refresh_token
        return self.settings.link.token


def _context(settings: DelegateSettings) -> ssl.SSLContext | None:
    contexts = Contexts(
        encrypted=settings.link.url.startswith("https:"),
        authorities=settings.network.ssl_cert_file,
        manager_authorities=settings.link.manager_ca_file,
    )
    pair: Path | None = None
    told = ""
    try:
        generation = Generations(settings.identity.cert_dir).load_current() if settings.identity.cert_dir.is_dir() else None
    except (OSError, StateDirectoryError):
        generation = None
    if generation is not None:
        pair, told = generation.pair_file, generation.material.authorities.to_pem()
    return contexts.make(pair, told)


async def check_answer(link: Link) -> list[Finding]:
    """What answers, what it sees of us, and whose clock is right."""
    asked_at, began_at = dt.datetime.now(dt.UTC), time.monotonic()
    answer = await link.ping()
    took = time.monotonic() - began_at
    seen = f"the manager {answer.version or '(of an unknown version)'} answers and sees us as {answer.client_address or 'nobody'}"
    via = f", via {answer.via}" if answer.via else ""
    facts: dict[str, str | float] = {
        "client_address": answer.client_address,
        "scheme": answer.scheme,
        "via": answer.via,
        "manager_version": answer.version,
        "certificate_shown": answer.client_certificate,
        "milliseconds": round(took * 1000, 1),
    }
    found = [_finding("manager", Status.OK, f"{seen} over {answer.scheme}{via}, in {took * 1000:.0f} ms", link.place, "", **facts)]
    found.append(_judge_clock(answer.server_time, asked_at + dt.timedelta(seconds=took / 2), link.place))
    found.append(judge_versions(answer.version, link.place))
    return found


def _judge_clock(server_time: str, ours: dt.datetime, place: str) -> Finding:
    try:
        theirs = dt.datetime.fromisoformat(server_time)
    except ValueError:
        return _finding("clock", Status.SKIPPED, "the manager did not say what time it is", place)
    ahead = (ours - theirs).total_seconds()
    direction = "ahead of" if ahead > 0 else "behind"
    words = f"this clock is {abs(ahead):.1f} s {direction} the manager's"
    status = Status.FAILED if abs(ahead) >= _SKEW_FAILURE else Status.WARNING if abs(ahead) >= _SKEW_WARNING else Status.OK
    hint = "" if status is Status.OK else "set the clock right (NTP): certificates and signatures of S3 depend on it, tasks don't"
    return _finding("clock", status, words, place, hint, ahead_seconds=round(ahead, 2))


def judge_versions(theirs: str, place: str) -> Finding:
    """The stated skew: a manager serves its own minor version and the two before; a delegate takes one minor ahead."""
    ours, other = _minor(__version__), _minor(theirs)
    facts: dict[str, str | int | float | bool | list[str] | None] = {"delegate": __version__, "manager": theirs}
    if ours is None or other is None:
        return Finding(
            check="versions", area=Area.MACHINE, status=Status.SKIPPED, what="the manager's version is not known", where=place, facts=facts
        )
    words = f"delegate {__version__}, manager {theirs}"
    apart = other[1] - ours[1] if other[0] == ours[0] else None
    good = apart is not None and -1 <= apart <= 2
    hint = "" if good else "bring both within two minor versions: the manager first, then the delegates"
    return Finding(
        check="versions",
        area=Area.MACHINE,
        status=Status.OK if good else Status.WARNING,
        what=words,
        where=place,
        hint=hint,
        facts=facts,
    )


def _minor(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    return (int(parts[0]), int(parts[1])) if len(parts) >= 2 and parts[0].isdigit() and parts[1].isdigit() else None


async def check_token(link: Link) -> list[Finding]:
    """The delegate token, and the registration that this state directory holds; neither is used."""
    found: list[Finding] = []
    identity, token = link.identity, link.settings.link.token
    enrolled = identity is not None and identity.enrolled
    if identity is not None and enrolled:
        answer = await link.ping(identity.refresh_token)
        found.append(_judge_registration(answer.token, identity, link.place))
    else:
        found.append(
            _identity("registration", Status.SKIPPED, "this delegate has not enrolled yet", str(link.settings.identity.state_dir), "")
        )
    if token:
        answer = await link.ping(token)
        found.append(_judge_token(answer.token, needed=not enrolled, place=link.place))
    elif not enrolled and link.settings.link.account_token_file is None:
        hint = "make one with `delegate token create --name NAME --scope GITOPS` and set DELEGATE_TOKEN_FILE"
        found.append(_identity("token", Status.FAILED, "there is no delegate token, and this delegate is not enrolled", "", hint))
    return found


def _judge_registration(facts: TokenFacts | None, identity: Identity, place: str) -> Finding:
    if facts is None:
        return _identity("registration", Status.SKIPPED, "this manager is too old to say", place, "")
    if facts.problem:
        hint = facts.hint or "give it a delegate token and start it again: it enrols by itself"
        return _identity("registration", Status.FAILED, f"the manager does not know this delegate any more: {facts.problem}", place, hint)
    state = "a session of it is open" if facts.open_session else "no session of it is open: the daemon does not run, or can't connect"
    words = f"registered as {facts.name} ({identity.delegate_id}); {state}; may do {', '.join(facts.kinds) or 'nothing'}"
    return _identity("registration", Status.OK, words, place, "")


def _judge_token(facts: TokenFacts | None, *, needed: bool, place: str) -> Finding:
    bad = Status.FAILED if needed else Status.WARNING
    if facts is None:
        return _identity("token", Status.SKIPPED, "this manager is too old to say what the token is worth", place, "")
    if facts.problem:
        hint = facts.hint or "make a new one with `delegate token create --name NAME --scope GITOPS`"
        return _identity("token", bad, f"the delegate token is not good: {facts.problem}", place, hint)
    if not facts.kinds:
        hint = "make one with `delegate token create --name NAME --scope GITOPS`"
        return _identity("token", bad, f"the token {facts.name!r} lets no task run; missing: scope GITOPS", place, hint)
    left = facts.expires_in_seconds
    ends = "never" if left is None else f"in {format_duration(round(left))}"
    words = f"the token {facts.name!r} is good for {', '.join(facts.scopes)}; it ends {ends}"
    if left is not None and left < _TOKEN_WARNING_SECONDS:
        return _identity("token", Status.WARNING, words, place, "make a new one and put it in its place before a new instance has to enrol")
    return _identity("token", Status.OK, words, place, "")


async def check_idle(link: Link, seconds: float) -> list[Finding]:
    """Whether a call may be silent for so long. The daemon learns a shorter wait by itself; a person should know why."""
    token = link.token()
    if not seconds or not token:
        return [_finding("idle", Status.SKIPPED, "not tried", link.place, "give --idle 60s, and a token")]
    began_at = time.monotonic()
    try:
        answer = await link.ping(token, wait_seconds=seconds)
    except TransportError as error:
        age = time.monotonic() - began_at
        if age < 0.9 or age >= seconds:  # not for being quiet: that is another check's to say
            raise
        hint = f"polls are made shorter than that by themselves; better let the proxy or firewall allow 60 s. What came: {error}"
        words = f"a quiet call was cut after {age:.1f} s"
        return [_finding("idle", Status.WARNING, words, link.place, hint, cut_after_seconds=round(age, 1))]
    if answer.waited_seconds + 0.5 < seconds:
        return [_finding("idle", Status.SKIPPED, "the manager did not keep the call waiting", link.place, "check the token first")]
    further = "" if seconds >= 45.0 else "a cut after longer silence is not excluded: try --idle 60s"
    return [_finding("idle", Status.OK, f"a call may be quiet for {seconds:g} s", link.place, further, seconds=seconds)]


def follow(
    first: "asyncio.Future[bool]", run: Callable[[], Awaitable[list[Finding]]], name: str, area: Area
) -> Callable[[], Awaitable[list[Finding]]]:
    """The check, once the one that it depends on went well; skipped where not."""

    async def wait() -> list[Finding]:
        if not await first:
            return [Finding(check=name, area=area, status=Status.SKIPPED, what="the manager is not reached")]
        return await run()

    return wait


def _finding(
    check: str,
    status: Status,
    what: str,
    where: str,
    hint: str = "",
    **facts: str | int | float | bool | list[str] | None,
) -> Finding:
    return Finding(check=check, area=Area.NETWORK, status=status, what=what, where=where, hint=hint, facts=facts)


def _identity(check: str, status: Status, what: str, where: str, hint: str) -> Finding:
    return Finding(check=check, area=Area.IDENTITY, status=status, what=what, where=where, hint=hint)
