"""The sections of settings: what can be chosen, by default what, and why. Values only; reading them is `loading`'s.

Durations are seconds, sizes bytes. Whoever needs a section takes that section, not all of the settings.
"""

import enum
import socket
from collections.abc import Iterator
from pathlib import Path

from delegate.foundation.redaction import KNOWN_SECRETS
from delegate.foundation.secrets import Secret, SecretUrl
from delegate.foundation.settings.declarations import Fault, Resolving, section, setting
from delegate.foundation.settings.directories import cache_directory, state_directory
from delegate.foundation.settings.errors import SettingsError
from delegate.foundation.settings.kinds import (
    BOOLEAN,
    BUCKET,
    EXISTING_PATH,
    FINGERPRINT,
    LABELS,
    NAMES,
    PATH,
    PORT,
    PROXY,
    SECRET,
    TEXT,
    URL,
    choices,
    duration,
    integer,
    size,
)
from delegate.foundation.settings.urls import is_loopback, join_url

_DAY = 86400.0
LARGEST_TOKEN_BYTES = 64 * 2**10


class LogLevel(enum.StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(enum.StrEnum):
    JSON = "json"
    CONSOLE = "console"


def _host_name(resolving: Resolving) -> str:
    return socket.gethostname()


def _certificates(resolving: Resolving) -> Path:
    return Path(str(resolving.values["state_dir"])) / "certs"


def _local_state(resolving: Resolving) -> Path:
    return state_directory(resolving.environment)


def _local_cache(resolving: Resolving) -> Path:
    return cache_directory(resolving.environment)


def _plain_http(url: str, allowed: bool) -> Iterator[Fault]:
    if url.startswith("http://") and not allowed and not is_loopback(url):
        yield Fault(
            "manager_url",
            f"{url} would send the token in the clear",
            "use https, or give --allow-http (DELEGATE_ALLOW_HTTP=true) where the network between is trusted",
        )


def _read_token(path: Path) -> Secret | None:
    """What a file holds now; None where that is nothing, or it can't be read (it may just be replaced)."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_TOKEN_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError):
        return None
    token = Secret(text, path)
    KNOWN_SECRETS.add(token)
    return token or None


@section
class ManagerLink:
    """The way to the manager, for the daemon."""

    url: str = setting(
        "DELEGATE_MANAGER_URL",
        URL,
        "Address of the manager; a path in it is kept. http only to loopback, unless allowed.",
        default="",
        required=True,
    )
    allow_http: bool = setting(
        "DELEGATE_ALLOW_HTTP",
        BOOLEAN,
        "Accepts an http address beyond loopback: the token and every task travel in the clear.",
        default=False,
    )
    token: Secret | None = setting(
        "DELEGATE_TOKEN",
        SECRET,
        "Delegate token; needed until this delegate is enrolled.",
        default=None,
        flag="--delegate-token",
    )

    account_token_file: Path | None = setting(
        "DELEGATE_SERVICE_ACCOUNT_TOKEN_FILE",
        PATH,
        "A projected service account token to enrol with, for a manager that knows the cluster's keys; tried before the delegate token.",
        default=None,
    )
    manager_ca_file: Path | None = setting(
        "DELEGATE_MANAGER_CA_FILE",
        EXISTING_PATH,
        "Authorities to believe for the manager alone, beside the others (a PEM file, or a directory of them).",
        default=None,
    )
    manager_ca_pin: str = setting(
        "DELEGATE_MANAGER_CA_PIN",
        FINGERPRINT,
        "SHA-256 fingerprint of the manager's authority: it is asked for, and believed if that is its fingerprint.",
        default="",
    )

    def faults(self) -> Iterator[Fault]:
        return _plain_http(self.url, self.allow_http)

    def join(self, path: str) -> str:
        """The URL of a path of the manager's."""
        return join_url(self.url, path)

    def account_token(self) -> Secret | None:
        """The service account's token as it is now; the kubelet replaces it. None where there is none."""
        return None if self.account_token_file is None else _read_token(self.account_token_file)

    def bootstrap_token(self) -> Secret | None:
        """The delegate token as it is now: one that is in a file may be replaced there. None where there is none."""
        if self.token is None or self.token.file is None:
            return self.token or None
        return _read_token(self.token.file) or self.token

    def require_any_token(self) -> None:
        """Raises SettingsError where there is nothing to enrol with."""
        if self.account_token() is None:
            self.require_token()

    def require_token(self) -> Secret:
        """The token as it is now. Raises SettingsError that says how to give one."""
        token = self.bootstrap_token()
        if token is None:
            raise SettingsError(
                "DELEGATE_TOKEN is not set and this delegate is not enrolled yet",
                hint="set DELEGATE_TOKEN_FILE (or DELEGATE_TOKEN) to a token made with `delegate token create --name NAME --scope GITOPS`",
            )
        return token


@section
class Identity:
    """Who this delegate is, and where it keeps what it must not lose."""

    name: str = setting("DELEGATE_NAME", TEXT, "Name of the deployment; by default the host's.", computed=_host_name)
    labels: dict[str, str] = setting(
        "DELEGATE_LABELS", LABELS, "What selectors of tasks are matched with: key=value,key=value.", default_factory=dict
    )
    state_dir: Path = setting(
        "DELEGATE_STATE_DIR",
        PATH,
        "Identity, outbox and caches; besides the certificates' and the dead letters', the only directory that is written.",
        default=Path("/var/lib/delegate"),
    )
    cert_dir: Path = setting(
        "DELEGATE_CERT_DIR", PATH, "Key and certificates; by default `certs` in the state directory.", computed=_certificates
    )
    rotate_interval: float = setting(
        "DELEGATE_ROTATE_INTERVAL",
        duration(1.0, 365 * _DAY),
        "Seconds between rotations of the certificate; the life asked for is twice that.",
        default=_DAY,
    )


@section
class Pool:
    """How much is done at once."""

    capacity: int = setting(
        "DELEGATE_TASK_CAPACITY", integer(1, 10_000), "Slots: tasks that run at once.", default=16, flag="--task-capacity"
    )
    drain_timeout: float = setting(
        "DELEGATE_DRAIN_TIMEOUT",
        duration(0.0, 7 * _DAY),
        "Seconds that running tasks get to finish after SIGTERM; then they are interrupted and handed back.",
        default=600.0,
    )


@section
class Retry:
    """How one retryable step (an API call, a fetch, a query) is tried again inside an attempt."""

    max_attempts: int = setting("DELEGATE_RETRY_MAX_ATTEMPTS", integer(1, 1000), "Tries of one step, the first included.", default=8)
    base_ms: int = setting(
        "DELEGATE_RETRY_BASE_MS",
        integer(1, 600_000),
        "Milliseconds; the first wait is up to that long, each next one up to twice as long (full jitter).",
        default=250,
    )
    max_ms: int = setting("DELEGATE_RETRY_MAX_MS", integer(1, 3_600_000), "Milliseconds; the cap of one wait.", default=30_000)
    max_duration: float = setting(
        "DELEGATE_RETRY_MAX_DURATION",
        duration(0.0, 7 * _DAY),
        "Seconds from the first try on, after which there is no other; whichever limit comes first ends it.",
        default=900.0,
    )

    def faults(self) -> Iterator[Fault]:
        if self.base_ms > self.max_ms:
            yield Fault("retry_base_ms", f"the first wait ({self.base_ms} ms) is above the cap of one wait ({self.max_ms} ms)")


@section
class Cluster:
    """Which clusters are served."""

    kubeconfig: str = setting(
        "DELEGATE_KUBECONFIG",
        TEXT,
        "A file, or several joined with colons; its contexts are the cluster registry, beside the cluster that the delegate runs in.",
        default="",
    )


@section
class Sources:
    """Where manifests are read, and by which programs they are rendered."""

    helm: str = setting("DELEGATE_HELM", TEXT, "The helm program (4 or later): a name on PATH, or a path.", default="helm")
    kubectl: str = setting(
        "DELEGATE_KUBECTL",
        TEXT,
        "The program that renders kustomizations: kubectl or kustomize, a name on PATH, or a path.",
        default="kubectl",
    )
    repositories_dir: Path | None = setting(
        "DELEGATE_REPOSITORIES_DIR",
        PATH,
        "Directory with Secrets and ConfigMaps of repositories and clusters in Argo CD's format; read again when it changes.",
        default=None,
    )
    repositories_namespace: str = setting(
        "DELEGATE_REPOSITORIES_NAMESPACE",
        TEXT,
        "Namespace of the delegate's own cluster whose Secrets and ConfigMaps of repositories and clusters are read too.",
        default="",
    )
    git_author: str = setting(
        "DELEGATE_GIT_AUTHOR",
        TEXT,
        "Whom commits of git updates are by: Name <email>.",
        default="delegate <delegate@localhost>",
    )
    forges: tuple[str, ...] = setting(
        "DELEGATE_FORGES",
        NAMES,
        "Kinds of hosts that merge requests are made at, where the name does not tell: git.example=gitlab (see docs/git-update.md).",
        default=(),
    )
    git_submodules: bool = setting(
        "DELEGATE_GIT_SUBMODULES",
        BOOLEAN,
        "Fetches the submodules that a source is read from, where the source does not say `submodules` itself.",
        default=False,
    )


@section
class Rules:
    """What operators decide beyond the tasks: what may be written, and what is healthy. Both files are read again when they change."""

    policies: Path | None = setting(
        "DELEGATE_POLICIES",
        EXISTING_PATH,
        "Policies between plan and apply (YAML, see docs/policies.md); without, the shipped ones hold as they are.",
        default=None,
    )
    health: Path | None = setting(
        "DELEGATE_HEALTH_RULES",
        EXISTING_PATH,
        "Health rules for further kinds (YAML, see docs/health.md), before the shipped ones.",
        default=None,
    )


@section
class Evidence:
    """Whom checks may ask, and as whom."""

    providers: Path | None = setting(
        "DELEGATE_PROVIDERS",
        EXISTING_PATH,
        "Sources of metrics and logs with their credentials (YAML, see docs/providers.md); read again when it changes.",
        default=None,
    )


@section
class Trust:
    """What this machine lets a manager have done."""

    policy: Path | None = setting(
        "DELEGATE_TRUST_POLICY",
        EXISTING_PATH,
        "What tasks may do here, and which of them need a signature (YAML, see docs/trust.md); no manager can widen it.",
        default=None,
    )


@section
class DeadLetters:
    """Where what can't be delivered or can't succeed is kept."""

    directory: Path = setting("DELEGATE_DLQ_DIR", PATH, "Spool on disk.", default=Path("/var/log/dlq"))
    bucket: str | None = setting(
        "DLQ_BUCKET",
        BUCKET,
        "S3 bucket and prefix they are moved to; AWS_ENDPOINT_URL and the usual AWS variables are honoured.",
        default=None,
    )
    kms_key: str = setting(
        "DELEGATE_DLQ_KMS_KEY",
        TEXT,
        "KMS key (id, ARN or alias) that S3 encrypts each of them with; by default the bucket's own encryption.",
        default="",
    )
    max_bytes: int = setting(
        "DELEGATE_DLQ_MAX_BYTES", size(2**20), "Size of the spool; when it is full, no task is taken.", default=256 * 2**20
    )


@section
class Probes:
    """Health and metrics over HTTP."""

    port: int = setting("DELEGATE_HTTP_PORT", PORT, "Port of probes and metrics; 0 takes any free one.", default=9090)
    host: str = setting("DELEGATE_HTTP_HOST", TEXT, "Address they listen on; by default every interface, IPv6 and IPv4.", default="")


@section
class Logging:
    """What is logged, and in which form; always to standard error."""

    level: LogLevel = setting("DELEGATE_LOG_LEVEL", choices(LogLevel), "Least level that is logged.", default=LogLevel.INFO)
    format: LogFormat = setting("DELEGATE_LOG_FORMAT", choices(LogFormat), "`console` is for people.", default=LogFormat.JSON)


@section
class LocalLogging:
    """As `Logging`, for commands that people run: quiet, and readable on a terminal."""

    level: LogLevel = setting("DELEGATE_LOG_LEVEL", choices(LogLevel), "Least level that is logged.", default=LogLevel.WARNING)
    format: LogFormat | None = setting(
        "DELEGATE_LOG_FORMAT", choices(LogFormat), "By default `console` on a terminal, else `json`.", default=None
    )


@section
class Network:
    """Proxies and trusted authorities: one rule for the process and every child it starts."""

    http_proxy: SecretUrl | None = setting("HTTP_PROXY", PROXY, "Proxy for http addresses.", default=None, also=("http_proxy",))
    https_proxy: SecretUrl | None = setting("HTTPS_PROXY", PROXY, "Proxy for https addresses.", default=None, also=("https_proxy",))
    no_proxy: tuple[str, ...] = setting(
        "NO_PROXY",
        NAMES,
        "Names, suffixes, addresses and networks reached directly; loopback and cluster-internal names always are.",
        default=(),
        also=("no_proxy",),
    )
    ssl_cert_file: Path | None = setting(
        "SSL_CERT_FILE", EXISTING_PATH, "Authorities to trust beside the system's (a PEM file, or a directory of them).", default=None
    )


@section
class Workspace:
    """Where commands that people run keep their files. Not read from files: those describe the daemon's directories."""

    state_dir: Path = setting(
        "DELEGATE_STATE_DIR", PATH, "By default `delegate` under $XDG_STATE_HOME.", computed=_local_state, in_file=False
    )
    cache_dir: Path = setting(
        "DELEGATE_CACHE_DIR", PATH, "By default `delegate` under $XDG_CACHE_HOME.", computed=_local_cache, in_file=False
    )


@section
class OperatorLink:
    """The way to the manager, for people's commands."""

    url: str = setting(
        "DELEGATE_MANAGER_URL", URL, "Address of the manager; by default one on this machine.", default="http://127.0.0.1:8080"
    )
    allow_http: bool = setting("DELEGATE_ALLOW_HTTP", BOOLEAN, "Accepts an http address beyond loopback.", default=False)
    manager_ca_file: Path | None = setting(
        "DELEGATE_MANAGER_CA_FILE", EXISTING_PATH, "Authorities to believe for the manager alone (PEM), beside the others.", default=None
    )
    api_token: Secret | None = setting("DELEGATE_API_TOKEN", SECRET, "Operator's token.", default=None)

    def faults(self) -> Iterator[Fault]:
        return _plain_http(self.url, self.allow_http)

    def join(self, path: str) -> str:
        """The URL of a path of the manager's."""
        return join_url(self.url, path)

    def require_token(self) -> Secret:
        """The token. Raises SettingsError that says how to give one."""
        if not self.api_token:
            raise SettingsError(
                "DELEGATE_API_TOKEN is not set",
                hint="set DELEGATE_API_TOKEN_FILE or DELEGATE_API_TOKEN; the manager wrote a first admin token into its state directory",
            )
        return self.api_token
