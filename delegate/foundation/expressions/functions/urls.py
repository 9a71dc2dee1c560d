"""URLs (the URL library of Kubernetes): absolute ones and absolute paths, as Go's `url.ParseRequestURI` takes them."""

from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from delegate.foundation.expressions.functions.kinds import Functions, text


def _parts(value: Any) -> SplitResult:
    written = text(value)
    try:
        parts = urlsplit(written)
        _ = parts.port
    except ValueError:
        raise ValueError("URL parse error") from None
    if not (parts.scheme or written.startswith("/")) or any(character.isspace() or not character.isprintable() for character in written):
        raise ValueError("URL parse error: no absolute URL or path")
    return parts


def is_url(value: Any) -> bool:
    try:
        _parts(value)
    except ValueError:
        return False
    return True


def to_url(value: Any) -> str:
    _parts(value)
    return text(value)


def _hostname(parts: SplitResult) -> str:
    host = parts.netloc.rpartition("@")[2]
    if host.startswith("["):
        return host.partition("]")[0][1:]
    return host.partition(":")[0]


FUNCTIONS: Functions = {
    "getEscapedPath": lambda value: quote(_parts(value).path, safe="/%:@!$&'()*+,;=~"),
    "getHost": lambda value: _parts(value).netloc.rpartition("@")[2],
    "getHostname": lambda value: _hostname(_parts(value)),
    "getPort": lambda value: str(_parts(value).port or ""),
    "getQuery": lambda value: parse_qs(_parts(value).query, keep_blank_values=True),
    "getScheme": lambda value: _parts(value).scheme,
    "isURL": is_url,
    "url": to_url,
}
