"""What a committed operation means for those who wait: told by the store, acted on by the dispatch."""

from dataclasses import dataclass, field

import msgspec


class ReadyTask(msgspec.Struct, frozen=True):
    """A task that may be handed out from `at` on to a delegate that reaches the cluster and carries the labels."""

    kind: str
    cluster_uid: str
    labels: dict[str, str]
    at: float = 0.0


@dataclass
class Effects:
    """Collected during an operation, applied after its commit, dropped where it failed."""

    ready: list[ReadyTask] = field(default_factory=list)
    commands_for: set[str] = field(default_factory=set)
    """Delegates with new commands."""
    sessions_of: set[str] = field(default_factory=set)
    """Delegates whose session, token or registration changed: open polls look again."""
    tokens_ended: bool = False
    """Some token is not what it was: what is remembered of tokens is forgotten."""
    certificates_ended: bool = False
    """Some certificate was revoked: every open poll looks whether it came with that one."""
    finished: list[tuple[str, str]] = field(default_factory=list)
    """Kind and outcome of tasks that became final."""

    def add(self, other: "Effects") -> None:
        self.ready += other.ready
        self.commands_for |= other.commands_for
        self.sessions_of |= other.sessions_of
        self.tokens_ended |= other.tokens_ended
        self.certificates_ended |= other.certificates_ended
        self.finished += other.finished
