"""The simulated cluster as a server: in process for tests and the demo, or alone for `delegate simulator`."""

import asyncio
import base64
import contextlib
import secrets
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import structlog
import yaml
from aiohttp import web

from delegate.model.resources import JsonObject
from delegate.simulator import bootstrap, seeds, snapshots
from delegate.simulator.authorization import User, administrator, plain_user
from delegate.simulator.clocks import accelerated
from delegate.simulator.controllers.manager import ControllerManager
from delegate.simulator.counters import Requests
from delegate.simulator.faults import Faults
from delegate.simulator.handlers import Handlers
from delegate.simulator.registry import Registry

if TYPE_CHECKING:
    from delegate.simulator.certificates import ServerCertificate

SHUTDOWN_SECONDS = 1.0
SAVE_SECONDS = 2.0

log = structlog.get_logger()


def _certificate(host: str) -> "ServerCertificate":
    from delegate.simulator.certificates import make_certificate  # noqa: PLC0415 - plain http starts without cryptography

    return make_certificate(host)


class Simulator:
    """A cluster in this process. Ready when entered; gone when left.

    `url` is its address; `requests` counts what was asked; `faults` makes it misbehave; `speed` is how fast its controllers' time runs
    (10 is ten times as fast). `tls` serves https, by an authority of its own that only its kubeconfigs trust. `seed` is a directory of
    manifests to start with; `snapshot` a file that the cluster goes on from, where there is one, and that it leaves its state in: when
    it is left, and every `save_seconds` in between where something has changed.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        admin_token: str | None = None,
        limited_token: str | None = None,
        speed: float = 1.0,
        host: str = "127.0.0.1",
        tls: bool = False,
        seed: Path | None = None,
        snapshot: Path | None = None,
        save_seconds: float = SAVE_SECONDS,
    ) -> None:
        self._seed = seed
        self._snapshot = snapshot
        self._save_seconds = save_seconds
        self._saver: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()
        self._saved_version = 0
        self._host = host
        self._certificate = _certificate(host) if tls else None
        self._port = port
        self.admin_token = admin_token or secrets.token_urlsafe(24)
        self.limited_token = limited_token or secrets.token_urlsafe(24)
        self.registry = Registry(accelerated(speed))
        self.users: dict[str, User] = {
            self.admin_token: administrator(),
            self.limited_token: plain_user("limited", "devs"),
        }
        self._handlers = Handlers(self.registry, self.users)
        self.controllers = ControllerManager(self.registry, speed=speed)
        self._runner: web.ServerRunner | None = None
        self.url = ""

    @property
    def requests(self) -> Requests:
        return self._handlers.requests

    @property
    def faults(self) -> Faults:
        return self._handlers.faults

    async def __aenter__(self) -> Self:
        if self._snapshot is not None:
            snapshots.load(self.registry, self._snapshot)
        bootstrap.populate(self.registry)
        await self.controllers.start()
        try:
            if self._seed is not None:
                await seeds.load(self.registry, self._seed)
            await self._serve()
            self.save()
        except BaseException:
            await self._close()
            raise
        if self._snapshot is not None:
            self._saver = asyncio.create_task(self._keep_saving(self._snapshot), name="simulator-snapshots")
        return self

    async def _serve(self) -> None:
        # Cancelled for whoever has gone: a watch or a followed log would wait for its next event, and the end for it.
        server = web.Server(self._handlers.handle, access_log=None, handler_cancellation=True)
        self._runner = web.ServerRunner(server, shutdown_timeout=SHUTDOWN_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=self._certificate.context if self._certificate else None)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.url = f"{'https' if self._certificate else 'http'}://{self._host}:{self._port}"

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._close()
        self.save()

    async def _close(self) -> None:
        if self._saver is not None:
            self._ending.set()  # not cancelled: what it is writing must not come after what is written at the end
            await self._saver
            self._saver = None
        await self.controllers.stop()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def save(self) -> None:
        """Writes the snapshot file, where there is to be one. Raises `SnapshotError`."""
        if self._snapshot is not None:
            self._saved_version = self.registry.store.version
            snapshots.write(self._snapshot, snapshots.take(self.registry))

    async def _keep_saving(self, path: Path) -> None:
        """Saves what has changed, until the end. A disk that is full now may not be at the end: that is told, and tried again."""
        while not self._ending.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._save_seconds):
                    await self._ending.wait()
            version = self.registry.store.version
            if version == self._saved_version or self._ending.is_set():
                continue
            try:
                await asyncio.to_thread(snapshots.write, path, snapshots.take(self.registry))
            except snapshots.SnapshotError as error:
                log.warning("simulator.snapshot_failed", error=str(error))
            else:
                self._saved_version = version

    @property
    def open_watches(self) -> int:
        """How many watches clients have open."""
        return len(self._handlers.watches)

    def drop_watches(self) -> None:
        """Ends every open watch at its next event."""
        for watch in self._handlers.watches:
            watch.drop()

    def expire_versions(self) -> None:
        """Forgets history: watches and continue tokens from before are answered 410."""
        for table in self.registry.store.tables.values():
            table.forget(self.registry.store.version)
        self._handlers.lists.expire()

    def add_user(self, token: str, name: str, *groups: str) -> None:
        """A further user, with the rights that bindings give."""
        self.users[token] = plain_user(name, *groups)

    def kubeconfig(self, *, token: str | None = None, context: str = "simulator") -> str:
        """A kubeconfig for the administrator, or for whose token is given, as YAML."""
        secret = token or self.admin_token
        account: JsonObject = {"token": secret}
        if self._certificate is None:
            # kubectl keeps tokens to itself over plain http, and sends this.
            account |= {"as": self.users[secret].name, "as-user-extra": {"simulator-token": [secret]}}
        user = {"name": context, "user": account}
        trust = {"certificate-authority-data": base64.b64encode(self._certificate.authority).decode()} if self._certificate else {}
        cluster = {"name": context, "cluster": {"server": self.url, **trust}}
        body = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
            "clusters": [cluster],
            "users": [user],
        }
        return yaml.safe_dump(body, sort_keys=False)
