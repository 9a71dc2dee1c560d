"""The forms that one secret travels in: as it is, escaped, and encoded alone or together with its neighbours."""

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

SHORTEST_SECRET = 4
"""Characters. Anything shorter would be found everywhere, so it is not looked for."""
_SHORTEST_LINE = 16
_LONGEST_FORM = 16 * 2**10
_PIECE = 1024
_BASE64_LINES = (64, 76)  # PEM, MIME


def forms_of(value: str) -> tuple[str, ...]:
    """All of them, each of at most 16 KiB; of longer ones the pieces, so that a stream never holds back more."""
    forms: set[str] = set()
    for form in (*_escaped(value), *_encoded(value), *_lines(value)):
        if len(form) <= _LONGEST_FORM:
            forms.add(form)
        else:
            forms.update(form[start : start + _PIECE] for start in range(0, len(form) - _PIECE, _PIECE))
            forms.add(form[-_PIECE:])
    return tuple(form for form in forms if len(form) >= SHORTEST_SECRET)


def _escaped(value: str) -> Iterator[str]:
    yield value
    for quoted in (quote(value, safe=""), quote_plus(value), quote(value)):
        yield quoted
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)
    for escaped in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield escaped
        yield escaped.replace("/", "\\/")
        yield _as_go_writes(escaped)
        yield re.sub(r"\\u[0-9a-f]{4}", lambda found: "\\u" + found[0][2:].upper(), escaped)
        yield json.dumps(escaped, ensure_ascii=False)[1:-1]  # JSON inside JSON
    yield repr(value)[1:-1]
    yield html.escape(value)
    yield html.escape(value).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")
    yield value.replace("'", "'\\''")  # in single quotes of a shell
    yield value.replace("\n", "\r\n")
    yield "\0".join(value)  # UTF-16, read as if it were one byte a character


def _as_go_writes(escaped: str) -> str:
    """encoding/json of Go escapes what HTML would mind."""
    return escaped.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _encoded(value: str) -> Iterator[str]:
    for raw in (value.encode(errors="surrogatepass"), value.encode("utf-16-le", errors="surrogatepass")):
        yield raw.hex()
        yield raw.hex().upper()
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            whole = encode(raw).decode().rstrip("=")
            yield whole
            for width in _BASE64_LINES:
                if len(whole) > width:
                    yield from (
                        line for start in range(0, len(whole), width) if len(line := whole[start : start + width]) >= _SHORTEST_LINE
                    )
            for shift in range(3):
                # The characters that neighbours have a part in are left out: 8·shift bits in front, the incomplete one at the end.
                encoded = encode(bytes(shift) + raw).decode()
                core = encoded[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
                if len(core) > SHORTEST_SECRET:
                    yield core


def _lines(value: str) -> Iterator[str]:
    if "\n" in value:
        yield from (line for line in value.splitlines() if len(line) >= _SHORTEST_LINE and not line.startswith("-----"))
