"""The manager as one object: the store, the API, the pages and the sweep, from start to stop."""

import asyncio
import contextlib
import fcntl
import os
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import structlog
from aiohttp import web

from delegate import __version__
from delegate.foundation.errors import DelegateError
from delegate.foundation.lifecycle import PartFailedError, StopRequests
from delegate.foundation.lifecycle.garbage import settle_garbage
from delegate.foundation.settings.programs import ManagerSettings
from delegate.foundation.settings.urls import ListenAddress, parse_listen_address
from delegate.manager.api.application import build_application
from delegate.manager.api.authentication import Authenticator
from delegate.manager.api.calls import Services
from delegate.manager.api.probes import probe_routes
from delegate.manager.authorities import CertificateRules
from delegate.manager.authority import Authority, ServerTls, keep_authority, own_names, write_authorities
from delegate.manager.clocks import Clock, SteadyClock
from delegate.manager.dashboard.logins import Logins
from delegate.manager.dashboard.pages import Pages
from delegate.manager.dispatch import Dispatch
from delegate.manager.effects import Effects
from delegate.manager.errors import ManagerStartError
from delegate.manager.identifiers import new_secret
from delegate.manager.metrics import ManagerMetrics
from delegate.manager.redriver import Redriver
from delegate.manager.scopes import ADMIN
from delegate.manager.settings import Limits, Rhythm
from delegate.manager.store.database import Database
from delegate.manager.store.engines import Engine, open_engine
from delegate.manager.store.histories import latest_moment
from delegate.manager.store.keys import find_or_make_key
from delegate.manager.store.migrating import migrate
from delegate.manager.store.tokens import NewToken, create_token, has_living_admin
from delegate.manager.store.transactions import Operation
from delegate.manager.sweeping import Sweeper

T = TypeVar("T")
log = structlog.get_logger(__name__)
ADMIN_TOKEN_FILE = "admin-token"  # noqa: S105 - a file's name
_ADMIN_NAME = "first-admin"
_KEEP_ALIVE_SECONDS = 90.0  # over what delegates keep idle connections for, so that it is they who close them
_SHUTDOWN_SECONDS = 5.0
_CLOCK_BEHIND_SECONDS = 5.0
_RHYTHM = Rhythm()
_LIMITS = Limits()
_RULES = CertificateRules()


class Manager:
    """A manager that runs inside this process, for as long as the context is entered.

    `url` is where it listens (port 0 becomes a real one), `admin_token` the first operator's token. Time is the system's
    for SQLite and the database's for PostgreSQL; `clock` replaces it in tests.
    """

    def __init__(
        self,
        *,
        state_dir: Path,
        listen: str | ListenAddress = "127.0.0.1:0",
        database_url: str = "",
        rhythm: Rhythm = _RHYTHM,
        limits: Limits = _LIMITS,
        clock: Clock | None = None,
        tls: ssl.SSLContext | None = None,
        tls_files: tuple[Path, Path] | None = None,
        tls_self: bool = False,
        tls_names: Sequence[str] = (),
        client_authorities: Path | None = None,
        certificates: CertificateRules = _RULES,
    ) -> None:
        """TLS is spoken with a context, with files (chain, key) that are read again when they change, or with `tls_self` by a
        certificate for `tls_names` and this machine's that the manager's own authority signs. Then delegates are asked for their
        certificates: those that it gave them, and those of `client_authorities`."""
        self._state_dir = state_dir
        self._listen = parse_listen_address(listen) if isinstance(listen, str) else listen
        self._database_url = database_url or f"sqlite:///{state_dir.absolute() / 'manager.db'}"
        self._rhythm = rhythm
        self._limits = limits
        self._given_clock = clock
        self._steady = SteadyClock()
        self._clock = clock or self._steady
        self._tls_context = tls
        self._tls_files = tls_files
        self._tls_self = tls_self
        self._tls_names = tuple(tls_names)
        self._client_authorities = client_authorities
        self._rules = certificates
        self._tls: ServerTls | None = None
        self._exits = contextlib.AsyncExitStack()
        self._parts: dict[str, asyncio.Task[None]] = {}
        self._dispatch = Dispatch(self._clock)
        self.metrics = ManagerMetrics(__version__)
        self.url = ""

    @classmethod
    def from_settings(cls, settings: ManagerSettings) -> Self:
        """The manager that the program's settings describe. Raises ManagerStartError for a certificate that can't be used."""
        leasing, serving = settings.leasing, settings.serving
        files = None if serving.tls_cert is None or serving.tls_key is None else (serving.tls_cert, serving.tls_key)
        return cls(
            state_dir=settings.storage.state_dir,
            listen=serving.listen,
            database_url=settings.storage.database_url.reveal(),
            tls_files=files,
            tls_self=serving.tls_self,
            tls_names=serving.tls_names,
            client_authorities=serving.client_ca_file,
            certificates=CertificateRules(longest_life=serving.certificate_life, renewal_grace=serving.certificate_grace),
            limits=Limits(blob_bytes=settings.retention.blob_bytes, all_blob_bytes=settings.retention.all_blob_bytes),
            rhythm=Rhythm(
                lease_seconds=leasing.lease_seconds,
                heartbeat_seconds=leasing.heartbeat_seconds,
                poll_seconds=leasing.poll_seconds,
                grace_seconds=leasing.grace_seconds,
                requeues=leasing.requeues,
                requeue_base_seconds=leasing.requeue_base_seconds,
                requeue_max_seconds=leasing.requeue_max_seconds,
                keep_tasks_seconds=settings.retention.keep_tasks_seconds,
                keep_tasks=settings.retention.keep_tasks,
                keep_letters_seconds=settings.retention.keep_letters_seconds,
                keep_letters=settings.retention.keep_letters,
            ),
        )

    async def sweep(self) -> None:
        """Does now what is done again and again: ends leases and deadlines that are over, wakes polls."""
        await self._sweeper.sweep()

    @property
    def open_polls(self) -> int:
        """Polls for tasks that wait."""
        return self._dispatch.waiting

    @property
    def open_command_polls(self) -> int:
        """Polls for commands that wait."""
        return self._dispatch.listening

    @property
    def admin_token(self) -> str:
        """The first operator's token. Raises ManagerStartError where its file is gone."""
        path = self._state_dir / ADMIN_TOKEN_FILE
        try:
            return path.read_text().strip()
        except OSError as error:
            raise ManagerStartError(f"{path} can't be read: {error.strerror}", hint="use another admin token") from error

    async def read(self, operation: Operation[T]) -> T:
        """What an operation on the store returns: for checks of what is kept."""
        return await self._services.database.read(operation)

    def login_url(self) -> str:
        """An address that logs a person in to the pages, once, within ten minutes."""
        return f"{self.url}/login?code={self._logins.make_code()}"

    async def __aenter__(self) -> Self:
        async with contextlib.AsyncExitStack() as exits:
            await self._start(exits)
            self._exits = exits.pop_all()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        await self._exits.__aexit__(kind, error, traceback)
        log.info("manager.stopped")

    async def _start(self, exits: contextlib.AsyncExitStack) -> None:
        exits.enter_context(_own_directory(self._state_dir))
        engine = open_engine(self._database_url)
        exits.push_async_callback(engine.close)
        before, after = await migrate(engine)
        if before != after:
            log.info("store.migrated", before=before or None, after=after)
        database = self._open_database(engine)
        behind = self._steady.not_before(await database.read(latest_moment))
        if behind > _CLOCK_BEHIND_SECONDS and self._given_clock is None and not engine.keeps_time:
            log.warning("clock.was_set_back", behind_seconds=round(behind, 1))
        await exits.enter_async_context(self._running("writer", database.run()))
        key = await database.write(find_or_make_key)
        self._authority = await Authority.open(database, self._given_clock or time.time, self._rules)
        self._tls = self._open_tls()
        self._authority.on_change = self._follow_authority
        await self._ensure_admin(database)
        redriver = Redriver(database)
        services = Services(
            database=database,
            dispatch=self._dispatch,
            authenticator=Authenticator(database, self._clock, self._authority),
            rhythm=self._rhythm,
            limits=self._limits,
            clock=self._clock,
            authority=self._authority,
            attempt_key=key,
            on_redrive=redriver.wake,
            come_back_seconds=lambda: self._sweeper.come_back_seconds,
        )
        self._services = services
        self._watch_metrics(database)
        self._sweeper = Sweeper(database, self._dispatch, self.metrics, self._rhythm, shared=engine.keeps_time)
        await exits.enter_async_context(self._running("sweeper", self._sweeper.run()))
        await exits.enter_async_context(self._running("redriver", redriver.run()))
        await exits.enter_async_context(self._running("authority", keep_authority(self._authority, self._tls)))
        await self._serve(services, exits)
        log.info("manager.started", url=self.url, database=engine.__class__.__name__)

    async def wait_until_failed(self) -> None:
        """Waits while all parts live. Raises PartFailedError that names the one that died; a restart of the process mends it."""
        done, _ = await asyncio.wait(self._parts.values(), return_when=asyncio.FIRST_COMPLETED)
        for name, task in self._parts.items():
            if task in done:
                error = None if task.cancelled() else task.exception()
                raise PartFailedError(name, f"the manager's {name} died", hint="its log says why (manager.part_died)") from error

    def _open_database(self, engine: Engine) -> Database:
        clock = self._given_clock or (None if engine.keeps_time else self._clock)
        return Database(engine, clock=clock, rhythm=self._rhythm, limits=self._limits, on_commit=self._apply)

    def _open_tls(self) -> ServerTls | None:
        """Raises ManagerStartError for certificates that can't be used."""
        bundle = self._authority.bundle()
        file = write_authorities(self._state_dir, bundle)
        log.info("manager.authority", file=str(file), sha256=bundle.fingerprints[0])
        if self._tls_context is None and self._tls_files is None and not self._tls_self:
            return None
        return ServerTls(
            self._authority,
            directory=self._state_dir,
            context=self._tls_context,
            files=self._tls_files,
            names=own_names(self._listen.host, self._tls_names),
            outside=self._client_authorities,
        )

    def _follow_authority(self) -> None:
        write_authorities(self._state_dir, self._authority.bundle())
        if self._tls is not None:
            self._tls.refresh()

    def _apply(self, effects: Effects) -> None:
        for kind, outcome in effects.finished:
            self.metrics.record_finished(kind, outcome)
        if effects.tokens_ended:
            self._services.authenticator.forget_all()
        self._dispatch.apply(effects)

    def _watch_metrics(self, database: Database) -> None:
        self.metrics.watch("polls_open", "Polls for tasks that are open.", lambda: self._dispatch.waiting)
        self.metrics.watch("store_operations_waiting", "Operations that wait for a commit.", lambda: database.waiting)
        self.metrics.watch("store_commits", "Commits since the start.", lambda: database.commits)
        self.metrics.watch("store_operations", "Operations that were committed since the start.", lambda: database.operations)

    @contextlib.asynccontextmanager
    async def _running(self, name: str, work: Coroutine[None, None, None]) -> AsyncIterator[None]:
        """A part that lives as long as the context; /healthz tells when it died before."""
        task = self._parts[name] = asyncio.create_task(work, name=f"manager-{name}")
        task.add_done_callback(lambda done: _tell_death(name, done))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])

    def _unhealthy(self) -> tuple[str, ...]:
        return tuple(f"the {name} has died" for name, task in self._parts.items() if task.done())

    async def _unready(self) -> tuple[str, ...]:
        try:
            async with asyncio.timeout(2.0):
                await self._services.database.read(has_living_admin)
        except DelegateError as error:
            return (str(error),)
        except TimeoutError:
            return ("the database does not answer",)
        return ()

    async def _ensure_admin(self, database: Database) -> None:
        """Writes a first operator's token where no living one is known."""
        if await database.read(has_living_admin):
            return

        # The file first: a crash in between must not leave a living token that nobody has.
        secret = new_secret("admin")
        path = self._state_dir / ADMIN_TOKEN_FILE
        _write_secret(path, secret)
        wanted = NewToken(name=_ADMIN_NAME, scopes=(ADMIN,), life_seconds=None)
        await database.write(lambda transaction: create_token(transaction, wanted, "manager", secret))
        log.info("manager.admin_token_written", file=str(path))

    async def _serve(self, services: Services, exits: contextlib.AsyncExitStack) -> None:
        probes = probe_routes(unhealthy=self._unhealthy, unready=self._unready, metrics=self.metrics)
        self._logins = Logins(services.database, services.attempt_key, self._clock)
        pages = Pages(services, self._logins)
        application = build_application(services, self.metrics, [*probes, *pages.routes()], on_page_fault=pages.problem)
        runner = web.AppRunner(
            application,
            access_log=None,
            handle_signals=False,
            handler_cancellation=True,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            shutdown_timeout=_SHUTDOWN_SECONDS,
            max_line_size=16 * 1024,
            max_field_size=16 * 1024,
        )
        await runner.setup()
        exits.push_async_callback(runner.cleanup)
        context = None if self._tls is None else self._tls.context
        site = web.TCPSite(runner, self._listen.host or None, self._listen.port, ssl_context=context, backlog=1024)
        try:
            await site.start()
        except OSError as error:
            raise ManagerStartError(
                f"{self._listen} can't be listened on: {error.strerror or error}",
                hint="choose another address with DELEGATE_MANAGER_LISTEN, or stop what uses it",
            ) from error
        exits.callback(self._dispatch.close)
        host, port = runner.addresses[0][:2]
        scheme = "https" if self._tls is not None else "http"
        self.url = f"{scheme}://{ListenAddress(str(host), int(port))}"


def _tell_death(name: str, task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("manager.part_died", part=name, exc_info=task.exception())


@contextlib.contextmanager
def _own_directory(path: Path) -> Iterator[None]:
    """The state directory, for this process alone. Raises ManagerStartError."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(path / "manager.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ManagerStartError(
            f"the state directory {path} can't be used: {error.strerror}", hint="set DELEGATE_MANAGER_STATE_DIR to one that can be written"
        ) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ManagerStartError(
                f"another manager is at work in {path}", hint="stop it, or set DELEGATE_MANAGER_STATE_DIR to another directory"
            ) from error
        yield
    finally:
        os.close(lock)


def _write_secret(path: Path, secret: str) -> None:
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secret + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


async def serve(settings: ManagerSettings, stop: StopRequests) -> None:
    """Runs a manager until it is asked to stop. Raises ManagerStartError, StoreError, PartFailedError."""
    async with Manager.from_settings(settings) as manager:
        settle_garbage()
        stopped = asyncio.ensure_future(stop.wait())
        failed = asyncio.ensure_future(manager.wait_until_failed())
        try:
            await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                await failed
        finally:
            stopped.cancel()
            failed.cancel()
