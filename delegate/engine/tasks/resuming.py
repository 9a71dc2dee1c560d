"""Somebody says that a paused attempt may go on."""


class ResumeSignal:
    """Asked for once, taken once: a word that comes before the pause ends that pause too. For one event loop."""

    def __init__(self) -> None:
        self._asked = False

    def request(self) -> None:
        self._asked = True

    def take(self) -> bool:
        """Whether it was asked for since it was last taken."""
        asked, self._asked = self._asked, False
        return asked
