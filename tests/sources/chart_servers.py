"""Chart repositories to test with: static files over HTTP, and Debian's docker-registry."""

import asyncio
import base64
import contextlib
import datetime as dt
import hashlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import trustme
import yaml
from aiohttp import web
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.sources.charts import chart, packed
from tests.tools import require_tool

LOGIN = "ada:geheim-42-wort"
_HASHED = "$2b$04$0CM7TZ4P2V85ALcKJ2i0qOWatX.wWVRVPxDypc.X1fITc8CgU1mJy"  # of its password, by bcrypt
CHART_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


class ChartServer:
    """Static files over HTTP. `login` is the one that is let in; `moved` are paths that are elsewhere now."""

    def __init__(self, folder: Path, *, login: str = "", tls: ssl.SSLContext | None = None) -> None:
        self.folder = folder
        self.login = login
        self.tls = tls
        self.moved: dict[str, str] = {}
        self.requests: list[str] = []
        self.authorizations: list[str] = []
        self.charts: dict[str, list[dict[str, object]]] = {}
        self.port = 0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def add(self, name: str = "shop", version: str = "1.0.0", *, url: str = "", **files: str) -> bytes:
        """A version of a chart, and the index with it."""
        data = packed(chart(name, {path.replace("__", "/"): text for path, text in files.items()}, version=version), name)
        (self.folder / f"{name}-{version}.tgz").write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        entry: dict[str, object] = {"name": name, "version": version, "urls": [url or f"{name}-{version}.tgz"], "digest": digest}
        self.charts.setdefault(name, []).append(entry)
        self.write_index()
        return data

    def write_index(self) -> None:
        (self.folder / "index.yaml").write_text(yaml.safe_dump({"apiVersion": "v1", "entries": self.charts}))

    def count(self, path: str) -> int:
        return sum(path in request for request in self.requests)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["ChartServer"]:
        application = web.Application()
        application.router.add_get("/{path:.*}", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=self.tls).start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path)
        given = request.headers.get("Authorization", "")
        self.authorizations.append(given)
        if request.path in self.moved:
            raise web.HTTPFound(self.moved[request.path])
        if self.login and given != "Basic " + base64.b64encode(self.login.encode()).decode():
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": 'Basic realm="charts"'})
        path = self.folder / request.path.lstrip("/")
        if not path.is_file():
            raise web.HTTPNotFound
        return web.FileResponse(path)


def server_context(authority: trustme.CA, client_authority: trustme.CA | None = None, host: str = "127.0.0.1") -> ssl.SSLContext:
    """TLS of a server; with a client authority, clients show a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(host).configure_cert(context)
    if client_authority is not None:
        client_authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


class RegistryServer:
    """docker-registry on a free port. `login` is empty or LOGIN; with `tokens`, a server of tokens checks it."""

    def __init__(self, folder: Path, *, login: str = "", tokens: bool = False) -> None:
        self.folder = folder
        self.login = login
        self.tokens = TokenServer(login) if tokens else None
        self.port = 0
        self._program = require_tool("docker-registry")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["RegistryServer"]:
        self.folder.mkdir(parents=True)
        async with contextlib.AsyncExitStack() as stack:
            if self.tokens is not None:
                await stack.enter_async_context(self.tokens.running())
            self.port = free_port()
            configuration = self.folder / "config.json"
            configuration.write_text(json.dumps(self._configuration()))
            process = await asyncio.create_subprocess_exec(
                str(self._program), "serve", str(configuration), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
            )
            try:
                await self._wait()
                yield self
            finally:
                process.terminate()
                await process.wait()

    def _configuration(self) -> dict[str, object]:
        found: dict[str, object] = {
            "version": "0.1",
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(self.folder / "data")}, "delete": {"enabled": True}},
            "http": {"addr": self.address},
        }
        if self.tokens is not None:
            certificate = self.folder / "tokens.pem"
            certificate.write_bytes(self.tokens.certificate)
            options = {"realm": self.tokens.url, "service": "charts", "issuer": "tests", "rootcertbundle": str(certificate)}
            found["auth"] = {"token": options}
        elif self.login:
            file = self.folder / "htpasswd"
            file.write_text(f"ada:{_HASHED}\n")
            found["auth"] = {"htpasswd": {"realm": "charts", "path": str(file)}}
        return found

    async def _wait(self) -> None:
        async with asyncio.timeout(30), aiohttp.ClientSession() as session:
            while True:
                with contextlib.suppress(aiohttp.ClientConnectionError):
                    async with session.get(f"http://{self.address}/v2/"):
                        return
                await asyncio.sleep(0.05)

    async def push(self, name: str, tag: str, data: bytes, *, layer: str = CHART_LAYER) -> str:
        """An artifact with one layer. Returns the digest of its manifest."""
        async with aiohttp.ClientSession(headers=self._headers(name)) as session:
            config = await self._upload(session, name, b"{}")
            blob = await self._upload(session, name, data)
            manifest = {
                "schemaVersion": 2,
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": {"mediaType": "application/vnd.cncf.helm.config.v1+json", "digest": config, "size": 2},
                "layers": [{"mediaType": layer, "digest": blob, "size": len(data)}],
            }
            body = json.dumps(manifest).encode()
            kind = {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}
            async with session.put(f"http://{self.address}/v2/{name}/manifests/{tag}", data=body, headers=kind) as answer:
                assert answer.status == 201, await answer.text()
            return _digest(body)

    async def _upload(self, session: aiohttp.ClientSession, name: str, data: bytes) -> str:
        async with session.post(f"http://{self.address}/v2/{name}/blobs/uploads/") as answer:
            assert answer.status == 202, await answer.text()
            place = answer.headers["Location"]
        kind = {"Content-Type": "application/octet-stream"}
        async with session.put(f"{place}&digest={_digest(data)}", data=data, headers=kind) as answer:
            assert answer.status == 201, await answer.text()
        return _digest(data)

    def _headers(self, name: str) -> Mapping[str, str]:
        if self.tokens is not None:
            return {"Authorization": f"Bearer {self.tokens.issue([{'type': 'repository', 'name': name, 'actions': ['pull', 'push']}])}"}
        return {"Authorization": "Basic " + base64.b64encode(self.login.encode()).decode()} if self.login else {}

    def blob_file(self, data: bytes) -> Path:
        """Where the registry keeps a blob."""
        digest = hashlib.sha256(data).hexdigest()
        return self.folder / "data/docker/registry/v2/blobs/sha256" / digest[:2] / digest / "data"


class TokenServer:
    """Gives tokens as the distribution project's token specification says, to one login."""

    def __init__(self, login: str) -> None:
        self._login = login
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.certificate, self._der = _self_signed(self._key)
        self.asked: list[str] = []
        self.url = ""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["TokenServer"]:
        application = web.Application()
        application.router.add_get("/token", self._answer)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/token"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.query.get("scope", ""))
        expected = "Basic " + base64.b64encode(self._login.encode()).decode()
        if self._login and request.headers.get("Authorization") != expected:
            return web.json_response({"errors": []}, status=401)
        kind, name, actions = request.query["scope"].split(":")
        return web.json_response({"token": self.issue([{"type": kind, "name": name, "actions": actions.split(",")}])})

    def issue(self, access: list[dict[str, object]]) -> str:
        now = int(dt.datetime.now(dt.UTC).timestamp())
        head = {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(self._der).decode()]}
        claims = {
            "iss": "tests",
            "sub": "ada",
            "aud": "charts",
            "exp": now + 300,
            "nbf": now - 10,
            "iat": now,
            "jti": "1",
            "access": access,
        }
        signed = f"{_encoded(json.dumps(head).encode())}.{_encoded(json.dumps(claims).encode())}"
        return f"{signed}.{_encoded(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def _self_signed(key: rsa.RSAPrivateKey) -> tuple[bytes, bytes]:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tokens")])
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - dt.timedelta(hours=1)).not_valid_after(now + dt.timedelta(hours=1))
    made = builder.sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM), made.public_bytes(serialization.Encoding.DER)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextlib.asynccontextmanager
async def tinyproxy(folder: Path) -> AsyncIterator[tuple[int, Path]]:
    program = require_tool("tinyproxy")
    port, log = free_port(), folder / "tinyproxy.log"
    configuration = folder / "tinyproxy.conf"
    configuration.write_text(
        f'Port {port}\nListen 127.0.0.1\nTimeout 30\nLogFile "{log}"\nLogLevel Connect\nMaxClients 10\nBasicAuth ada proxy-passwort\n'
    )
    process = await asyncio.create_subprocess_exec(
        str(program), "-d", "-c", str(configuration), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await until_open(port)
        yield port, log
    finally:
        process.terminate()
        await process.wait()


async def until_open(port: int) -> None:
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await writer.wait_closed()
                return
            await asyncio.sleep(0.05)
