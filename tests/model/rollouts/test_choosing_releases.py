"""Which release a rollback means, where what runs was put back by a rollback itself."""

import pytest

from delegate.model.errors import NoReleaseError, RolledBackAlreadyError
from delegate.model.releases import Release, ReleaseOutcome
from delegate.model.rollbacks import choose_release

HISTORY = (
    Release(number=1, content="a", outcome=ReleaseOutcome.HEALTHY),
    Release(number=2, content="b", outcome=ReleaseOutcome.HEALTHY),
    Release(number=3, content="c", outcome=ReleaseOutcome.HEALTHY),
)


def restoring(outcome: ReleaseOutcome, restores: int = 2) -> Release:
    return Release(number=4, content="b", outcome=outcome, restores=restores)


@pytest.mark.parametrize("outcome", [ReleaseOutcome.HEALTHY, ReleaseOutcome.APPLIED, ReleaseOutcome.FAILED])
def test_a_rollback_that_ended_is_not_followed_by_another(outcome: ReleaseOutcome) -> None:
    with pytest.raises(RolledBackAlreadyError) as caught:
        choose_release([*HISTORY, restoring(outcome)], "last-verified")
    assert "1 (healthy)" in caught.value.hint


@pytest.mark.parametrize("outcome", [ReleaseOutcome.APPLYING, ReleaseOutcome.INTERRUPTED])
def test_a_rollback_that_was_cut_short_is_gone_on_with(outcome: ReleaseOutcome) -> None:
    """To where it was going, and what it leaves is what it was leaving."""
    choice = choose_release([*HISTORY, restoring(outcome)], "last-verified")
    assert choice.current is not None
    assert (choice.target.number, choice.current.number) == (2, 3)


def test_where_a_rollback_was_going_may_be_gone() -> None:
    with pytest.raises(NoReleaseError, match="not recorded any more"):
        choose_release([*HISTORY, restoring(ReleaseOutcome.APPLYING, restores=9)], "last-verified")


def test_a_release_that_is_named_is_taken_all_the_same() -> None:
    assert choose_release([*HISTORY, restoring(ReleaseOutcome.HEALTHY)], 1).target.number == 1


def test_a_new_release_after_a_rollback_can_be_rolled_back() -> None:
    newer = Release(number=5, content="d", outcome=ReleaseOutcome.FAILED)
    assert choose_release([*HISTORY, restoring(ReleaseOutcome.HEALTHY), newer], "last-verified").target.number == 4
