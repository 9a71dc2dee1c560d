"""Who this process is to the manager: enrolment, session token, session, and what ends them.

The keeper lives in the control lane's loop, which runs whatever the tasks do; other loops ask it and it answers across. A
token is renewed when a third of its life is left; every renewal and every opening happens once, however many ask for it.

Three answers end the process's life as a delegate: revoked, superseded by a newer process with the same identity, and a bootstrap
token that is not accepted from one that was never enrolled. After them nobody is given a session any more.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import structlog

from delegate.daemon.connection.enrolling import EnrolmentRefusedError, try_tokens
from delegate.daemon.connection.errors import (
    CertificateRefusedError,
    CertificateRejectedError,
    OutdatedError,
    RefusalError,
    RevokedError,
    SessionUnknownError,
    SupersededError,
    TransportError,
    UnauthorizedError,
    UntrustedError,
)
from delegate.daemon.connection.faults import Faults
from delegate.daemon.connection.transport import Transport
from delegate.daemon.connection.waits import ReconnectSchedule, Waits
from delegate.foundation.errors import DelegateError
from delegate.foundation.secrets import Secret
from delegate.protocol import routes
from delegate.protocol.certificates import RenewAnswer, RenewRequest
from delegate.protocol.enrolment import (
    AttemptDecision,
    AttemptReport,
    BuildInfo,
    ByeAnswer,
    ByeRequest,
    ClusterName,
    EnrolAnswer,
    EnrolRequest,
    LinkSettings,
    RefreshAnswer,
    RefreshRequest,
    SessionAnswer,
    SessionRequest,
)
from delegate.protocol.messages import Answer, Request

log = structlog.get_logger(__name__)
A = TypeVar("A", bound=Answer)
T = TypeVar("T")
_LONGEST_WAIT_SECONDS = 30.0
_OUTDATED_WAIT_SECONDS = 300.0
_CALL_SECONDS = 30.0
_LEAST_LIFE_SECONDS = 1.0


def new_request_id() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True, kw_only=True)
class Introduction:
    """What a process says of itself. `incarnation` is new with each process."""

    name: str
    instance: str
    incarnation: str
    boot_count: int
    capacity: int
    labels: dict[str, str]
    kinds: tuple[str, ...]
    build: BuildInfo


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """What proves the identity. Both are empty before the first enrolment."""

    delegate_id: str = ""
    refresh_token: Secret = field(default_factory=lambda: Secret(""))

    @property
    def enrolled(self) -> bool:
        return bool(self.delegate_id and self.refresh_token)


@dataclass(frozen=True, kw_only=True)
class Session:
    """An open session; frozen, so that any thread may hold it. `opening` counts the openings of this process."""

    delegate_id: str
    token: Secret
    epoch: int
    settings: LinkSettings
    features: frozenset[str]
    opening: int = 1
    manager_version: str = ""


@dataclass(frozen=True, kw_only=True)
class SessionHooks:
    """Called in the keeper's thread; none may block.

    `account_token` (of the service account, where there is one) is tried before `bootstrap_token`, which raises DelegateError where
    there is none. `on_enrolled` stores; it may raise DelegateError. `on_ended` and `on_certificate_refused` are called in whichever
    thread was told. `prepare` comes before the first call of each opening, and may fail as a call does. `signing_request` asks for a
    certificate and its life with each enrolment (empty: for none); `on_certificate` is given chain and authorities before anything else
    is called, and may raise DelegateError. `on_token_used` hears of the token that an enrolment went by, just before `on_enrolled`;
    `has_another_token` says whether there is another one by now, so that a delegate that was revoked may ask once more when it starts.
    `on_cut` hears of every connection that was cut, in whichever thread: a certificate that is refused in the handshake may look like that.
    """

    bootstrap_token: Callable[[], Secret]
    clusters: Callable[[], Sequence[ClusterName]]
    attempts: Callable[[], Sequence[AttemptReport]]
    on_enrolled: Callable[[str, Secret], object]
    on_opened: Callable[[Session, Sequence[AttemptReport], Sequence[AttemptDecision]], None]
    on_token_expiry: Callable[[float | None], None]
    on_ended: Callable[[DelegateError], None]
    on_outdated: Callable[[OutdatedError], None]
    prepare: Callable[[], Awaitable[None]] | None = None
    account_token: Callable[[], Secret | None] = lambda: None
    signing_request: Callable[[], tuple[str, float | None]] = lambda: ("", None)
    on_certificate: Callable[[str, str], Awaitable[None]] | None = None
    on_certificate_refused: Callable[[str], None] = lambda words: None
    on_token_used: Callable[[Secret], None] = lambda token: None
    has_another_token: Callable[[], bool] = lambda: False
    on_cut: Callable[[], None] = lambda: None


class SessionKeeper:
    """`run` in the loop that shall own it; `call` and the rest from any loop.

    `reconnect_schedule`: when all loops of this delegate try to reach a manager that was away; what it says of that comes with heartbeats.
    """

    def __init__(
        self,
        introduction: Introduction,
        credentials: Credentials,
        hooks: SessionHooks,
        faults: Faults,
    ) -> None:
        self.ended: DelegateError | None = None
        self.current: Session | None = None
        self._introduction = introduction
        self._credentials = credentials
        self._hooks = hooks
        self._transport: Transport | None = None
        self._faults = faults
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opened = asyncio.Event()
        self._needed = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._token = Secret("")
        self._token_renew_at = 0.0
        self._openings = 0
        self._left = False
        self.reconnect_schedule = ReconnectSchedule()

    def live_in(self, loop: asyncio.AbstractEventLoop, transport: Transport) -> None:
        """Gives the keeper its loop and that loop's transport; before anything else."""
        self._loop, self._transport = loop, transport

    async def run(self) -> None:
        """Opens a session and keeps it and its token alive, until cancelled."""
        while True:
            await self._until_it_works(routes.SESSION, self._open_if_needed)
            try:
                async with asyncio.timeout(max(0.05, self._token_renew_at - time.monotonic())):
                    await self._needed.wait()
            except TimeoutError:
                await self._until_it_works(routes.REFRESH_TOKEN, self._renew_token_if_due)

    # For any loop.

    async def session(self) -> Session:
        """The open session; waits for one, for ever once this process has no right to one."""
        return await self._at_home(self._wait_for_session)

    async def renewed(self, stale: Session) -> Session:
        """The session with a newer token than the stale one's. One try; raises what went wrong."""
        return await self._at_home(lambda: self._renew(stale))

    async def reopened(self, stale: Session) -> Session:
        """A session after the stale one. One try; raises what went wrong."""
        return await self._at_home(lambda: self._reopen(stale))

    async def introduce_again(self) -> None:
        """What this process says of itself has changed: a new session says it. One try; `run` goes on trying."""
        await self._at_home(self._open_anew)

    async def renew_certificate(self, csr: str, life_seconds: float, certificate: str, proof: str) -> RenewAnswer:
        """A certificate for the request. Needs a token and no session. One try; raises what went wrong."""
        request = RenewRequest(
            request_id=new_request_id(),
            delegate_id=self._credentials.delegate_id,
            csr=csr,
            life_seconds=life_seconds,
            certificate=certificate,
            proof=proof,
        )
        return await self._at_home(lambda: self._renew_certificate(request))

    async def enrol_for_certificate(self, csr: str, life_seconds: float | None, token: Secret | None = None) -> EnrolAnswer:
        """Enrols again, with what the manager gives for the request in the answer; with this token alone where it is given.

        One try; raises what went wrong.
        """
        return await self._at_home(lambda: self._enrol_for_certificate(csr, life_seconds, token))

    def hear_refused(self, error: CertificateRefusedError | CertificateRejectedError) -> None:
        """Somebody was told that the certificate is not accepted. For any thread."""
        self._hooks.on_certificate_refused(str(error))

    def hear_cut(self, error: TransportError) -> None:
        """A call got no answer. For any thread."""
        if error.cut_after is not None:
            self._hooks.on_cut()

    async def say_bye(self, reason: str, within_seconds: float) -> None:
        """Leaves cleanly: from here on no session is opened. A manager that does not hear it finds out by itself."""
        if self._openings == 0:
            return
        try:
            async with asyncio.timeout(within_seconds):
                await self._at_home(lambda: self._leave(reason, within_seconds))
        except (TransportError, RefusalError, TimeoutError) as error:
            log.info("session.bye_unheard", error=str(error) or f"no answer within {within_seconds:g} s")

    def end(self, error: DelegateError) -> None:
        """Somebody was told that this process has no right to work any more. For any thread."""
        if self.ended is None:
            self.ended = error
            self.current = None
            log.error("session.ended", error=str(error), hint=error.hint)
            self._hooks.on_ended(error)

    # In the keeper's own loop.

    async def _at_home(self, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        assert self._loop is not None, "live_in() comes first"
        if asyncio.get_running_loop() is self._loop:
            return await start()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(start(), self._loop))

    async def _wait_for_session(self) -> Session:
        while (current := self.current) is None:
            self._opened.clear()
            await self._opened.wait()
        return current

    async def _until_it_works(self, route: str, step: Callable[[], Awaitable[None]]) -> None:
        waits = Waits(0.5, _LONGEST_WAIT_SECONDS, self.reconnect_schedule)
        while self.ended is None:
            try:
                await step()
            except OutdatedError as error:
                wait = _OUTDATED_WAIT_SECONDS
                self._hooks.on_outdated(error)
                self._faults.failed(route, error, wait)
            except (RevokedError, SupersededError) as error:
                self.end(error)
                break
            except (EnrolmentRefusedError, UntrustedError) as error:
                wait = _LONGEST_WAIT_SECONDS
                if not self._credentials.enrolled:
                    self.end(error)
                    break
                self._faults.failed(route, error, wait)
            except (TransportError, RefusalError) as error:
                wait = waits.after(error)
                self._faults.failed(route, error, wait)
            else:
                self._faults.worked(route)
                return
            await asyncio.sleep(wait)
        await asyncio.Event().wait()

    async def _open_if_needed(self) -> None:
        async with self._one_at_a_time:
            if self.current is None and self.ended is None and not self._left:
                await self._open()
            self._needed.clear()

    async def _leave(self, reason: str, within_seconds: float) -> None:
        """After an opening that is under way, or the manager would hear of it last."""
        async with self._one_at_a_time:
            self._left = True  # a heartbeat that finds the session gone would open another
            session = self.current
            if session is not None and self.ended is None:
                request = ByeRequest(request_id=new_request_id(), epoch=session.epoch, reason=reason)
                await self._post(routes.BYE, request, ByeAnswer, session.token, within=within_seconds)

    async def _renew_token_if_due(self) -> None:
        async with self._one_at_a_time:
            if time.monotonic() >= self._token_renew_at:
                await self._renew_token()

    async def _renew(self, stale: Session) -> Session:
        async with self._one_at_a_time:
            current = self.current
            if current is not None and current.token == stale.token:
                await self._renew_token()
        return await self._wait_for_session()

    async def _reopen(self, stale: Session) -> Session:
        current = self.current
        if current is not None and current.opening == stale.opening:
            await self._open_anew()
        return await self._wait_for_session()

    async def _open_anew(self) -> None:
        self.current = None
        self._needed.set()  # should this try fail, `run` makes the next
        await self._open_if_needed()

    async def _open(self) -> None:
        """Critical section (`_one_at_a_time`): enrols where needed, and opens a session with a token that is good."""
        if self._hooks.prepare is not None:
            await self._hooks.prepare()
        if not self._credentials.enrolled:
            await self._enrol()
        elif not self._token:
            await self._begin_token()
        try:
            await self._open_with_token()
        except UnauthorizedError:
            await self._renew_token()
            await self._open_with_token()

    async def _open_with_token(self) -> None:
        said = self._introduction
        reports = tuple(self._hooks.attempts())
        request = SessionRequest(
            request_id=new_request_id(),
            delegate_id=self._credentials.delegate_id,
            incarnation=said.incarnation,
            boot_count=said.boot_count,
            name=said.name,
            labels=said.labels,
            kinds=said.kinds,
            capacity=said.capacity,
            clusters=tuple(self._hooks.clusters()),
            attempts=reports,
            build=said.build,
        )
        answer = await self._post(routes.SESSION, request, SessionAnswer, self._token)
        session = Session(
            delegate_id=self._credentials.delegate_id,
            token=self._token,
            epoch=answer.epoch,
            settings=answer.settings,
            features=frozenset(answer.features),
            opening=self._openings + 1,
            manager_version=answer.version,
        )
        self._openings = session.opening
        log.info("session.opened", delegate_id=session.delegate_id, epoch=session.epoch, protocol=answer.protocol)
        if answer.token_expires_in_seconds is not None:
            self._hooks.on_token_expiry(answer.token_expires_in_seconds)
        self._hooks.on_opened(session, reports, answer.attempts)
        self._publish(session)

    async def _enrol(self) -> None:
        csr, life_seconds = self._hooks.signing_request()
        answer = await self._enrol_with_tokens(csr, life_seconds)
        if answer.certificate and self._hooks.on_certificate is not None:
            try:
                await self._hooks.on_certificate(answer.certificate, answer.authorities)
            except DelegateError as error:  # the next renewal brings one
                log.warning("identity.certificate_not_used", error=str(error), hint=error.hint)

    async def _enrol_for_certificate(self, csr: str, life_seconds: float | None, token: Secret | None) -> EnrolAnswer:
        async with self._one_at_a_time:
            if token is None:
                answer = await self._enrol_with_tokens(csr, life_seconds)
            else:
                answer = await try_tokens((lambda: token,), lambda each: self._enrol_with(each, csr, life_seconds))
            current = self.current
            if current is not None:
                self._publish(replace(current, token=self._token))
            return answer

    async def _enrol_with_tokens(self, csr: str, life_seconds: float | None) -> EnrolAnswer:
        tokens = (self._hooks.account_token, self._hooks.bootstrap_token)
        return await try_tokens(tokens, lambda token: self._enrol_with(token, csr, life_seconds))

    async def _enrol_with(self, token: Secret, csr: str, life_seconds: float | None) -> EnrolAnswer:
        said = self._introduction
        request = EnrolRequest(
            request_id=new_request_id(),
            name=said.name,
            instance=said.instance,
            labels=said.labels,
            kinds=said.kinds,
            build=said.build,
            csr=csr,
            certificate_seconds=life_seconds,
        )
        answer = await self._post(routes.ENROL, request, EnrolAnswer, token)
        refresh_token = Secret(answer.refresh_token)
        self._hooks.on_token_used(token)
        try:
            self._hooks.on_enrolled(answer.delegate_id, refresh_token)
        except DelegateError as error:  # the next process will have to enrol again; this one can work
            log.error("identity.not_stored", error=str(error), hint=error.hint)
        self._credentials = Credentials(delegate_id=answer.delegate_id, refresh_token=refresh_token)
        self._hooks.on_token_expiry(answer.token_expires_in_seconds)
        self._take_token(answer.session_token, answer.session_token_seconds)
        log.info("session.enrolled", delegate_id=answer.delegate_id)
        return answer

    async def _renew_certificate(self, request: RenewRequest) -> RenewAnswer:
        async with self._one_at_a_time:
            if not self._token or time.monotonic() >= self._token_renew_at:
                await self._renew_token()
            token = self._token
        try:
            return await self._post(routes.RENEW_CERTIFICATE, request, RenewAnswer, token)
        except UnauthorizedError:
            async with self._one_at_a_time:
                if self._token == token:
                    await self._renew_token()
            return await self._post(routes.RENEW_CERTIFICATE, request, RenewAnswer, self._token)

    async def _begin_token(self) -> None:
        """The first token of this process. One that was revoked while it was away may have been given another token to enrol with."""
        try:
            await self._renew_token()
        except RevokedError as error:
            if not self._hooks.has_another_token():
                raise
            log.warning("session.revoked_before", error=str(error))
            try:
                await self._enrol()
            except EnrolmentRefusedError as refusal:
                raise error from refusal

    async def _renew_token(self) -> None:
        request = RefreshRequest(request_id=new_request_id(), delegate_id=self._credentials.delegate_id)
        try:
            answer = await self._post(routes.REFRESH_TOKEN, request, RefreshAnswer, self._credentials.refresh_token)
        except UnauthorizedError as error:
            log.warning("session.refresh_token_refused", error=str(error))
            await self._enrol()
        else:
            self._take_token(answer.session_token, answer.session_token_seconds)
        current = self.current
        if current is not None:
            self._publish(replace(current, token=self._token))

    def _take_token(self, token: str, life_seconds: float) -> None:
        self._token = Secret(token)
        self._token_renew_at = time.monotonic() + max(_LEAST_LIFE_SECONDS, life_seconds) * 2 / 3

    def _publish(self, session: Session) -> None:
        if self.ended is None:
            self.current = session
            self._opened.set()

    async def _post(self, route: str, request: Request, wanted: type[A], token: Secret, *, within: float = _CALL_SECONDS) -> A:
        assert self._transport is not None, "run() comes first"
        shown = self._transport.context
        try:
            return await self._transport.call(
                route, request, wanted, token=token, delegate_id=self._credentials.delegate_id, within_seconds=within
            )
        except (CertificateRefusedError, CertificateRejectedError) as error:
            if self._transport.context is shown:
                self.hear_refused(error)
            raise
        except TransportError as error:
            self.hear_cut(error)
            raise


class Caller:
    """Calls of one lane in the name of the session: a token that ran out is renewed and a session that is unknown is opened
    again, each once, and the same request replayed once. So it is where the certificate was refused, and another one is there soon:
    of a machine that was suspended through the certificate's end no call fails over that."""

    def __init__(self, keeper: SessionKeeper, transport: Transport) -> None:
        self._keeper = keeper
        self._transport = transport

    async def call(
        self,
        route: str,
        build: Callable[[Session], Request],
        wanted: type[A],
        *,
        wait_seconds: float = 0.0,
        within_seconds: float | None = None,
    ) -> A:
        """As `Transport.call`. `build` makes the request for the session that there is; it keeps its request id.

        Waits for a session. Raises TransportError or RefusalError; the endings of a session are also told to the keeper.
        """
        try:
            await self._transport.until_settled()
            shown = self._transport.context
            try:
                return await self._call_in_session(route, build, wanted, wait_seconds=wait_seconds, within_seconds=within_seconds)
            except (CertificateRefusedError, CertificateRejectedError) as error:
                if self._transport.context is shown:  # else it was about the one before
                    self._keeper.hear_refused(error)
                await self._transport.until_settled()
                if self._transport.context is shown:
                    raise
            except TransportError as error:
                self._keeper.hear_cut(error)
                await self._transport.until_settled()
                if self._transport.context is shown:
                    raise
            return await self._call_in_session(route, build, wanted, wait_seconds=wait_seconds, within_seconds=within_seconds)
        except (RevokedError, SupersededError) as error:
            self._keeper.end(error)
            raise

    async def _call_in_session(
        self,
        route: str,
        build: Callable[[Session], Request],
        wanted: type[A],
        *,
        wait_seconds: float,
        within_seconds: float | None,
    ) -> A:
        session = await self._keeper.session()
        try:
            return await self._call(route, build(session), wanted, session, wait_seconds=wait_seconds, within_seconds=within_seconds)
        except UnauthorizedError:
            session = await self._keeper.renewed(session)
        except SessionUnknownError:
            session = await self._keeper.reopened(session)
        return await self._call(route, build(session), wanted, session, wait_seconds=wait_seconds, within_seconds=within_seconds)

    async def _call(
        self, route: str, request: Request, wanted: type[A], session: Session, *, wait_seconds: float, within_seconds: float | None
    ) -> A:
        return await self._transport.call(
            route,
            request,
            wanted,
            token=session.token,
            delegate_id=session.delegate_id,
            wait_seconds=wait_seconds,
            within_seconds=within_seconds,
        )
