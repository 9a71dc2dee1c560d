"""Entries of the file of DELEGATE_PROVIDERS: what each means, and with file and line what can't be meant."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from delegate.engine.verification.errors import ProviderConfigurationError
from delegate.engine.verification.providers.credentials import SecretReference
from delegate.foundation.redaction import KNOWN_SECRETS
from delegate.foundation.rule_files import RuleFile
from delegate.foundation.secrets import Secret
from delegate.foundation.settings.urls import is_loopback, parse_http_url

SECRETS = ("password", "token", "api_key", "application_key", "access_key", "client_secret")
"""Settings that are secret: each also as `<key>_file`, `<key>_env`, or `<key>_secret` {namespace, name, key}."""
_FORMS = ("", "_file", "_env", "_secret")
_COMMON = (
    "name",
    "type",
    "url",
    "headers",
    "secret_headers",
    "ca_file",
    "client_certificate_file",
    "client_key_file",
    "insecure",
    "allow_http",
)
_IN_CLUSTER = (".svc", ".svc.cluster.local")
_LATER = {"cloudwatch": "CloudWatch", "influxdb": "InfluxDB", "graphite": "Graphite", "dynatrace": "Dynatrace"}


class Shape(NamedTuple):
    """What an entry of one type may hold beyond what all may."""

    settings: frozenset[str]
    secrets: frozenset[str]
    logins: tuple[tuple[str, ...], ...]
    address: Callable[[Mapping[str, str]], str] | None = None
    """The url of an entry that gives none, by its settings."""


class Entry(msgspec.Struct, frozen=True):
    """One source as an operator described it. `settings` are those of its type; secrets are references only."""

    name: str
    type: str
    url: str
    settings: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    secrets: Mapping[str, SecretReference] = {}
    secret_headers: Mapping[str, SecretReference] = {}
    ca_file: Path | None = None
    client_certificate: tuple[Path, Path] | None = None
    insecure: bool = False
    anonymous: bool = False


def read_entries(file: RuleFile, shapes: Mapping[str, Shape]) -> dict[str, Entry]:
    """By name. Raises ProviderConfigurationError with file and line."""
    document = file.document
    where = "providers"
    try:
        if isinstance(document, dict) and set(document) == {"providers"}:
            document = document["providers"]
        if not isinstance(document, list):
            raise ProviderConfigurationError("is no list of providers", hint="write providers: [{name, type, url}]")
        found: dict[str, Entry] = {}
        for index, each in enumerate(document):
            where = f"providers[{index}]"
            entry = _Reader(each, where, shapes).read()
            if entry.name in found:
                raise ProviderConfigurationError(f"{where}: the name {entry.name!r} is given twice")
            found[entry.name] = entry
    except ProviderConfigurationError as error:
        error.file, error.line = str(file.path), file.line_of(error.object or where)
        error.object = ""
        raise
    return found


def shape_of(type: str, shapes: Mapping[str, Shape]) -> Shape:
    """Raises ProviderConfigurationError for a type that isn't there, or not yet."""
    if type in shapes:
        return shapes[type]
    if type.lower() in _LATER:
        raise ProviderConfigurationError(
            f"{_LATER[type.lower()]} can't be asked yet",
            hint="reach it through Grafana (type grafana), or by type http where it speaks JSON",
        )
    raise ProviderConfigurationError(f"there is no type {type!r}", hint=nearest(type, shapes))


def nearest(word: str, known: Iterable[str]) -> str:
    """`did you mean ...`, or all that there is."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are: {', '.join(known) or 'none'}"


class _Reader:
    def __init__(self, body: object, where: str, shapes: Mapping[str, Shape]) -> None:
        self._where = where
        if not isinstance(body, dict):
            raise self._fault("is no entry", hint="write {name, type, url}")
        self._body = body
        self._shapes = shapes

    def read(self) -> Entry:
        name, type_ = self._text("name"), self._text("type")
        if not name or not type_:
            raise self._fault(f"has no {'type' if name else 'name'}")
        try:
            shape = shape_of(type_, self._shapes)
        except ProviderConfigurationError as error:
            error.object = f"{self._where}.type"
            raise
        self._check_keys(shape)
        secrets = {key: found for key in sorted(shape.secrets) if (found := self._secret(self._body, key, "")) is not None}
        entry = Entry(
            name=name,
            type=type_,
            url=self._url(shape),
            settings={key: self._text(key) for key in sorted(shape.settings) if key in self._body},
            headers=self._headers(),
            secrets=secrets,
            secret_headers=self._secret_headers(),
            ca_file=self._path("ca_file"),
            client_certificate=self._certificate(),
            insecure=self._flag("insecure"),
            anonymous=not secrets,
        )
        self._check_login(entry, shape)
        self._check_http(entry)
        return entry

    def _check_keys(self, shape: Shape) -> None:
        known = {*_COMMON, *shape.settings, *(f"{key}{form}" for key in shape.secrets for form in _FORMS)}
        for key in self._body:
            if key not in known:
                raise self._fault(f"{key} means nothing to the type {self._body['type']}", hint=nearest(key, known), at=key)

    def _check_login(self, entry: Entry, shape: Shape) -> None:
        given = {key for key in (*entry.secrets, *entry.settings) if any(key in login for login in shape.logins)}
        if given and not any(given == set(login) for login in shape.logins):
            ways = " or ".join(" and ".join(login) for login in shape.logins)
            raise self._fault(f"has {', '.join(sorted(given))}, where {ways} belong together")

    def _check_http(self, entry: Entry) -> None:
        """Credentials go in the clear to this machine and inside the cluster alone, unless that is said to be right."""
        host = urlsplit(entry.url).hostname or ""
        inside = is_loopback(entry.url) or host.endswith(_IN_CLUSTER) or "." not in host
        if entry.url.startswith("http:") and not inside and (entry.secrets or entry.secret_headers) and not self._flag("allow_http"):
            hint = "use https, or say allow_http: true where the network between is trusted"
            raise self._fault(f"{entry.url} would send the credentials in the clear", hint=hint, at="url")

    def _url(self, shape: Shape) -> str:
        text = self._text("url")
        if not text and shape.address is not None:
            text = shape.address({key: self._text(key) for key in shape.settings})
        if not text:
            raise self._fault("has no url")
        try:
            return parse_http_url(text)
        except ValueError as error:
            raise self._fault(str(error), at="url") from error

    def _text(self, key: str) -> str:
        value = self._body.get(key, "")
        if isinstance(value, bool):
            return "true" if value else "false"
        if not isinstance(value, str | int | float):
            raise self._fault(f"{key} is no text", at=key)
        return str(value).strip()

    def _flag(self, key: str) -> bool:
        value = self._body.get(key, False)
        if not isinstance(value, bool):
            raise self._fault(f"{key} is neither true nor false", at=key)
        return value

    def _path(self, key: str) -> Path | None:
        text = self._text(key)
        if text and not Path(text).is_absolute():
            raise self._fault(f"{key} is no absolute path", at=key)
        return Path(text) if text else None

    def _certificate(self) -> tuple[Path, Path] | None:
        certificate, key = self._path("client_certificate_file"), self._path("client_key_file")
        if (certificate is None) != (key is None):
            raise self._fault("client_certificate_file and client_key_file belong together")
        return (certificate, key) if certificate is not None and key is not None else None

    def _headers(self) -> dict[str, str]:
        headers = self._body.get("headers") or {}
        if not isinstance(headers, dict) or not all(isinstance(value, str | int) and _is_header(str(value)) for value in headers.values()):
            raise self._fault("headers are no names and texts of one line", at="headers")
        for name in headers:
            if name.lower() in ("authorization", "cookie", "proxy-authorization"):
                raise self._fault(f"the header {name} is a secret", hint="give it under secret_headers", at="headers")
        return {str(name): str(value) for name, value in headers.items()}

    def _secret_headers(self) -> dict[str, SecretReference]:
        found: dict[str, SecretReference] = {}
        headers = self._body.get("secret_headers") or {}
        if not isinstance(headers, dict):
            raise self._fault("secret_headers are no names with {file}, {env} or {secret}", at="secret_headers")
        for name, body in headers.items():
            fields = {f"{name}_{form}": value for form, value in body.items()} if isinstance(body, dict) else {}
            reference = self._secret(fields, name, "secret_headers")
            if reference is None or len(fields) != 1:
                raise self._fault(f"the secret header {name} has not exactly one of file, env and secret", at="secret_headers")
            found[name] = reference
        return found

    def _secret(self, body: Mapping[str, object], key: str, at: str) -> SecretReference | None:
        forms = [f"{key}{form}" for form in _FORMS if f"{key}{form}" in body]
        if not forms:
            return None
        if len(forms) > 1:
            raise self._fault(f"{' and '.join(forms)} are the same secret", at=at or forms[1])
        (form,) = forms
        value = body[form]
        if form.endswith("_secret") and form != key:
            return self._cluster_secret(key, value, at or form)
        if not isinstance(value, str) or not value.strip():
            raise self._fault(f"{form} is no text", at=at or form)
        if form == key:
            KNOWN_SECRETS.add(value)
            return SecretReference(key, inline=Secret(value.strip()))
        if form.endswith("_env"):
            return SecretReference(key, variable=value.strip())
        path = Path(value.strip())
        if not path.is_absolute():
            raise self._fault(f"{form} is no absolute path", at=at or form)
        return SecretReference(key, file=path)

    def _cluster_secret(self, key: str, value: object, at: str) -> SecretReference:
        fields = value if isinstance(value, dict) else {}
        texts = {name: text for name, text in fields.items() if isinstance(text, str) and text}
        if set(texts) != {"namespace", "name", "key"} or len(texts) != len(fields):
            raise self._fault(f"{key}_secret is not {{namespace, name, key}}", at=at)
        return SecretReference(key, namespace=texts["namespace"], secret_name=texts["name"], secret_key=texts["key"])

    def _fault(self, words: str, *, hint: str = "", at: str = "") -> ProviderConfigurationError:
        body = getattr(self, "_body", {})
        name = body.get("name") if isinstance(body.get("name"), str) else ""
        place = f"provider {name!r}" if name else self._where
        return ProviderConfigurationError(f"{place}: {words}", hint=hint, object=f"{self._where}.{at}" if at else self._where)


def _is_header(value: str) -> bool:
    return "\n" not in value and "\r" not in value
