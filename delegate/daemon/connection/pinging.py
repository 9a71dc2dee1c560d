"""One call that shows whether the manager is reached with a TLS context: a handshake of its own, and an answer of the manager's."""

import asyncio
import ssl
import uuid
from typing import TypeVar

import aiohttp

from delegate.daemon.connection.answers import RawAnswer, describe, printable
from delegate.daemon.connection.connections import Connections
from delegate.daemon.connection.errors import TransportError
from delegate.daemon.connection.hops import explain_connect_fault, explain_rejection
from delegate.daemon.connection.transport import Endpoint
from delegate.foundation.proxying import way_through
from delegate.foundation.secrets import Secret
from delegate.protocol import codec, routes
from delegate.protocol.certificates import AuthoritiesAnswer
from delegate.protocol.enrolment import PingAnswer
from delegate.protocol.messages import Answer

A = TypeVar("A", bound=Answer)
_LARGEST = 256 * 2**10


async def ping(
    endpoint: Endpoint, context: ssl.SSLContext | None, within_seconds: float, *, token: Secret | None = None, wait_seconds: float = 0.0
) -> PingAnswer:
    """What the manager saw of us, and of a token; it holds its answer back for `wait_seconds`. Raises TransportError."""
    route = f"{routes.PING}?waitSeconds={wait_seconds:g}" if wait_seconds else routes.PING
    return await _get(endpoint, route, PingAnswer, context, within_seconds, token=token)


async def fetch_authorities(endpoint: Endpoint, within_seconds: float) -> str:
    """The authorities that whoever answers there says are the manager's, PEM. Raises TransportError.

    Nobody is believed, and nothing secret is sent: what comes is worth nothing before its fingerprint was compared.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return (await _get(endpoint, routes.AUTHORITIES, AuthoritiesAnswer, context, within_seconds)).authorities


async def _get(
    endpoint: Endpoint, route: str, wanted: type[A], context: ssl.SSLContext | None, within_seconds: float, *, token: Secret | None = None
) -> A:
    url, request_id, asked_at = endpoint.join(route), str(uuid.uuid4()), endpoint.clock.now()
    proxy = endpoint.proxy(url)
    way = way_through(proxy, url)
    authorization = {"Authorization": f"Bearer {token.reveal()}"} if token else {}
    connections = Connections(context, connect_seconds=within_seconds)
    try:
        async with (
            asyncio.timeout(within_seconds),
            connections.fresh.get(
                url,
                headers={routes.REQUEST_ID_HEADER: request_id} | authorization | way.headers,
                allow_redirects=False,
                proxy=way.address,
                proxy_headers=way.connect_headers,
            ) as response,
        ):
            body = await _read(response)
            raw = RawAnswer(response.status, {name.lower(): value for name, value in response.headers.items()}, body)
    except TimeoutError as error:
        raise TransportError(f"no answer to {route} within {within_seconds:g} s", hint="check the way to the manager") from error
    except aiohttp.ClientError as error:
        raise explain_rejection(error, url) or explain_connect_fault(error, url, proxy) from error
    finally:
        await connections.close()
    try:
        answer = codec.decode(body, wanted) if raw.status == 200 and raw.content_type == "application/json" else None
    except codec.UndecodableError:
        answer = None
    if answer is None or answer.request_id != request_id:
        raise TransportError(
            f"something between here and the manager answered: status {raw.status}, content type {printable(raw.content_type) or 'none'}",
            hint="look for a proxy, a login page or a firewall on the way, or correct DELEGATE_MANAGER_URL",
            facts=describe(raw),
            code="connection.not_the_manager",
        )
    endpoint.on_answer(answer.server_time, asked_at)
    return answer


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > _LARGEST:
            raise TransportError(f"an answer of more than {_LARGEST} bytes was not read to its end")
    return bytes(body)
