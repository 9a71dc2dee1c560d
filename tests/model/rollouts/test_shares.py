"""How many new pods make which share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.rollouts.errors import UnreachableShareError
from delegate.model.rollouts.shares import covering_count, effective_share, nearest_count, share_by_ordinals, share_by_pods, share_by_router


@pytest.mark.parametrize(
    ("stable", "wanted", "most", "count"),
    [
        (10, 41.0, 45.0, 7),
        (7, 10.0, 15.0, 1),
        (1, 5.0, 50.0, 1),
        (4, 25.0, 34.0, 1),
        (10, 25.0, 34.0, 3),
        (2, 25.0, 34.0, 1),
        (1, 50.0, None, 1),
    ],
)
def test_the_nearest_number_of_pods_is_taken(stable: int, wanted: float, most: float | None, count: int) -> None:
    """As the shared cases have it."""
    assert share_by_pods(stable, wanted, most).count == count


@pytest.mark.parametrize(("stable", "wanted", "most"), [(1, 5.0, None), (1, 5.0, 5.0), (0, 5.0, 50.0), (3, 10.0, None)])
def test_what_can_not_be_reached_is_refused(stable: int, wanted: float, most: float | None) -> None:
    """Never rounded to none, and never to more than agreed."""
    with pytest.raises(UnreachableShareError):
        share_by_pods(stable, wanted, most)


@given(st.integers(1, 500), st.floats(0.1, 99.0))
def test_no_other_number_of_pods_is_nearer(stable: int, wanted: float) -> None:
    """The distance to the wanted share is the least there is."""
    count = nearest_count(stable, wanted)
    distance = abs(effective_share(count, stable) - wanted)

    assert all(distance <= abs(effective_share(other, stable) - wanted) + 1e-6 for other in range(max(0, count - 3), count + 4))


@given(st.integers(1, 500), st.floats(0.1, 100.0))
def test_with_a_router_some_pod_bears_any_weight(stable: int, wanted: float) -> None:
    """Never none, and never more than there are old ones."""
    assert 1 <= share_by_router(stable, wanted).count <= stable


@pytest.mark.parametrize(
    ("rule", "recreate", "count"), [("25%", False, 2), (1, False, 1), ("0%", False, 0), (None, False, 2), ("25%", True, 10)]
)
def test_promotion_is_covered_by_what_the_old_set_lets_go(rule: str | int | None, recreate: bool, count: int) -> None:
    """Of ten pods."""
    assert covering_count(10, rule, recreate=recreate) == count


@pytest.mark.parametrize(
    ("replicas", "wanted", "most", "count"),
    [
        (3, 33.0, None, 1),
        (3, 67.0, None, 2),
        (4, 95.0, None, 3),
        (4, 100.0, None, 4),
        (10, 5.0, None, 1),
        (3, 10.0, 34.0, 1),
        (1, 50.0, 100.0, 1),
    ],
)
def test_whole_ordinals_make_the_nearest_share(replicas: int, wanted: float, most: float | None, count: int) -> None:
    """All of them only where that is asked for, or agreed to."""
    share = share_by_ordinals(replicas, wanted, most)
    assert (share.count, share.stable) == (count, replicas - count)


@pytest.mark.parametrize(("replicas", "wanted", "most"), [(0, 50.0, None), (1, 50.0, None), (3, 10.0, None), (3, 10.0, 30.0)])
def test_a_share_that_no_whole_ordinal_reaches_is_refused(replicas: int, wanted: float, most: float | None) -> None:
    """One pod alone is no canary."""
    with pytest.raises(UnreachableShareError):
        share_by_ordinals(replicas, wanted, most)


@given(replicas=st.integers(1, 200), wanted=st.floats(0.1, 99.9))
def test_ordinals_are_within_half_a_pod_of_what_was_wanted(replicas: int, wanted: float) -> None:
    """Or refused; and an old pod always stays."""
    try:
        share = share_by_ordinals(replicas, wanted)
    except UnreachableShareError:
        assert replicas * wanted / 100.0 < 0.5 + 1e-6 or replicas == 1
        return
    assert 0 < share.count < replicas
    assert abs(share.count - replicas * wanted / 100.0) <= 0.5 + 1e-6 or share.count == replicas - 1
