"""Names that the Harness Delegate and its runner (dlite) use for what is set here, so that their manifests work unchanged.

A setting's own name wins over an alias, an alias over the settings file. Values are translated where they are written differently;
what has no counterpart is named, so that nobody waits for its effect.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote

_LEVELS = {"trace": "debug", "warn": "warning", "fatal": "error", "severe": "error"}
_TRUE = ("true", "1", "yes", "on")


class Alias(NamedTuple):
    """What an alias says, in the words of the setting, and the variable it was found in."""

    text: str
    variable: str


class _Source(NamedTuple):
    variable: str
    translate: Callable[[str], str | None]


def _as_it_is(text: str) -> str | None:
    return text


def _level(text: str) -> str | None:
    return _LEVELS.get(text.strip().lower(), text)


def _debug(text: str) -> str | None:
    return "debug" if text.strip().lower() in _TRUE else None


def _tags(text: str) -> str | None:
    """Tags are bare words there; here they become labels with the value `true`, unless they are pairs already."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    return ",".join(word if "=" in word else f"{word}=true" for word in words)


_BY_KEY: dict[str, tuple[_Source, ...]] = {
    "manager_url": (_Source("MANAGER_HOST_AND_PORT", _as_it_is), _Source("DRONE_DELEGATE_MANAGER_ENDPOINT", _as_it_is)),
    "token": (_Source("DRONE_DELEGATE_ACCOUNT_SECRET", _as_it_is),),
    "name": (_Source("DELEGATE_GROUP_NAME", _as_it_is), _Source("DRONE_DELEGATE_NAME", _as_it_is)),
    "labels": (_Source("DELEGATE_TAGS", _tags),),
    "task_capacity": (_Source("DELEGATE_TASK_LIMIT", _as_it_is),),
    "log_level": (_Source("LOGGING_LEVEL", _level), _Source("DRONE_TRACE", _debug), _Source("DRONE_DEBUG", _debug)),
}
_PROXY_KEYS = ("http_proxy", "https_proxy")
WITHOUT_EFFECT = {
    "DELEGATE_DESCRIPTION": "the description stands in the token (`delegate token create --description`)",
    "DELEGATE_TYPE": "there is one kind of delegate",
    "DELEGATE_NAMESPACE": "the namespace is the pod's own",
    "DELEGATE_CPU_THRESHOLD": "DELEGATE_TASK_CAPACITY bounds what runs at once",
    "DELEGATE_RESOURCE_THRESHOLD": "DELEGATE_TASK_CAPACITY bounds what runs at once",
    "DELEGATE_CLIENT_CERTIFICATE_PATH": "DELEGATE_CERT_DIR names the directory that somebody else writes certificates to",
    "DELEGATE_CLIENT_CERTIFICATE_KEY_PATH": "DELEGATE_CERT_DIR names the directory that somebody else writes certificates to",
}
"""Variables that begin as ours do, are Harness's, and mean nothing here; and what takes their place."""
VARIABLES = frozenset(source.variable for sources in _BY_KEY.values() for source in sources) | frozenset(
    ("PROXY_HOST", "PROXY_PORT", "PROXY_SCHEME", "PROXY_USER", "PROXY_PASSWORD")
)


def find_alias(key: str, environment: Mapping[str, str]) -> Alias | None:
    """What an alias says for a setting; None where none is set. Empty variables count as unset."""
    if key in _PROXY_KEYS:
        return _proxy(environment)
    for variable, translate in _BY_KEY.get(key, ()):
        text = environment.get(variable)
        translated = translate(text) if text else None
        if translated:
            return Alias(translated, variable)
    return None


def _proxy(environment: Mapping[str, str]) -> Alias | None:
    host = environment.get("PROXY_HOST", "").strip()
    if not host:
        return None
    user, password = environment.get("PROXY_USER", ""), environment.get("PROXY_PASSWORD", "")
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user else ""
    port = environment.get("PROXY_PORT", "").strip()
    place = f"[{host}]" if ":" in host and not host.startswith("[") else host
    scheme = environment.get("PROXY_SCHEME", "").strip().lower() or "http"
    return Alias(f"{scheme}://{login}{place}{f':{port}' if port else ''}", "PROXY_HOST")
