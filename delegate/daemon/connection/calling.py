"""Calls of a lane in the name of the open session."""

from collections.abc import Callable
from typing import TypeVar

from delegate.daemon.connection.errors import (
    CertificateRefusedError,
    CertificateRejectedError,
    RevokedError,
    SessionUnknownError,
    SupersededError,
    TransportError,
    UnauthorizedError,
)
from delegate.daemon.connection.keeper import SessionKeeper
from delegate.daemon.connection.sessions import Session
from delegate.daemon.connection.transport import Transport
from delegate.protocol.messages import Answer, Request

A = TypeVar("A", bound=Answer)


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
