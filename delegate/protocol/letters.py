"""Dead letters on the wire: what a delegate tells of a letter that it keeps, and the manager's index holds."""

from delegate.protocol.messages import Answer, Message, Request

MOST_LETTERS = 100
"""Of one call."""


class LetterNotice(Message, frozen=True, kw_only=True):
    """One letter, without what it holds. `id` is that of the whole letter where it was cut into pieces, told once.

    `created` is RFC 3339. `url` says where it is stored; empty while it lies on the delegate's disk. `masked` counts the values in it
    that were hidden.
    """

    id: str
    reason: str
    created: str
    message: str = ""
    error_code: str = ""
    error_category: str = ""
    task: str = ""
    attempt: str = ""
    kind: str = ""
    application: str = ""
    cluster: str = ""
    outcome: str = ""
    attempts: int = 1
    url: str = ""
    sha256: str = ""
    size: int = 0
    masked: int = 0


class LettersRequest(Request, frozen=True, kw_only=True):
    epoch: int
    letters: tuple[LetterNotice, ...]


class LettersAnswer(Answer, frozen=True, kw_only=True):
    """How many of them were new."""

    added: int = 0
