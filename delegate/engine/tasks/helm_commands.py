"""The real helm, at work on a cluster: with a kubeconfig of its own that nobody else can read, and nothing of this machine's."""

import base64
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from delegate.engine.clusters.credentials import Credentials
from delegate.engine.sources.commands import Command, minimal_environment, run_command
from delegate.engine.sources.errors import CommandNotFoundError
from delegate.engine.sources.keyfiles import private_files
from delegate.engine.tasks.errors import HelmFailedError
from delegate.foundation.redaction import redact
from delegate.foundation.secrets import Secret
from delegate.model.resources import JsonObject

_GRACE_SECONDS = 15.0
"""Ended politely, helm says in its record that it failed; killed, it leaves it pending."""
_LONGEST_WORDS = 600


class HelmCommands(msgspec.Struct, frozen=True):
    """`program` is a name on PATH or a path; `directory` is where its files lie for the moment."""

    program: str
    directory: Path
    environment: Mapping[str, str]

    async def roll_back(self, credentials: Credentials, *, name: str, revision: int, namespace: str, seconds: float) -> None:
        """Returns when all of it is ready. Raises HelmFailedError in helm's words, CommandNotFoundError, CommandTimeoutError,
        CacheDirectoryError."""
        program = shutil.which(self.program, path=self.environment.get("PATH"))
        if program is None:
            raise CommandNotFoundError(f"{self.program} is not installed", hint="install it on PATH, or set DELEGATE_HELM to its path")
        async with private_files(self.directory, {"kubeconfig": _kubeconfig(credentials)}) as files:
            kubeconfig = files["kubeconfig"]
            home = kubeconfig.parent
            arguments = (
                *(program, "rollback", name, str(revision), "--namespace", namespace),
                *("--kubeconfig", str(kubeconfig), "--wait", "--timeout", f"{max(1, int(seconds))}s"),
            )
            places = {variable: str(home) for variable in ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
            command = Command(arguments, minimal_environment(self.environment) | places, home, grace_seconds=_GRACE_SECONDS)
            ended = await run_command(command, timeout=seconds + _GRACE_SECONDS)
        if ended.exit_code != 0:
            words = redact(ended.stderr.strip() or ended.stdout.decode(errors="replace").strip())[-_LONGEST_WORDS:]
            raise HelmFailedError(f"helm rollback {name} {revision} ended with {ended.exit_code}: {words}")


def _kubeconfig(credentials: Credentials) -> str:
    cluster: JsonObject = {"server": credentials.server}
    user: JsonObject = {}
    if credentials.ca:
        cluster["certificate-authority-data"] = _encoded(credentials.ca)
    if not credentials.verify:
        cluster["insecure-skip-tls-verify"] = True
    if credentials.server_name:
        cluster["tls-server-name"] = credentials.server_name
    if credentials.proxy is not None:
        cluster["proxy-url"] = credentials.proxy.reveal()
    if credentials.certificate is not None:
        user["client-certificate-data"] = _encoded(credentials.certificate.chain)
        user["client-key-data"] = _encoded(credentials.certificate.key)
    if credentials.authorization is not None:
        user |= _login(credentials.authorization)
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": cluster}],
        "users": [{"name": "here", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
    }
    return msgspec.json.encode(document).decode()


def _login(authorization: Secret) -> JsonObject:
    kind, _, value = authorization.reveal().partition(" ")
    if kind != "Basic":
        return {"token": value}
    username, _, password = base64.b64decode(value).decode().partition(":")
    return {"username": username, "password": password}


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
