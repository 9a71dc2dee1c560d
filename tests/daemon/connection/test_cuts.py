"""Case 01: two cuts at about the same age teach polls to be shorter than that."""

from hypothesis import given
from hypothesis import strategies as st

from delegate.daemon.connection.cuts import IdleCuts


def test_two_cuts_at_the_same_age_shorten_the_poll_once() -> None:
    """After the second cut at 30 s the wait is below 30 s; the fact is told once."""
    cuts = IdleCuts()
    assert cuts.bound(45.0) == 45.0
    assert cuts.learn(30.2) is None

    learned = cuts.learn(29.9)

    assert learned is not None
    assert learned < 29.9
    assert cuts.bound(45.0) == learned
    assert cuts.bound(3.0) == 3.0
    assert cuts.learn(30.0) is None


def test_cuts_at_odd_ages_teach_nothing() -> None:
    """A manager that restarts now and then is no middlebox."""
    cuts = IdleCuts()

    assert [cuts.learn(age) for age in (40.0, 5.0, 23.0, 11.0)] == [None] * 4
    assert cuts.bound(45.0) == 45.0


def test_a_young_connection_that_breaks_is_no_idle_cut() -> None:
    """What breaks within the first second was hardly cut for being quiet."""
    cuts = IdleCuts()

    assert not cuts.is_idle_cut(0.2)
    assert not cuts.is_idle_cut(None)
    assert cuts.is_idle_cut(30.0)


@given(st.lists(st.floats(1.0, 120.0), max_size=20))
def test_the_wait_only_ever_shrinks_below_what_was_cut(ages: list[float]) -> None:
    """Each lesson is below the two ages that taught it, and below every lesson before."""
    cuts = IdleCuts()
    lessons = [(lesson, age) for age in ages if (lesson := cuts.learn(age)) is not None]

    assert all(lesson < age for lesson, age in lessons)
    assert [lesson for lesson, _ in lessons] == sorted((lesson for lesson, _ in lessons), reverse=True)


def test_what_comes_after_the_answer_was_due_is_no_idle_cut() -> None:
    """A proxy whose manager is away answers 504 after its own time, however short the poll: that is a fault."""
    cuts = IdleCuts()

    assert cuts.is_idle_cut(3.0, 45.0)
    assert not cuts.is_idle_cut(3.0, 2.25)
