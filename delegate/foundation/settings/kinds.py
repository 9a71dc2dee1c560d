"""How the text of a setting becomes a value, and how a value is shown.

A kind reads text; environment, flags and the scalars of a file all arrive as text, so that a value means the same
wherever it is written. Each `parse` raises ValueError with words that say what would be right.
"""

import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from delegate.foundation.quantities import format_duration, parse_duration, parse_size
from delegate.foundation.secrets import Secret, SecretUrl, hide_before_at
from delegate.foundation.settings.urls import ListenAddress, parse_http_url, parse_listen_address

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)
Shown = str | int | float | bool | None | dict[str, str] | list[str]
"""A value as people and JSON see it."""

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_LABEL_KEY = re.compile(r"(?:[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@dataclass(frozen=True)
class Kind(Generic[T]):
    """`noun` stands in help and messages; `parse` reads text; `show` is the way back."""

    noun: str
    parse: Callable[[str], T]
    show: Callable[[T], Shown]
    secret: bool = False
    switch: bool = False


def _text(text: str) -> str:
    return text.strip()


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def _integer(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        digits = text.strip()
        if not re.fullmatch(r"-?\d{1,18}", digits, re.ASCII):
            raise ValueError(f"{text!r} is no whole number")
        if not least <= int(digits) <= most:
            raise ValueError(f"{digits} is out of range; it goes from {least} to {most}")
        return int(digits)

    return parse


def _duration(least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        seconds = parse_duration(text)
        if not least <= seconds <= most:
            raise ValueError(f"{text.strip()} is out of range; it goes from {format_duration(least)} to {format_duration(most)}")
        return seconds

    return parse


def _show_size(size: int) -> str:
    for unit, factor in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


def _size(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        size = parse_size(text)
        if size < least:
            raise ValueError(f"{text.strip()} is too small; it starts at {_show_size(least)}")
        return size

    return parse


def _path(text: str) -> Path:
    path = text.strip()
    if "\0" in path:
        raise ValueError("a path holds no NUL character")
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path!r} begins with a home directory that is not known; write the whole path") from error


def parse_labels(text: str) -> dict[str, str]:
    """`key=value,key=value`, in the syntax of Kubernetes labels. Raises ValueError."""
    labels: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        key, equals, value = (each.strip() for each in part.partition("="))
        if not equals or not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            raise ValueError(f"{part!r} is no label; write key=value,key=value with letters, digits, '-', '_' and '.'")
        if key in labels:
            raise ValueError(f"the label {key!r} is given twice")
        labels[key] = value
    return labels


def choices(of: type[E]) -> Kind[E]:
    """One of the members of an enumeration, in any case of letters."""
    words = [member.value for member in of]

    def parse(text: str) -> E:
        try:
            return of(text.strip().lower())
        except ValueError:
            raise ValueError(f"{text!r} is unknown; it is one of {', '.join(words)}") from None

    return Kind("|".join(words), parse, lambda member: member.value)


def integer(least: int, most: int) -> Kind[int]:
    return Kind("N", _integer(least, most), lambda number: number)


def duration(least: float = 0.0, most: float = 10 * 365 * 86400.0) -> Kind[float]:
    """Seconds, written with a unit."""
    return Kind("DURATION", _duration(least, most), format_duration)


def size(least: int = 0) -> Kind[int]:
    """Bytes, written with a unit."""
    return Kind("SIZE", _size(least), _show_size)


def _bucket(text: str) -> str:
    bucket = text.strip().rstrip("/")
    if not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?", bucket):
        raise ValueError(f"{text!r} is no bucket; write s3://bucket or s3://bucket/prefix")
    return bucket


def _existing_file(text: str) -> Path:
    path = _path(text)
    try:
        is_directory = stat.S_ISDIR(path.stat().st_mode)
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from error
    if is_directory:
        raise ValueError(f"{path} is a directory")
    return path


def _existing_path(text: str) -> Path:
    path = _path(text)
    try:
        path.stat()
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from error
    return path


def _secret(text: str) -> Secret:
    return Secret(text.strip())


def _secret_url(text: str) -> SecretUrl:
    return SecretUrl(text.strip())


def _proxy_url(text: str) -> SecretUrl:
    url = text.strip()
    if "://" not in url:  # as curl and its kin read it
        url = f"http://{url}"
    shown = hide_before_at(url)
    try:
        parts = urlsplit(url)
        usable = parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ValueError(f"{shown!r} is no URL; check its host and port") from error
    if not usable:
        raise ValueError(f"{shown!r} is no http or https proxy; write http://host:port")
    return SecretUrl(url)


def _fingerprint(text: str) -> str:
    digits = text.strip().lower().removeprefix("sha256:").replace(":", "")
    if digits and not re.fullmatch(r"[0-9a-f]{64}", digits):
        raise ValueError(f"{text.strip()!r} is no SHA-256 fingerprint; write its 64 hexadecimal digits")
    return digits


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in re.split(r"[,\s]+", text))))


def _show_list(items: Iterable[str]) -> Shown:
    return list(items)


TEXT: Kind[str] = Kind("TEXT", _text, lambda text: text)
BOOLEAN: Kind[bool] = Kind("BOOL", _boolean, lambda truth: truth, switch=True)
PORT: Kind[int] = Kind("PORT", _integer(0, 65535), lambda port: port)
PATH: Kind[Path] = Kind("PATH", _path, str)
EXISTING_FILE: Kind[Path] = Kind("PATH", _existing_file, str)
EXISTING_PATH: Kind[Path] = Kind("PATH", _existing_path, str)
URL: Kind[str] = Kind("URL", parse_http_url, lambda url: url)
LISTEN: Kind[ListenAddress] = Kind("HOST:PORT", parse_listen_address, str)
LABELS: Kind[dict[str, str]] = Kind("KEY=VALUE,...", parse_labels, dict)
NAMES: Kind[tuple[str, ...]] = Kind("NAME,...", _names, _show_list)
BUCKET: Kind[str] = Kind("s3://BUCKET/PREFIX", _bucket, lambda bucket: bucket)
FINGERPRINT: Kind[str] = Kind("SHA256", _fingerprint, lambda digits: digits)
SECRET: Kind[Secret] = Kind("TEXT", _secret, lambda secret: secret.shown, secret=True)
PROXY: Kind[SecretUrl] = Kind("URL", _proxy_url, lambda url: url.shown)
"""A proxy's URL; its credentials, if any, are hidden."""
SECRET_URL: Kind[SecretUrl] = Kind("URL", _secret_url, lambda url: url.shown, secret=True)
"""As PROXY, and taken from a file too."""
