"""Secrets that stand in the source for everybody to read. What is found is named by its place, never by its value."""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from delegate.foundation.redaction import names_a_secret
from delegate.model.policies.pod_specs import containers_of
from delegate.model.policies.violations import Flaw
from delegate.model.resources import JsonObject

_HINT = "take it out of the source and change it there where it is valid; keep it in External Secrets, Sealed Secrets, SOPS or Vault"
_SECRET_HINT = "use an ExternalSecret, a SealedSecret or SOPS: whoever can read the source can read this"  # noqa: S105 - advice, no password
_REFERENCES = re.compile(r"\$\(|\$\{|\{\{|^\s*<[^>]+>\s*$|^/|^(?:file|vault|ref|secretref|awssm|gcpsm)[:+]", re.IGNORECASE)
_NO_VALUES = frozenset({"", "true", "false", "null", "none", "changeme", "(hidden)", "redacted", "xxx"})
_NAMES_OF_OTHERS = re.compile(r"(?:secret|secrets|credential|credentials|authorization|cookie)$", re.IGNORECASE)
"""Fields that hold the name of a Secret more often than a secret."""
_KEYS_OF_OTHERS = frozenset({"secretKey", "tokenKey"})
_ASSIGNMENT = re.compile(
    r"^[ \t]*(?:export[ \t]+)?[\"']?([A-Za-z][\w.-]{0,80})[\"']?[ \t]*[=:][ \t]*[\"']?([^\s\"',#][^\s\"',]{3,})", re.MULTILINE
)
_ARGUMENT = re.compile(r"^--?([A-Za-z][\w-]*)=(.+)$", re.DOTALL)
_TELLTALE = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"
    r"|(?<![A-Za-z0-9_-])(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{20,}|xox[abpr]-[A-Za-z0-9-]{20,})"
    r"|(?<![A-Z0-9])(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])"
    r"|(?<![A-Za-z0-9])sk_live_[A-Za-z0-9]{20,}"
)
_LONGEST = 262_144
_LONGEST_REFERENCE = 4


def plaintext_secrets(body: JsonObject) -> Iterator[Flaw]:
    """Secret objects that bring values, unless those are encrypted (SOPS)."""
    if body.get("kind") != "Secret" or body.get("apiVersion") != "v1" or "sops" in body:
        return
    for part in ("data", "stringData"):
        values = body.get(part)
        names = [name for name, value in values.items() if _is_plain(value)] if isinstance(values, dict) else []
        if names:
            yield Flaw(f"the Secret's values stand in the source: {', '.join(sorted(map(str, names)))}", part, _SECRET_HINT)


def plaintext_credentials(body: JsonObject) -> Iterator[Flaw]:
    """Passwords, tokens and keys in any other object: environment variables, arguments, ConfigMaps and the files in them, other fields."""
    if body.get("kind") == "Secret" or "sops" in body:
        return
    for way, container in containers_of(body):
        yield from _in_container(way, container)
    if body.get("kind") == "ConfigMap":
        data = body.get("data")
        for name, value in data.items() if isinstance(data, dict) else ():
            yield from _in_file(f"data[{name}]", str(name), value)
        return
    for way, name, text in _leaves({key: value for key, value in body.items() if key not in ("metadata", "status")}, ""):
        if _TELLTALE.search(text[:_LONGEST]):
            yield Flaw(f"{way} holds a private key or an access token", way, _HINT)
        elif _is_own_secret(name, text) and name not in _KEYS_OF_OTHERS and not way.endswith(".value"):
            yield Flaw(f"{way} holds a value for {name}", way, _HINT)


def _in_container(way: str, container: JsonObject) -> Iterator[Flaw]:
    variables = container.get("env")
    for index, variable in enumerate(variables if isinstance(variables, list) else ()):
        if (
            isinstance(variable, dict)
            and isinstance(variable.get("value"), str)
            and _is_secret(str(variable.get("name")), variable["value"])
        ):
            yield Flaw(
                f"container {container.get('name')}: the environment variable {variable.get('name')} holds a value",
                f"{way}.env[{index}].value",
                f"use valueFrom.secretKeyRef; {_HINT}",
            )
    for part in ("command", "args"):
        given = container.get(part)
        for index, argument in enumerate(given if isinstance(given, list) else ()):
            match = _ARGUMENT.match(argument) if isinstance(argument, str) else None
            if match and _is_own_secret(match[1], match[2]):
                yield Flaw(f"container {container.get('name')}: the argument --{match[1]} holds a value", f"{way}.{part}[{index}]", _HINT)


def _in_file(way: str, name: str, value: Any) -> Iterator[Flaw]:
    """An entry of a ConfigMap: a value by itself, or a file with assignments in it."""
    if not isinstance(value, str):
        return
    text = value[:_LONGEST]
    if _TELLTALE.search(text):
        yield Flaw(f"{way} holds a private key or an access token", way, _HINT)
    elif "\n" not in text.strip():
        if _is_own_secret(name, text):
            yield Flaw(f"{way} holds a value for {name}", way, _HINT)
        return
    named = sorted({match[1] for match in _ASSIGNMENT.finditer(text) if _is_own_secret(match[1], match[2])})
    if named:
        yield Flaw(f"{way} holds values for {', '.join(named)}", way, _HINT)


def _leaves(value: Any, way: str, name: str = "") -> Iterator[tuple[str, str, str]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _leaves(below, f"{way}.{key}" if way else str(key), str(key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _leaves(below, f"{way}[{index}]", name)
    elif isinstance(value, str):
        yield way, name, value


def _is_own_secret(name: str, value: str) -> bool:
    return _is_secret(name, value) and not _NAMES_OF_OTHERS.search(name)


def _is_secret(name: str, value: str) -> bool:
    """Whether a value under this name is a secret itself: no reference, no placeholder, nothing encrypted."""
    return names_a_secret(name) and _is_plain(value) and not _REFERENCES.search(value)


def _is_plain(value: Any) -> bool:
    text = str(value).strip()
    return text.lower() not in _NO_VALUES and not text.startswith("ENC[") and not _decoded(text).startswith("ENC[")


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text[:64], validate=True).decode(errors="replace") if len(text) > _LONGEST_REFERENCE else ""
    except (binascii.Error, ValueError):
        return ""
