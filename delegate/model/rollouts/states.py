"""Where a canary stands, and what may follow: a transition table, and nothing else may happen.

    starting -> stepping -> promoting -> clearing -> promoted
        |          |  ^         |
        |          v  |         |
        |         held          |
        |          |            |
        +----------+------------+--> aborting -> restored

What fails while it starts is taken back, never held: a resume leads to the steps, past a smoke test that did not pass. From aborting
nothing goes forward, and what is promoted or restored stays so. While it stands at `clearing` the new version is the stable
one, and the set beside it is on its way out.
"""

import enum

from delegate.model.rollouts.errors import IllegalMoveError


class Phase(enum.StrEnum):
    STARTING = "starting"  # recorded, nothing in the cluster yet that carries load
    STEPPING = "stepping"
    HELD = "held"
    PROMOTING = "promoting"
    CLEARING = "clearing"
    PROMOTED = "promoted"
    ABORTING = "aborting"
    RESTORED = "restored"


class Move(enum.StrEnum):
    STEP = "step"
    HOLD = "hold"
    RESUME = "resume"
    PROMOTE = "promote"
    PROMOTED = "promoted"
    ABORT = "abort"
    CLEARED = "cleared"


_TABLE: dict[tuple[Phase, Move], Phase] = {
    (Phase.STARTING, Move.STEP): Phase.STEPPING,
    (Phase.STARTING, Move.ABORT): Phase.ABORTING,
    (Phase.STEPPING, Move.STEP): Phase.STEPPING,
    (Phase.STEPPING, Move.HOLD): Phase.HELD,
    (Phase.STEPPING, Move.PROMOTE): Phase.PROMOTING,
    (Phase.STEPPING, Move.ABORT): Phase.ABORTING,
    (Phase.HELD, Move.RESUME): Phase.STEPPING,
    (Phase.HELD, Move.ABORT): Phase.ABORTING,
    (Phase.PROMOTING, Move.PROMOTED): Phase.CLEARING,
    (Phase.PROMOTING, Move.ABORT): Phase.ABORTING,
    (Phase.CLEARING, Move.CLEARED): Phase.PROMOTED,
    (Phase.ABORTING, Move.ABORT): Phase.ABORTING,
    (Phase.ABORTING, Move.CLEARED): Phase.RESTORED,
}
ENDED = frozenset({Phase.PROMOTED, Phase.RESTORED})


def after(phase: Phase, move: Move) -> Phase:
    """Raises IllegalMoveError where the move does not follow."""
    try:
        return _TABLE[(phase, move)]
    except KeyError:
        raise IllegalMoveError(f"a canary that is {phase} can't {move}") from None


def may(phase: Phase, move: Move) -> bool:
    return (phase, move) in _TABLE
