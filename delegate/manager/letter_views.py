"""What the API shows of dead letters and redrives."""

import msgspec

from delegate.manager.views import View


class LetterView(View, frozen=True, kw_only=True):
    """A dead letter. `url` is empty while it lies on the delegate's disk, and for one that the manager wrote itself (no `delegate`).

    `state` is open, redriven (then `redrivenAs` is the task that it became) or purged. `redrives` led to the task that it is about.
    """

    id: str
    reason: str
    state: str
    message: str = ""
    delegate: str = ""
    error_code: str = ""
    error_category: str = ""
    task: str = ""
    attempt: str = ""
    kind: str = ""
    application: str = ""
    cluster: str = ""
    outcome: str = ""
    attempts: int = 1
    written_at: str
    indexed_at: str
    url: str = ""
    sha256: str = ""
    size: int = 0
    masked: int = 0
    redrives: int = 0
    redriven_as: str = ""
    not_redrivable: str = ""


class LetterList(View, frozen=True, kw_only=True):
    """The oldest first. `continue` is given back to get the next ones; empty at the end."""

    items: tuple[LetterView, ...]
    continue_: str = msgspec.field(default="", name="continue")


class PurgeView(View, frozen=True, kw_only=True):
    """Letters that are gone from the index, or would be."""

    letters: int
    dry_run: bool = False


class RedriveView(View, frozen=True, kw_only=True):
    """`state` is running, finished or cancelled; dry_run where nothing was begun. `total` letters fitted when it began, `moved` are queued
    as new tasks, `skipped` were not, by why."""

    id: str = ""
    state: str
    total: int
    moved: int = 0
    skipped: dict[str, int] = {}
    rate: float = 0.0
    started_by: str = ""
    started_at: str = ""
    ended_at: str = ""
    ended_by: str = ""


class RedriveList(View, frozen=True, kw_only=True):
    """The newest first."""

    items: tuple[RedriveView, ...]
