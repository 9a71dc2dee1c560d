"""What every forge is asked for, and the one interface to ask by."""

import abc
import enum

import msgspec

from delegate.engine.forges.calls import Caller
from delegate.engine.forges.errors import ForgeRefusedError
from delegate.engine.forges.places import Place

_TITLE_CHARACTERS = 250
_TEXT_CHARACTERS = 30_000
_STATUS_CHARACTERS = 140
"""Below the least of what the forges take."""


class NewMergeRequest(msgspec.Struct, frozen=True):
    """A request to merge one branch of a repository into another one. `text` is Markdown."""

    source_branch: str
    target_branch: str
    title: str
    text: str


class MergeRequest(msgspec.Struct, frozen=True):
    """An open one. `number` is as people write it; `version` is what Bitbucket Server wants to hear back."""

    number: int
    url: str
    version: int = 0


class StatusState(enum.StrEnum):
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class CommitStatus(msgspec.Struct, frozen=True):
    """What a forge shows beside a commit. One of the same `name` takes the place of the last."""

    state: StatusState
    name: str
    text: str = ""
    url: str = ""

    @property
    def short_text(self) -> str:
        return shorten(self.text, _STATUS_CHARACTERS)


class Forge(abc.ABC):
    """One repository at one forge.

    Every call is one or two requests with a deadline of their own; all raise ForgeError. What can be repeated says so (`retryable`).
    """

    def __init__(self, place: Place, caller: Caller) -> None:
        self._place = place
        self._caller = caller

    async def open(self, wanted: NewMergeRequest) -> MergeRequest:
        """The open merge request for the two branches, made where there is none. Two who ask at once get the same one."""
        found = await self.find(wanted.source_branch, wanted.target_branch)
        if found is not None:
            return found
        short = msgspec.structs.replace(wanted, title=shorten(wanted.title, _TITLE_CHARACTERS), text=shorten(wanted.text, _TEXT_CHARACTERS))
        try:
            return await self._create(short)
        except ForgeRefusedError:
            found = await self.find(wanted.source_branch, wanted.target_branch)
            if found is None:
                raise
            return found

    @abc.abstractmethod
    async def find(self, source_branch: str, target_branch: str) -> MergeRequest | None:
        """The open merge request for the two branches."""

    @abc.abstractmethod
    async def _create(self, wanted: NewMergeRequest) -> MergeRequest: ...

    @abc.abstractmethod
    async def comment(self, request: MergeRequest, text: str) -> None: ...

    @abc.abstractmethod
    async def close(self, request: MergeRequest) -> None:
        """Closes it unmerged; its branch stays."""

    @abc.abstractmethod
    async def set_status(self, commit: str, status: CommitStatus) -> None: ...


def shorten(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"
