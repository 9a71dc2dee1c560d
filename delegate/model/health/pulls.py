"""Why an image can't be pulled, and what to do about it, from the words of kubelet and registry."""

import enum
import re
from collections.abc import Iterable

import msgspec


class PullFault(enum.StrEnum):
    NO_SECRET = "no_secret_in_namespace"  # noqa: S105  a name of a fault, no password
    UNAUTHORIZED = "unauthorized"
    NO_SUCH_IMAGE = "no_such_image"
    UNTRUSTED = "untrusted"
    RATE_LIMITED = "rate_limited"
    UNREACHABLE = "unreachable"
    INVALID_NAME = "invalid_name"
    UNKNOWN = "unknown"


class PullExplanation(msgspec.Struct, frozen=True):
    fault: PullFault
    hint: str


# In this order: a registry that wants credentials often says that the image may not exist either.
_SIGNS = (
    (PullFault.INVALID_NAME, re.compile(r"InvalidImageName|invalid reference format|couldn't parse image", re.IGNORECASE)),
    (PullFault.UNTRUSTED, re.compile(r"x509|certificate signed by unknown|server gave HTTP response to HTTPS", re.IGNORECASE)),
    (PullFault.RATE_LIMITED, re.compile(r"toomanyrequests|\b429\b|rate limit", re.IGNORECASE)),
    (
        PullFault.UNAUTHORIZED,
        re.compile(
            r"\b401\b|\b403\b|unauthorized|authentication required|authorization failed|no basic auth|access denied"
            r"|\bdenied\b|insufficient_scope|forbidden",
            re.IGNORECASE,
        ),
    ),
    (
        PullFault.NO_SUCH_IMAGE,
        re.compile(r"not found|manifest unknown|name unknown|does not exist|no such manifest|\b404\b", re.IGNORECASE),
    ),
    (
        PullFault.UNREACHABLE,
        re.compile(
            r"no such host|i/o timeout|connection refused|no route to host|deadline exceeded|network is unreachable"
            r"|TLS handshake timeout|\b50[0234]\b",
            re.IGNORECASE,
        ),
    ),
)
_MISSING_SECRETS = re.compile(r"Unable to retrieve some image pull secrets \(([^)]*)\)")


def explain_pull(
    image: str,
    words: Iterable[str],
    *,
    namespace: str = "",
    pull_secrets: Iterable[str] = (),
    missing_secrets: Iterable[str] = (),
) -> PullExplanation:
    """What keeps an image from being pulled, from all that was said about it (container message, the pod's events).

    `pull_secrets` are the names that the pod refers to, `missing_secrets` those known not to exist in `namespace`; kubelet's
    own complaint about them is understood too.
    """
    text = "\n".join(words)
    registry = registry_of(image)
    missing = set(missing_secrets) | {name.strip() for match in _MISSING_SECRETS.finditer(text) for name in match[1].split(",")}
    fault = next((fault for fault, sign in _SIGNS if sign.search(_without_image(text, image))), PullFault.UNKNOWN)
    if missing and fault in (PullFault.UNAUTHORIZED, PullFault.NO_SUCH_IMAGE, PullFault.UNKNOWN):
        names = ", ".join(sorted(missing))
        return PullExplanation(PullFault.NO_SECRET, f"create the image pull secret {names} in namespace {namespace or 'of the pod'}")
    return PullExplanation(fault, _hint(fault, image, registry, ", ".join(sorted(pull_secrets))))


def registry_of(image: str) -> str:
    """The host that an image is pulled from."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"


def _without_image(text: str, image: str) -> str:
    """The words without the image's own name, which may contain anything (`.../401-page:x509`)."""
    return re.sub(rf"(?<!\w){re.escape(image)}(?!\w)", "", text) if image else text


def _hint(fault: PullFault, image: str, registry: str, secrets: str) -> str:
    match fault:
        case PullFault.UNAUTHORIZED:
            how = f"check the credentials in {secrets}" if secrets else "give the pod an imagePullSecrets entry with credentials"
            return f"{registry} refuses the pull: {how}, and that they may read this image"
        case PullFault.NO_SUCH_IMAGE:
            return f"{registry} has no {image}: check name and tag, and that it was pushed"
        case PullFault.UNTRUSTED:
            return f"the nodes don't trust the certificate of {registry}: install its CA on them"
        case PullFault.RATE_LIMITED:
            return f"{registry} limits pulls: use credentials or a mirror"
        case PullFault.UNREACHABLE:
            return f"the nodes can't reach {registry}: check its name, proxy and firewall"
        case PullFault.INVALID_NAME:
            return f"{image!r} is no image name"
        case PullFault.NO_SECRET | PullFault.UNKNOWN:
            return f"look at the pod's events for what {registry} answered"
