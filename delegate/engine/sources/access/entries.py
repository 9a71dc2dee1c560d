"""Argo CD's repository Secrets and ConfigMaps as values, and which of them is for which address. Pure.

Secrets are labelled `argocd.argoproj.io/secret-type`: `repository` is for the address in `url`, `repo-creds` is a template
for every address that begins with it, up to a `/`; the longest wins. A repository without credentials of its own takes those
of its template. The ConfigMap argocd-tls-certs-cm holds authorities by host, argocd-ssh-known-hosts-cm host keys,
argocd-gpg-keys-cm keys that may sign; delegate-ssh-signers-cm those of OpenSSH. Of an AppProject its signatureKeys count.
"""

import base64
import binascii
import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from delegate.engine.sources.errors import AccessError
from delegate.foundation.secrets import Secret, SecretUrl
from delegate.model.resources import JsonObject

SECRET_TYPE = "argocd.argoproj.io/secret-type"  # noqa: S105 - a label's name
TLS_CERTIFICATES, KNOWN_HOSTS = "argocd-tls-certs-cm", "argocd-ssh-known-hosts-cm"
GPG_KEYS, ALLOWED_SIGNERS = "argocd-gpg-keys-cm", "delegate-ssh-signers-cm"
_ALLOWED_SIGNERS_KEY = "allowed_signers"
_KNOWN_HOSTS_KEY = "ssh_known_hosts"
_TYPES = {"repository": False, "repo-creds": True}
_TRUE = ("true", "1", "t", "yes")
_UNSUPPORTED = ("gcpServiceAccountKey", "azureServicePrincipalClientSecret", "useAzureWorkloadIdentity")
_SCP_LIKE = re.compile(r"(?:([^@/:\s]+)@)?([^:/\s]+):(?!//|\d+/)(.+)")
"""`user@host:path`, and not `host:port/path`, which is a registry's."""


class Kind(enum.StrEnum):
    """What is at an address."""

    GIT = "git"
    HELM = "helm"
    OCI = "oci"


class GithubApp(msgspec.Struct, frozen=True):
    """`installation` 0 is looked up by the repository's owner. `url` is that of the API."""

    id: int
    installation: int
    private_key: Secret
    url: str = "https://api.github.com"


class Entry(msgspec.Struct, frozen=True):
    """Access to one address, or with `is_template` to all that begin with it. `origin` says where it was read."""

    url: str
    kind: Kind = Kind.GIT
    is_template: bool = False
    name: str = ""
    username: str = ""
    password: Secret | None = None
    bearer_token: Secret | None = None
    ssh_private_key: Secret | None = None
    tls_certificate: Secret | None = None
    tls_key: Secret | None = None
    github_app: GithubApp | None = None
    proxy: SecretUrl | None = None
    no_proxy: str = ""
    insecure: bool = False
    ignore_host_key: bool = False
    plain_http: bool = False
    enable_lfs: bool = False
    unsupported: tuple[str, ...] = ()
    origin: str = ""

    @property
    def has_credentials(self) -> bool:
        given = (self.password, self.bearer_token, self.ssh_private_key, self.tls_certificate, self.github_app)
        return any(each is not None for each in given) or bool(self.unsupported)

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """All that must be seen nowhere."""
        app_key = self.github_app.private_key if self.github_app is not None else None
        proxy = self.proxy.password if self.proxy is not None else None
        given = (self.password, self.bearer_token, self.ssh_private_key, self.tls_key, app_key, proxy)
        return tuple(each for each in given if each is not None)


class Access(msgspec.Struct, frozen=True):
    """Everything that was read: entries, authorities (PEM) by host, host keys (a known_hosts text).

    And who may sign: GnuPG's public keys (armored) by their ids, an allowed_signers text of OpenSSH; the ids of keys that
    projects want revisions to be signed by.
    """

    entries: tuple[Entry, ...] = ()
    authorities: Mapping[str, str] = {}
    known_hosts: str = ""
    gpg_keys: Mapping[str, str] = {}
    allowed_signers: str = ""
    projects: Mapping[str, tuple[str, ...]] = {}

    def joined(self, other: "Access") -> "Access":
        """Both; what this one says of a host, key or project wins."""
        return Access(
            (*self.entries, *other.entries),
            {**other.authorities, **self.authorities},
            "\n".join(filter(None, (self.known_hosts, other.known_hosts))),
            {**other.gpg_keys, **self.gpg_keys},
            "\n".join(filter(None, (self.allowed_signers, other.allowed_signers))),
            {**other.projects, **self.projects},
        )

    def authority_for(self, url: str) -> str:
        """The authorities that a host's certificate has to come from; empty: those of the system."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        return self.authorities.get(parts.netloc.rpartition("@")[2].lower()) or self.authorities.get(host, "")


def read_access(documents: Iterable[tuple[JsonObject, str]]) -> Access:
    """What Secrets and ConfigMaps say, each with where it was read; others are none of ours. Raises AccessError."""
    entries: list[Entry] = []
    authorities: dict[str, str] = {}
    known_hosts: list[str] = []
    signing = Access()
    for body, origin in documents:
        metadata = body.get("metadata") if isinstance(body.get("metadata"), dict) else {}
        labels = metadata.get("labels") or {} if isinstance(metadata, dict) else {}
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        match body.get("kind"):
            case "Secret" if isinstance(labels, dict) and labels.get(SECRET_TYPE) in _TYPES:
                entries.append(read_entry(_secret_data(body, origin), origin, is_template=_TYPES[labels[SECRET_TYPE]]))
            case "ConfigMap" if name == TLS_CERTIFICATES:
                authorities |= {str(host).lower(): str(text) for host, text in (body.get("data") or {}).items()}
            case "ConfigMap" if name == KNOWN_HOSTS:
                known_hosts.append(str((body.get("data") or {}).get(_KNOWN_HOSTS_KEY) or ""))
            case "ConfigMap" if name == GPG_KEYS:
                signing = signing.joined(Access(gpg_keys={str(key): str(text) for key, text in (body.get("data") or {}).items()}))
            case "ConfigMap" if name == ALLOWED_SIGNERS:
                signing = signing.joined(Access(allowed_signers=str((body.get("data") or {}).get(_ALLOWED_SIGNERS_KEY) or "")))
            case "AppProject" if name:
                signing = signing.joined(Access(projects={str(name): _signature_keys(body, origin)}))
            case _:
                pass
    return Access(tuple(entries), authorities, "\n".join(known_hosts)).joined(signing)


def _signature_keys(project: JsonObject, origin: str) -> tuple[str, ...]:
    spec = project.get("spec")
    listed = spec.get("signatureKeys") if isinstance(spec, dict) else None
    keys = [each.get("keyID") if isinstance(each, dict) else None for each in (listed if isinstance(listed, list) else [])]
    if (listed and not isinstance(listed, list)) or not all(isinstance(key, str) and key for key in keys):
        raise AccessError("spec.signatureKeys of a project is no list of key ids", hint="write - keyID: ...", file=origin)
    return tuple(str(key) for key in keys)


def read_entry(data: Mapping[str, str], origin: str, *, is_template: bool) -> Entry:
    """An entry from the decoded fields of a Secret. Raises AccessError; never shows a value."""
    url = data.get("url", "").strip()
    if not url:
        raise AccessError("a repository's Secret has no url", hint="add `url`", file=origin)
    kind = data.get("type", "git").strip().lower() or "git"
    if kind not in Kind.__members__.values():
        raise AccessError(f"type {kind!r} of a repository's Secret is not known", hint="it is git, helm or oci", file=origin)
    kind = Kind.OCI if _flag(data, "enableOCI") else Kind(kind)

    def secret(field: str) -> Secret | None:
        return Secret(data[field]) if data.get(field) else None

    return Entry(
        url=url,
        kind=kind,
        is_template=is_template,
        name=data.get("name", "").strip(),
        username=data.get("username", "").strip(),
        password=secret("password"),
        bearer_token=secret("bearerToken"),
        ssh_private_key=secret("sshPrivateKey"),
        tls_certificate=secret("tlsClientCertData"),
        tls_key=secret("tlsClientCertKey"),
        github_app=_github_app(data, origin),
        proxy=SecretUrl(data["proxy"]) if data.get("proxy") else None,
        no_proxy=data.get("noProxy", ""),
        insecure=_flag(data, "insecure"),
        ignore_host_key=_flag(data, "insecureIgnoreHostKey"),
        plain_http=_flag(data, "insecureOCIForceHttp"),
        enable_lfs=_flag(data, "enableLfs"),
        unsupported=tuple(name for name in _UNSUPPORTED if data.get(name, "").lower() not in ("", "false")),
        origin=origin,
    )


def find_entry(entries: Sequence[Entry], url: str, kinds: Iterable[Kind]) -> Entry | None:
    """The entry for an address: the repository's own, with the credentials of the template where it has none.

    Charts stand below the address of their repository, so an entry for one is for what is below it too.
    """
    kinds = tuple(kinds)
    wanted = normalize(url)
    possible = [entry for entry in entries if entry.kind in kinds and _covers(normalize(entry.url), wanted)]
    owning = [entry for entry in possible if not entry.is_template and (entry.kind is not Kind.GIT or normalize(entry.url) == wanted)]
    own = max(owning, key=lambda entry: len(entry.url), default=None)
    template = max((entry for entry in possible if entry.is_template), key=lambda entry: len(entry.url), default=None)
    if own is None or own.has_credentials or template is None:
        return own or template
    kept = {"url": own.url, "name": own.name, "is_template": False, "proxy": own.proxy or template.proxy}
    flags = {"insecure": own.insecure or template.insecure, "enable_lfs": own.enable_lfs or template.enable_lfs}
    return msgspec.structs.replace(template, **kept, **flags, no_proxy=own.no_proxy or template.no_proxy)


def normalize(url: str) -> str:
    """The same for the ways to write one address: without user, `.git` and trailing slash, the host in lower case."""
    text = url.strip()
    scp_like = _SCP_LIKE.fullmatch(text)
    if scp_like is not None and "://" not in text:
        text = f"ssh://{scp_like[2]}/{scp_like[3].lstrip('/')}"
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "", text
    authority, _, path = rest.partition("/")
    host = authority.rpartition("@")[2].lower()
    host = host.removesuffix({"https": ":443", "http": ":80", "ssh": ":22"}.get(scheme.lower(), ":"))
    trimmed = path.strip("/").removesuffix(".git")
    scheme = "" if scheme.lower() == "oci" else f"{scheme.lower()}://" if scheme else ""
    return f"{scheme}{host}/{trimmed}".rstrip("/")


def _covers(prefix: str, address: str) -> bool:
    return address == prefix or address.startswith(prefix + "/")


def _secret_data(body: JsonObject, origin: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, value in (body.get("data") or {}).items():
        try:
            found[field] = base64.b64decode(str(value), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise AccessError(f"{field} of a repository's Secret is no base64 of a text", file=origin) from None
    return found | {field: str(value) for field, value in (body.get("stringData") or {}).items()}


def _github_app(data: Mapping[str, str], origin: str) -> GithubApp | None:
    if not data.get("githubAppPrivateKey"):
        return None
    numbers = {}
    for field in ("githubAppID", "githubAppInstallationID"):
        text = data.get(field, "").strip() or "0"
        if not text.isascii() or not text.isdigit():
            raise AccessError(f"{field} of a repository's Secret is no number", file=origin)
        numbers[field] = int(text)
    url = data.get("githubAppEnterpriseBaseUrl", "").strip() or "https://api.github.com"
    return GithubApp(numbers["githubAppID"], numbers["githubAppInstallationID"], Secret(data["githubAppPrivateKey"]), url)


def _flag(data: Mapping[str, str], field: str) -> bool:
    return data.get(field, "").strip().lower() in _TRUE
