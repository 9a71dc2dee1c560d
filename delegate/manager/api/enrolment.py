"""Enrolment and sessions of delegates."""

import asyncio

import msgspec

from delegate import __version__
from delegate.manager.api.calls import Access, Call, Nothing, Operation, check_count
from delegate.manager.errors import InvalidError
from delegate.manager.store import certificates, sessions
from delegate.manager.store.inspection import inspect_secret
from delegate.manager.store.sessions import Enrolled
from delegate.manager.store.transactions import Transaction
from delegate.protocol import routes
from delegate.protocol.enrolment import (
    ByeAnswer,
    ByeRequest,
    EnrolAnswer,
    EnrolRequest,
    LinkSettings,
    PingAnswer,
    RefreshAnswer,
    RefreshRequest,
    SessionAnswer,
    SessionRequest,
)
from delegate.protocol.pki.requests import read_request
from delegate.protocol.versions import FEATURES

_MAX_NAME = 253
_LONGEST_PING_SECONDS = 60.0


async def enrol(call: Call[EnrolRequest, Nothing]) -> EnrolAnswer:
    """From a token to an identity. The same instance stays the same delegate."""
    request = call.body
    for what, text in (("name", request.name), ("instance", request.instance)):
        if not 1 <= len(text) <= _MAX_NAME:
            raise InvalidError(f"{what}: a delegate has one, of at most {_MAX_NAME} characters")
    check_count("labels", request.labels, call.services.limits.labels)
    authority = call.services.authority
    signing = read_request(request.csr) if request.csr else None
    now, life = authority.now(), authority.rules.life(request.certificate_seconds)

    def work(transaction: Transaction) -> tuple[Enrolled, str]:
        enrolled = sessions.enrol(transaction, call.secret, request)
        if signing is None:
            certificates.release(transaction, enrolled.delegate_id)
            return enrolled, ""
        chain = certificates.issue(transaction, enrolled.delegate_id, signing, authority.signer(), authority.rules, at=now, life=life)
        return enrolled, chain

    enrolled, chain = await call.services.database.write(work)
    return EnrolAnswer(
        request_id=request.request_id,
        server_time=call.server_time(),
        delegate_id=enrolled.delegate_id,
        session_token=enrolled.session_token,
        session_token_seconds=call.services.rhythm.session_token_seconds,
        refresh_token=enrolled.refresh_token,
        protocol=enrolled.protocol,
        features=tuple(sorted(FEATURES & set(request.features))),
        token_expires_in_seconds=enrolled.token_expires_in_seconds,
        certificate=chain,
        authorities=authority.bundle().to_pem() if chain else "",
    )


async def refresh(call: Call[RefreshRequest, Nothing]) -> RefreshAnswer:
    """A new session token; the one before it stays alive until its time is over."""
    request = call.body
    token = await call.services.database.write(lambda tx: sessions.refresh_session_token(tx, call.secret, request.delegate_id))
    return RefreshAnswer(
        request_id=request.request_id,
        server_time=call.server_time(),
        session_token=token,
        session_token_seconds=call.services.rhythm.session_token_seconds,
    )


async def open_session(call: Call[SessionRequest, Nothing]) -> SessionAnswer:
    """A process begins to work: it supersedes older ones, and what they held is settled."""
    request, rhythm = call.body, call.services.rhythm
    delegate_id = call.principal.delegate_id
    if request.delegate_id != delegate_id:
        raise InvalidError("delegateId is not the one of the session token", hint="enrol again")
    check_count("attempts", request.attempts, call.services.limits.attempts_named)
    check_count("clusters", request.clusters, call.services.limits.clusters)
    check_count("labels", request.labels, call.services.limits.labels)
    opened = await call.services.database.write(lambda tx: sessions.open_session(tx, delegate_id, request))
    return SessionAnswer(
        request_id=request.request_id,
        server_time=call.server_time(),
        epoch=opened.epoch,
        protocol=opened.protocol,
        features=opened.features,
        attempts=opened.attempts,
        settings=LinkSettings(
            lease_seconds=rhythm.lease_seconds, heartbeat_seconds=rhythm.heartbeat_seconds, poll_seconds=rhythm.poll_seconds
        ),
        token_expires_in_seconds=opened.token_expires_in_seconds,
        version=__version__,
    )


async def say_bye(call: Call[ByeRequest, Nothing]) -> ByeAnswer:
    """A clean leave."""
    request = call.body
    await call.services.database.write(lambda tx: sessions.leave(tx, call.principal.delegate_id, request.epoch, request.reason))
    return ByeAnswer(request_id=request.request_id, server_time=call.server_time())


class PingQuery(msgspec.Struct, frozen=True, rename="camel"):
    wait_seconds: float = 0.0


async def ping(call: Call[Nothing, PingQuery]) -> PingAnswer:
    """What the manager saw of the caller, and what the caller's token is worth."""
    facts = await call.services.database.read(lambda tx: inspect_secret(tx, call.secret)) if call.secret else None
    waited = min(max(call.query.wait_seconds, 0.0), _LONGEST_PING_SECONDS) if facts is not None and not facts.problem else 0.0
    await asyncio.sleep(waited)
    return PingAnswer(
        request_id=call.request_id,
        server_time=call.server_time(),
        client_address=call.client_address,
        scheme=call.scheme,
        via=call.headers.get("via", ""),
        version=__version__,
        client_certificate=call.certificate.serial if call.certificate is not None else "",
        token=facts,
        waited_seconds=waited,
    )


OPERATIONS = (
    Operation(
        method="POST",
        path=routes.ENROL,
        name="enrol",
        summary="Makes a delegate known",
        access=Access.BOOTSTRAP,
        handler=enrol,
        body=EnrolRequest,
        answer=EnrolAnswer,
        refusals=(426,),
        tag="delegate",
    ),
    Operation(
        method="POST",
        path=routes.REFRESH_TOKEN,
        name="refreshToken",
        summary="Gives a new session token",
        access=Access.REFRESH,
        handler=refresh,
        body=RefreshRequest,
        answer=RefreshAnswer,
        tag="delegate",
    ),
    Operation(
        method="POST",
        path=routes.SESSION,
        name="openSession",
        summary="Begins the session of a process",
        access=Access.SESSION,
        handler=open_session,
        body=SessionRequest,
        answer=SessionAnswer,
        refusals=(426,),
        tag="delegate",
    ),
    Operation(
        method="POST",
        path=routes.BYE,
        name="sayBye",
        summary="Ends a session cleanly",
        access=Access.SESSION,
        handler=say_bye,
        body=ByeRequest,
        answer=ByeAnswer,
        refusals=(409,),
        tag="delegate",
    ),
    Operation(
        method="GET",
        path=routes.PING,
        name="ping",
        summary="Tells what the manager saw of the caller",
        access=Access.ANYBODY,
        handler=ping,
        query=PingQuery,
        answer=PingAnswer,
        tag="delegate",
    ),
)
