"""The environment of every git process: what it may talk to, as whom, and that nobody else's configuration has a say.

No system, user or attribute configuration is read, no hook, filter, pager, helper or prompt is run, and no secret stands
in an argument list: passwords reach git through a credential helper that is bound to one host and reads the environment.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from delegate.engine.sources.commands import minimal_environment
from delegate.engine.sources.fetching import rules_from
from delegate.engine.sources.git import tunnel
from delegate.engine.sources.git.settings import GitSettings, Login
from delegate.engine.sources.git.urls import RepositoryUrl, Transport
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
    "LogLevel=ERROR",
)
_TUNNEL = "ProxyCommand=" + shlex.join([sys.executable, "-I", tunnel.__file__]).replace("%", "%%") + " %h %p"


def local_environment(outside: Mapping[str, str], home: Path) -> dict[str, str]:
    """For git processes that talk to nobody. `home` is an empty place of ours."""
    return minimal_environment(outside) | _isolation(home) | _as_variables(_CONFIGURATION) | {"GIT_ALLOW_PROTOCOL": ""}


def remote_environment(
    outside: Mapping[str, str], home: Path, url: RepositoryUrl, *, login: Login, settings: GitSettings, files: Mapping[str, Path]
) -> dict[str, str]:
    """For git processes that talk to one repository, and to nothing else. `files` hold the texts of `login.files`."""
    configuration = dict(_CONFIGURATION)
    environment = minimal_environment(outside) | _isolation(home) | {"GIT_ALLOW_PROTOCOL": url.transport.value}
    if url.transport in (Transport.HTTPS, Transport.HTTP):
        environment |= _proxy(login.proxies or rules_from(outside), url)
        configuration |= _trust(environment.get("SSL_CERT_FILE", ""), login, files)
        origin = "/".join(url.address.split("/", 3)[:3])
        if login.bearer_token is not None:
            configuration[f"http.{origin}/.extraHeader"] = f"Authorization: Bearer {login.bearer_token.reveal()}"
        elif login.password is not None:
            configuration[f"credential.{origin}.helper"] = _HELPER
            environment |= {_USERNAME_VARIABLE: login.username or "git", _PASSWORD_VARIABLE: login.password.reveal()}
    elif url.transport is Transport.SSH:
        proxy = login.tunnel.address_for(f"https://{':'.join(url.origin[1:])}") if login.tunnel is not None else None
        environment |= {"GIT_SSH_COMMAND": _ssh_command(login, settings, files, tunnelled=proxy is not None), "GIT_SSH_VARIANT": "ssh"}
        environment |= {tunnel.VARIABLE: proxy} if proxy is not None else {}
        if outside.get("SSH_AUTH_SOCK") and login.ssh_key is None and "ssh_key" not in files:
            environment["SSH_AUTH_SOCK"] = outside["SSH_AUTH_SOCK"]
    return environment | _as_variables(configuration)


def _trust(system: str, login: Login, files: Mapping[str, Path]) -> dict[str, str]:
    """Whom to take for the repository, and with which certificate to present ourselves."""
    configuration = {}
    authority = str(files.get("authority") or system)
    if authority:
        configuration["http.sslCAInfo"] = authority
    if login.insecure:
        configuration["http.sslVerify"] = "false"
    if "certificate" in files and "key" in files:
        configuration |= {"http.sslCert": str(files["certificate"]), "http.sslKey": str(files["key"])}
    return configuration


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


def _proxy(rules: ProxyRules, url: RepositoryUrl) -> dict[str, str]:
    proxy = rules.address_for(url.address)
    # Decided here, by the one rule: libcurl's own reading of NO_PROXY differs from version to version.
    return {"no_proxy": "*"} if proxy is None else {f"{url.transport}_proxy": proxy}


def _ssh_command(login: Login, settings: GitSettings, files: Mapping[str, Path], *, tunnelled: bool) -> str:
    options = [_TUNNEL if tunnelled else "ProxyCommand=none", *_SSH_OPTIONS]
    known_hosts = files.get("known_hosts") or settings.known_hosts
    if login.ignore_host_key:
        options = ["StrictHostKeyChecking=no", f"UserKnownHostsFile={_NOWHERE}", *options]  # the first one counts
    elif known_hosts is not None:
        options += [f'UserKnownHostsFile="{known_hosts}"', f"GlobalKnownHostsFile={_NOWHERE}"]
    arguments = ["ssh", "-F", _NOWHERE]
    key = files.get("ssh_key") or login.ssh_key
    if key is not None:
        arguments += ["-i", str(key)]
        options += ["IdentitiesOnly=yes", "IdentityAgent=none"]
    for option in options:
        arguments += ["-o", option]
    return shlex.join(arguments)
