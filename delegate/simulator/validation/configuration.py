"""Validation of ConfigMaps and Secrets."""

import base64
import re
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.statuses import Cause

LARGEST = 1024 * 1024
_KEY = re.compile(r"[-._a-zA-Z0-9]+\Z")
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name',"
    " regex used for validation is '[-._a-zA-Z0-9]+')"
)


def _keys(data: Any, path: str) -> list[Cause]:
    causes = []
    for key in data or ():
        if len(key) > 253:
            causes.append(statuses.invalid_value(f"{path}[{key}]", key, "must be no more than 253 characters"))
        if not _KEY.match(key):
            causes.append(statuses.invalid_value(f"{path}[{key}]", key, _KEY_TEXT))
        elif key in (".", ".."):
            causes.append(statuses.invalid_value(f"{path}[{key}]", key, f"must not be '{key}'"))
        elif key.startswith(".."):
            causes.append(statuses.invalid_value(f"{path}[{key}]", key, "must not start with '..'"))
    return causes


def _config_map(body: JsonObject) -> list[Cause]:
    data, binary = body.get("data") or {}, body.get("binaryData") or {}
    causes = _keys(data, "data") + _keys(binary, "binaryData")
    causes += [statuses.invalid_value(f"data[{key}]", key, f"duplicate of key present in binaryData") for key in data if key in binary]  # noqa: F541
    size = sum(len(value.encode()) for value in data.values()) + sum(len(value) * 3 // 4 for value in binary.values())
    if size > LARGEST:
        causes.append(statuses.too_long("[]", LARGEST))
    return causes


_REQUIRED_KEYS = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def _secret(body: JsonObject) -> list[Cause]:
    data = body.get("data") or {}
    causes = _keys(data, "data")
    if sum(len(value) * 3 // 4 for value in data.values()) > LARGEST:
        causes.append(statuses.too_long("data", LARGEST))
    causes += [statuses.required(f"data[{key}]") for key in _REQUIRED_KEYS.get(body.get("type", ""), ()) if key not in data]
    if body.get("type") == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        causes += [statuses.required("data[username]"), statuses.required("data[password]")]
    if body.get("type") == "kubernetes.io/service-account-token":
        name = "kubernetes.io/service-account.name"
        if not (body["metadata"].get("annotations") or {}).get(name):
            causes.append(statuses.required(f"metadata.annotations[{name}]"))
    return causes


def secret_warnings(body: JsonObject) -> list[str]:
    """What is wrong with a certificate and its key, as far as the form goes."""
    data = body.get("data") or {}
    if body.get("type") != "kubernetes.io/tls":
        return []
    for key, what in (("tls.crt", "certificate"), ("tls.key", "key")):
        if b"-----BEGIN" not in base64.b64decode(data.get(key) or ""):
            return [f"tls: failed to find any PEM data in {what} input"]
    return []


TABLE = {
    ("", "ConfigMap"): _config_map,
    ("", "Secret"): _secret,
}
