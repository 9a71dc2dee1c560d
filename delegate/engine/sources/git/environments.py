"""The environment of every git process: what it may talk to, as whom, and that nobody else's configuration has a say.

No system, user or attribute configuration is read, no hook, filter, pager, helper or prompt is run, and no secret stands
in an argument list: passwords reach git through a credential helper that is bound to one host and reads the environment.
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from delegate.engine.sources.commands import minimal_environment
from delegate.engine.sources.git.settings import GitSettings, Login
from delegate.engine.sources.git.urls import RepositoryUrl, Transport
from delegate.foundation.secrets import SecretUrl
from delegate.foundation.settings.proxies import ProxyRules

_NOWHERE = os.devnull
_USERNAME_VARIABLE, _PASSWORD_VARIABLE = "DELEGATE_GIT_USERNAME", "DELEGATE_GIT_PASSWORD"
_HELPER = f'!f() {{ test "$1" = get || exit 0; printf "username=%s\\npassword=%s\\n" "${_USERNAME_VARIABLE}" "${_PASSWORD_VARIABLE}"; }}; f'
_CONFIGURATION = {
    "core.hooksPath": _NOWHERE,
    "core.attributesFile": _NOWHERE,
    "core.fsmonitor": "false",
    "core.askPass": "",
    "credential.helper": "",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "safe.directory": "*",
    "protocol.version": "2",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "transfer.fsckObjects": "true",
    "transfer.unpackLimit": "1",
    "pack.threads": "2",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "30",
    # Blemishes of old histories that harm nobody; everything else that fsck finds is refused.
    "fetch.fsck.badTimezone": "ignore",
    "fetch.fsck.missingSpaceBeforeDate": "ignore",
    "fetch.fsck.zeroPaddedFilemode": "ignore",
    "fetch.fsck.zeroPaddedDate": "ignore",
    "fetch.fsck.missingEmail": "ignore",
}
_SSH_OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "PasswordAuthentication=no",
    "KbdInteractiveAuthentication=no",
    "ConnectTimeout=20",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ControlMaster=no",
    "ControlPath=none",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "ProxyCommand=none",
    "LogLevel=ERROR",
)


def local_environment(outside: Mapping[str, str], home: Path) -> dict[str, str]:
    """For git processes that talk to nobody. `home` is an empty place of ours."""
    return minimal_environment(outside) | _isolation(home) | _as_variables(_CONFIGURATION) | {"GIT_ALLOW_PROTOCOL": ""}


def remote_environment(outside: Mapping[str, str], home: Path, url: RepositoryUrl, login: Login, settings: GitSettings) -> dict[str, str]:
    """For git processes that talk to one repository, and to nothing else."""
    configuration = dict(_CONFIGURATION)
    environment = minimal_environment(outside) | _isolation(home) | {"GIT_ALLOW_PROTOCOL": url.transport.value}
    if url.transport in (Transport.HTTPS, Transport.HTTP):
        environment |= _proxy(outside, url)
        if "SSL_CERT_FILE" in environment:
            configuration["http.sslCAInfo"] = environment["SSL_CERT_FILE"]
        if login.password is not None:
            origin = "/".join(url.address.split("/", 3)[:3])
            configuration[f"credential.{origin}.helper"] = _HELPER
            environment |= {_USERNAME_VARIABLE: login.username or "git", _PASSWORD_VARIABLE: login.password.reveal()}
    elif url.transport is Transport.SSH:
        environment |= {"GIT_SSH_COMMAND": _ssh_command(login, settings), "GIT_SSH_VARIANT": "ssh"}
        if outside.get("SSH_AUTH_SOCK") and login.ssh_key is None:
            environment["SSH_AUTH_SOCK"] = outside["SSH_AUTH_SOCK"]
    return environment | _as_variables(configuration)


def _isolation(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "GIT_CEILING_DIRECTORIES": str(home.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": _NOWHERE,
        "GIT_CONFIG_GLOBAL": _NOWHERE,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_PAGER": "cat",
    }


def _as_variables(configuration: Mapping[str, str]) -> dict[str, str]:
    variables = {"GIT_CONFIG_COUNT": str(len(configuration))}
    for index, (key, value) in enumerate(configuration.items()):
        variables |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return variables


def _proxy(outside: Mapping[str, str], url: RepositoryUrl) -> dict[str, str]:
    def variable(name: str) -> str:
        return outside.get(name) or outside.get(name.upper()) or ""

    http, https = variable("http_proxy"), variable("https_proxy")
    exceptions = tuple(entry for entry in variable("no_proxy").split(",") if entry.strip())
    rules = ProxyRules(SecretUrl(http) if http else None, SecretUrl(https) if https else None, exceptions)
    proxy = rules.address_for(url.address)
    # Decided here, by the one rule: libcurl's own reading of NO_PROXY differs from version to version.
    return {"no_proxy": "*"} if proxy is None else {f"{url.transport}_proxy": proxy}


def _ssh_command(login: Login, settings: GitSettings) -> str:
    options = [*_SSH_OPTIONS]
    if settings.known_hosts is not None:
        options += [f'UserKnownHostsFile="{settings.known_hosts}"', f"GlobalKnownHostsFile={_NOWHERE}"]
    arguments = ["ssh", "-F", _NOWHERE]
    if login.ssh_key is not None:
        arguments += ["-i", str(login.ssh_key)]
        options += ["IdentitiesOnly=yes", "IdentityAgent=none"]
    for option in options:
        arguments += ["-o", option]
    return shlex.join(arguments)
