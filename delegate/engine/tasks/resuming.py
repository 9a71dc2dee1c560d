"""Somebody says that a paused attempt may go on."""


class ResumeSignal:
    """Asked for once, taken once, at the pause that it is meant for. For one event loop."""

    def __init__(self) -> None:
        self._asked_any = False
        self._asked = 0

    def request(self, pause: int = 0) -> None:
        """`pause` is its number; 0: whichever the attempt stands at."""
        self._asked_any = self._asked_any or not pause
        self._asked = max(self._asked, pause)  # numbers only grow, so what is said of one before says nothing more

    def take(self, pause: int) -> bool:
        """Whether it was asked for since, for this pause."""
        asked = self._asked_any or self._asked == pause
        self.clear()
        return asked

    def clear(self) -> None:
        self._asked_any, self._asked = False, 0
