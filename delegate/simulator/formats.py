"""The string formats of custom kinds' schemas (go-openapi `strfmt`); unknown ones are not looked at."""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from urllib.parse import urlsplit

_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])")
_DATE_TIME = re.compile(rf"{_DATE.pattern}[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)([.,]\d+)?([Zz]|[+-]\d\d:\d\d)?")
_DURATION = re.compile(
    r"[+-]?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|0|\d+ *(ns|nano|us|µs|micro|ms|milli|s|sec|second|m|min|minute"
    r"|h|hr|hour|d|day|w|wk|week)s?"
)
_EMAIL = re.compile(r"[^@\s<>()\[\],;:\\\"]+@[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
_HOSTNAME = re.compile(
    r"([a-zA-Z0-9\u00a1-\uffff]((-?[a-zA-Z0-9\u00a1-\uffff]{0,62})[a-zA-Z0-9\u00a1-\uffff])*\.)*"
    r"([a-zA-Z0-9\u00a1-\uffff](-*[a-zA-Z0-9\u00a1-\uffff]+)*)"
)
_MAC = re.compile(r"([0-9a-fA-F]{2}[:-]){5}([0-9a-fA-F]{2})|([0-9a-fA-F]{4}\.){2}[0-9a-fA-F]{4}")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_COLOR = re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_SHORT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LONG_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def _form(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _address(version: int) -> Callable[[str], bool]:
    def fits(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return fits


def _network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _hostname(text: str) -> bool:
    """Its last label has two letters at least, as `strfmt` wants it."""
    labels = text.split(".")
    return len(text) <= 255 and _HOSTNAME.fullmatch(text) is not None and (len(labels) == 1 or len(labels[-1]) > 1)


def _bytes(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False


FORMATS: dict[str, Callable[[str], bool]] = {
    "date": _form(_DATE),
    "date-time": _form(_DATE_TIME),
    "datetime": _form(_DATE_TIME),
    "duration": _form(_DURATION),
    "email": _form(_EMAIL),
    "hostname": _hostname,
    "ipv4": _address(4),
    "ipv6": _address(6),
    "cidr": _network,
    "mac": _form(_MAC),
    "uri": _uri,
    "uuid": _form(_UUID),
    "uuid3": _form(_UUID),
    "uuid4": _form(_UUID),
    "uuid5": _form(_UUID),
    "hexcolor": _form(_COLOR),
    "byte": _bytes,
    "k8s-short-name": _form(_SHORT_NAME),
    "k8s-long-name": _form(_LONG_NAME),
}


def fits(text: str, name: str) -> bool:
    """Whether a text has a format; everything has one that isn't known."""
    known = FORMATS.get(name)
    return known is None or known(text)
