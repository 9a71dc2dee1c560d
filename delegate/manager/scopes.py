"""What a token allows: `admin` for operators, `GITOPS` (all task kinds) or single kinds for delegates."""

from collections.abc import Iterable

from delegate.model.tasks import TaskKind

ADMIN = "admin"
GITOPS = "GITOPS"
_KINDS = tuple(kind.value for kind in TaskKind)


def parse_scopes(words: Iterable[str]) -> tuple[str, ...]:
    """The scopes as they are stored. Raises ValueError that says what a scope is."""
    found: list[str] = []
    for word in (part.strip() for each in words for part in each.split(",")):
        if not word:
            continue
        scope = next((known for known in (ADMIN, GITOPS, *_KINDS) if known.lower() == word.lower()), None)
        if scope is None:
            raise ValueError(f"{word!r} is no scope; use {GITOPS} for all task kinds, single ones of {', '.join(_KINDS)}, or {ADMIN}")
        if scope not in found:
            found.append(scope)
    if not found:
        raise ValueError(f"a token needs a scope: {GITOPS}, single kinds of {', '.join(_KINDS)}, or {ADMIN}")
    if ADMIN in found and len(found) > 1:
        raise ValueError(f"{ADMIN} stands alone: an operator's token enrols no delegate")
    return tuple(found)


def is_admin(scopes: Iterable[str]) -> bool:
    return ADMIN in scopes


def scoped_kinds(scopes: Iterable[str]) -> tuple[str, ...]:
    """The task kinds that a delegate enrolled with such a token may be handed."""
    scopes = tuple(scopes)
    return _KINDS if GITOPS in scopes else tuple(kind for kind in _KINDS if kind in scopes)


def allowed_kinds(scopes: Iterable[str], wanted: Iterable[str]) -> tuple[str, ...]:
    """Those of the kinds that a delegate can do which its token allows; one that names none can do all."""
    wanted = tuple(wanted)
    return tuple(kind for kind in scoped_kinds(scopes) if not wanted or kind in wanted)
