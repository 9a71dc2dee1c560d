"""Masks secrets in text: the ones we know, in every form they travel in, and whatever looks like one.

Known secrets are registered by whoever reads or receives them (`KNOWN_SECRETS.add`). Each is looked for as it is,
URL-encoded, escaped for JSON (also inside JSON, and as Go writes it), shells, HTML and Python, in hexadecimal, in UTF-16, and inside
base64 at each of the three byte alignments, so that `user:token` in a basic authorization header is found too. The longest match wins.
Patterns catch the rest: bearer tokens, URL credentials, PEM private keys, JWTs, `password=...`.

Almost no text holds a secret, so that is found out first, cheaply (`grams`), and only then where.
"""

import functools
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from delegate.foundation.grams import GramFilter, HeadIndex
from delegate.foundation.secret_forms import SHORTEST_SECRET, forms_of
from delegate.foundation.secrets import HIDDEN, Secret

__all__ = ["KNOWN_SECRETS", "SHORTEST_SECRET", "KnownSecrets", "StreamRedactor", "looks_clean", "names_a_secret", "redact"]
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
_ANY_WORD = re.compile("|".join(sorted({re.escape(word) for pattern in _PATTERNS for word in pattern.words})))
_SECRET_KEYS = re.compile(
    r"(?:.*[_.-])?(?:token|password|passwd|passphrase|secret|secrets|apikey|api_key|access_key|secret_key|private_key|"
    r"authorization|cookie|credential|credentials)"
)


class _Search:
    """All forms of all secrets, ready to be looked for."""

    def __init__(self, forms: Iterable[str]) -> None:
        self.forms = tuple(sorted(set(forms), key=len, reverse=True))
        self.filter = GramFilter(self.forms)
        self.index = HeadIndex(self.forms)

    def mask(self, text: str) -> str:
        return self.index.replace(text, HIDDEN) if self.filter.may_match(text) else text


class KnownSecrets:
    """The secrets of this process. Threads may add to it and mask with it at once. The oldest of 4,096 makes room."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forms: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._search: _Search | None = None
        self._stale = False

    def add(self, secret: str | Secret | None) -> bool:
        """Has it masked from now on. False if it is too short to be looked for: whoever adds it should say so."""
        value = (secret.reveal() if isinstance(secret, Secret) else secret or "").strip()
        if len(value) < SHORTEST_SECRET:
            return False
        with self._lock:
            if value in self._forms:
                self._forms.move_to_end(value)
                return True
            self._forms[value] = forms_of(value)
            if len(self._forms) > _MOST_SECRETS:
                self._forms.popitem(last=False)
            self._stale = True
        return True

    def discard(self, secret: str | Secret) -> None:
        """Forgets a secret that is worth nothing any more."""
        value = (secret.reveal() if isinstance(secret, Secret) else secret).strip()
        with self._lock:
            if self._forms.pop(value, None) is not None:
                self._stale = True

    def mask(self, text: str) -> str:
        """The text with every known secret replaced; the very same object where it may hold none."""
        search = self.search()
        return text if search is None else search.mask(text)

    def forms(self) -> tuple[str, ...]:
        """Everything that is looked for, longest first."""
        search = self.search()
        return () if search is None else search.forms

    def search(self) -> _Search | None:
        """What masks with all that was added until now."""
        if self._stale:  # built once after many were added, and not with each
            with self._lock:
                self._search = _Search(form for forms in self._forms.values() for form in forms) if self._forms else None
                self._stale = False
        return self._search


KNOWN_SECRETS = KnownSecrets()
"""The registry that logs, errors and results of this process are masked with."""


def redact(text: str, known: KnownSecrets = KNOWN_SECRETS) -> str:
    """The text with known secrets and whatever looks like one replaced by `(hidden)`."""
    text = known.mask(text)
    lowered = text.lower()
    if _ANY_WORD.search(lowered) is None:
        return text
    for words, expression, replacement in _PATTERNS:
        if any(word in lowered for word in words):
            text = expression.sub(replacement, text)
    return text


def looks_clean(text: str, known: KnownSecrets = KNOWN_SECRETS) -> bool:
    """Whether `redact` would leave this text as it is, found out cheaply; False where only a closer look can say."""
    search = known.search()
    return (search is None or not search.filter.may_match(text)) and _ANY_WORD.search(text.lower()) is None


@functools.lru_cache(maxsize=1024)
def names_a_secret(key: str) -> bool:
    """Whether a field with this name holds a secret: `token`, `db_password`, `apiKey`; not `token_expires_at`."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()
    return _SECRET_KEYS.fullmatch(snake) is not None


class StreamRedactor:
    """Masks known secrets in a text that arrives in pieces, wherever the pieces are cut.

    `feed` returns what is safe to show by now; it holds back only an end that could be the beginning of a secret, so never more than the
    longest form that is looked for. `flush` ends the stream. The pieces together are what `KnownSecrets.mask` makes of the whole.
    """

    def __init__(self, known: KnownSecrets = KNOWN_SECRETS) -> None:
        self._search = known.search()
        self._held = ""

    def feed(self, text: str) -> str:
        if self._search is None:
            return text
        text = self._held + text
        index, may_match = self._search.index, self._search.filter.may_match(text)
        shown: list[str] = []
        position = 0
        while True:
            undecided = index.find_beginning(text, position)
            found = index.find(text, position) if may_match else None
            if found is None or found[0] >= undecided:
                break
            shown += (text[position : found[0]], HIDDEN)
            position = found[1]
        shown.append(text[position:undecided])
        self._held = text[undecided:]
        return "".join(shown)

    def flush(self) -> str:
        held, self._held = self._held, ""
        return held if self._search is None else self._search.mask(held)
