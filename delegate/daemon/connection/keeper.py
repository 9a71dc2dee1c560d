"""Who this process is to the manager: enrolment, session token, session, and what ends them.

The keeper lives in the control lane's loop, which runs whatever the tasks do; other loops ask it and it answers across. A
token is renewed when a third of its life is left; every renewal and every opening happens once, however many ask for it.

Three answers end the process's life as a delegate: revoked, superseded by a newer process with the same identity, and a bootstrap
token that is not accepted from one that was never enrolled. After them nobody is given a session any more.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import structlog

from delegate.daemon.connection.enrolling import EnrolmentRefusedError, try_tokens
from delegate.daemon.connection.errors import (
    CertificateRefusedError,
    CertificateRejectedError,
    OutdatedError,
    RefusalError,
    RevokedError,
    SupersededError,
    TransportError,
    UnauthorizedError,
    UntrustedError,
)
from delegate.daemon.connection.faults import Faults
from delegate.daemon.connection.sessions import Credentials, Introduction, Session, SessionHooks, new_request_id
from delegate.daemon.connection.transport import Transport
from delegate.daemon.connection.waits import ReconnectSchedule, Waits
from delegate.foundation.errors import DelegateError
from delegate.foundation.secrets import Secret
from delegate.protocol import routes
from delegate.protocol.certificates import RenewAnswer, RenewRequest
from delegate.protocol.enrolment import (
    ByeAnswer,
    ByeRequest,
    EnrolAnswer,
    EnrolRequest,
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
