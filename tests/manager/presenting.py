"""Delegates that connect over TLS and show a certificate, or don't."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from delegate.manager.authority import AUTHORITIES_FILE
from delegate.manager.service import Manager
from delegate.protocol.pki.keys import PrivateKey, make_key
from delegate.protocol.pki.pairs import Pair, read_pair
from delegate.protocol.pki.requests import make_request
from tests.manager.delegates import Caller, FakeDelegate


class Asked:
    """A key and the request for it."""

    def __init__(self) -> None:
        self.key: PrivateKey = make_key()
        self.csr = make_request(self.key, "whatever")

    def pair(self, chain: str) -> Pair:
        return read_pair(self.key.to_pem(), chain)


def trusting(manager: Manager, pair: Pair | None = None, directory: Path | None = None) -> ssl.SSLContext:
    """A client's context that believes this manager, and shows the pair."""
    context = ssl.create_default_context(cafile=manager._state_dir / AUTHORITIES_FILE)
    if pair is not None:
        assert directory is not None
        file = directory / f"{pair.certificate.serial}.pem"
        file.write_bytes(pair.key.to_pem() + pair.chain_pem().encode())
        context.load_cert_chain(file)
    return context


@asynccontextmanager
async def session_with(context: ssl.SSLContext) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context), timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield session


@asynccontextmanager
async def showing(manager: Manager, delegate: FakeDelegate, pair: Pair | None, directory: Path) -> AsyncIterator[FakeDelegate]:
    """The same delegate on connections of its own that show this pair."""
    async with session_with(trusting(manager, pair, directory)) as session:
        twin = FakeDelegate(Caller(session, manager.url), delegate.name, instance=delegate.instance)
        twin.incarnation, twin.delegate_id, twin.token = delegate.incarnation, delegate.delegate_id, delegate.token
        twin.refresh_token, twin.epoch = delegate.refresh_token, delegate.epoch
        yield twin
