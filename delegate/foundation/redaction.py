"""Masks secrets in text: the ones we know, in every form they travel in, and whatever looks like one.

Known secrets are registered by whoever reads or receives them (`KNOWN_SECRETS.add`). Each is looked for as it is,
URL-encoded, JSON-escaped, and inside base64 at each of the three byte alignments, so that `user:token` in a basic
authorization header is found too. The longest match wins. Patterns catch the rest: bearer tokens, URL credentials,
PEM private keys, JWTs, `password=...`.
"""

import base64
import functools
import json
import re
import threading
from collections import OrderedDict
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from delegate.foundation.secrets import HIDDEN, Secret

SHORTEST_SECRET = 4
"""Characters. Anything shorter would be found everywhere, so it is not looked for."""
_MOST_SECRETS = 4096


class _Pattern(NamedTuple):
    """What looks like a secret. The expression is only tried on a text whose lower-case form holds one of the words."""

    words: tuple[str, ...]
    expression: re.Pattern[str]
    replacement: str


_PATTERNS = (
    _Pattern(
        ("private key-----",),
        re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL),
        HIDDEN,
    ),
    _Pattern(
        ("bearer", "basic", "delegate-token"),
        re.compile(r"(?i)\b(bearer|basic|delegate-token)(\s+)[A-Za-z0-9._~+/-]{8,}=*"),
        rf"\1\2{HIDDEN}",
    ),
    _Pattern(("@",), re.compile(r"(?i)\b(https?://)[^/\s@\"'<>]+@"), rf"\1{HIDDEN}@"),
    _Pattern(("@",), re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,30}://)[^/\s:@\"'<>]*:[^/\s@\"'<>]+@"), rf"\1{HIDDEN}@"),
    _Pattern(("eyj",), re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*"), HIDDEN),
    _Pattern(
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xoxa-", "xoxb-", "xoxp-", "xoxr-"),
        re.compile(r"(?<![A-Za-z0-9_-])(?:gh[pousr]_|github_pat_|glpat-|xox[abpr]-)[A-Za-z0-9_-]{16,}"),
        HIDDEN,
    ),
    _Pattern(
        ("token", "passw", "secret", "key", "authorization"),
        re.compile(
            r"(?i)((?:token|password|passwd|secret|api[_-]?key|access[_-]?key|authorization)[\"']?\s*(?:=|:(?=\s*[\"']))\s*[\"']?)"
            r"(?!\(hidden\))[^\s\"'&,;<>]{4,}"
        ),
        rf"\1{HIDDEN}",
    ),
)
_SECRET_KEYS = re.compile(
    r"(?:.*[_.-])?(?:token|password|passwd|passphrase|secret|secrets|apikey|api_key|access_key|secret_key|private_key|"
    r"authorization|cookie|credential|credentials)"
)


class KnownSecrets:
    """The secrets of this process. Threads may add to it and mask with it at once. The oldest of 4,096 makes room."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forms: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._matcher: re.Pattern[str] | None = None

    def add(self, secret: str | Secret | None) -> bool:
        """Has it masked from now on. False if it is too short to be looked for: whoever adds it should say so."""
        value = (secret.reveal() if isinstance(secret, Secret) else secret or "").strip()
        if len(value) < SHORTEST_SECRET:
            return False
        with self._lock:
            if value in self._forms:
                self._forms.move_to_end(value)
                return True
            self._forms[value] = _forms_of(value)
            if len(self._forms) > _MOST_SECRETS:
                self._forms.popitem(last=False)
            self._compile()
        return True

    def discard(self, secret: str | Secret) -> None:
        """Forgets a secret that is worth nothing any more."""
        value = (secret.reveal() if isinstance(secret, Secret) else secret).strip()
        with self._lock:
            if self._forms.pop(value, None) is not None:
                self._compile()

    def mask(self, text: str) -> str:
        """The text with every known secret replaced."""
        matcher = self._matcher
        return text if matcher is None else matcher.sub(HIDDEN, text)

    def forms(self) -> tuple[str, ...]:
        """Everything that is looked for, longest first."""
        with self._lock:
            return tuple(sorted({form for forms in self._forms.values() for form in forms}, key=len, reverse=True))

    def _compile(self) -> None:
        forms = sorted({form for forms in self._forms.values() for form in forms}, key=len, reverse=True)
        self._matcher = re.compile("|".join(map(re.escape, forms))) if forms else None


KNOWN_SECRETS = KnownSecrets()
"""The registry that logs, errors and results of this process are masked with."""


def redact(text: str, known: KnownSecrets = KNOWN_SECRETS) -> str:
    """The text with known secrets and whatever looks like one replaced by `(hidden)`."""
    text = known.mask(text)
    lowered = text.lower()
    for words, expression, replacement in _PATTERNS:
        if any(word in lowered for word in words):
            text = expression.sub(replacement, text)
    return text


@functools.lru_cache(maxsize=1024)
def names_a_secret(key: str) -> bool:
    """Whether a field with this name holds a secret: `token`, `db_password`, `apiKey`; not `token_expires_at`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()
    return _SECRET_KEYS.fullmatch(snake) is not None


class StreamRedactor:
    """Masks known secrets in a text that arrives in pieces, wherever the pieces are cut.

    `feed` returns what is safe to show by now; it holds back only an end that could be the beginning of a secret.
    `flush` ends the stream. The pieces together are what `KnownSecrets.mask` makes of the whole.
    """

    def __init__(self, known: KnownSecrets = KNOWN_SECRETS) -> None:
        self._forms = known.forms()
        self._longest = len(self._forms[0]) if self._forms else 0
        self._initials = frozenset(form[0] for form in self._forms)
        self._matcher = re.compile("|".join(map(re.escape, self._forms))) if self._forms else None
        self._held = ""

    def feed(self, text: str) -> str:
        if self._matcher is None:
            return text
        text = self._held + text
        shown: list[str] = []
        position = 0
        while True:
            undecided = self._undecided(text, position)
            match = self._matcher.search(text, position)
            if match is None or match.start() >= undecided:
                break
            shown += (text[position : match.start()], HIDDEN)
            position = match.end()
        shown.append(text[position:undecided])
        self._held = text[undecided:]
        return "".join(shown)

    def flush(self) -> str:
        held, self._held = self._held, ""
        return held if self._matcher is None else self._matcher.sub(HIDDEN, held)

    def _undecided(self, text: str, position: int) -> int:
        """Where the first suffix begins that more text could make a secret of."""
        for start in range(max(position, len(text) - self._longest + 1), len(text)):
            if text[start] in self._initials:
                suffix = text[start:]
                if any(len(form) > len(suffix) and form.startswith(suffix) for form in self._forms):
                    return start
        return len(text)


def _forms_of(value: str) -> tuple[str, ...]:
    raw = value.encode()
    forms = {
        value,
        quote(value, safe=""),
        quote_plus(value),
        quote(value),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
    }
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        forms.add(encode(raw).decode().rstrip("="))
        for shift in range(3):
            # The characters that neighbours have a part in are left out: 8·shift bits in front, the incomplete one at the end.
            encoded = encode(bytes(shift) + raw).decode()
            core = encoded[-(-shift * 8 // 6) : (shift + len(raw)) * 8 // 6]
            if len(core) > SHORTEST_SECRET:
                forms.add(core)
    if "\n" in value:
        forms.update(line for line in value.splitlines() if len(line) >= 16 and not line.startswith("-----"))
    return tuple(forms)
