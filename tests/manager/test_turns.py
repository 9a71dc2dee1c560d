"""Whose turn it is, and how many may run at once: the pure decisions."""

from collections import Counter, deque

from hypothesis import given
from hypothesis import strategies as st

from delegate.manager.concurrency import Allowance, LimitKey, LimitKind, Place
from delegate.manager.turns import Flow, take_turns

AGEING = 60.0


def serve(flows: list[Flow], lengths: dict[int, int], *, wanted: int, now: float = 1000.0) -> list[int]:
    """The flows in the order in which they were served."""
    left = {flow.id: deque([flow.id] * lengths[flow.id]) for flow in flows}
    taken, _ = take_turns(
        flows, lambda flow: left[flow.id].popleft() if left[flow.id] else None, wanted=wanted, now=now, ageing_seconds=AGEING
    )
    return taken


def test_ten_tasks_are_not_held_up_by_ten_thousand() -> None:
    """Case 45: the newcomer gets every second turn until it has all it wants."""
    flood, newcomer = Flow(1, 0, 999.9, 0.0), Flow(2, 0, 0.0, 999.95)

    order = serve([flood, newcomer], {1: 10_000, 2: 10}, wanted=40)

    assert order[:20].count(2) == 10
    assert order[20:] == [1] * 20


def test_a_higher_priority_goes_first() -> None:
    """As long as nobody else has waited for a minute longer."""
    low, high = Flow(1, 0, 0.0, 990.0), Flow(2, 1, 0.0, 999.0)

    assert serve([low, high], {1: 3, 2: 3}, wanted=6) == [2, 2, 2, 1, 1, 1]


def test_the_lowest_priority_is_served_in_the_end() -> None:
    """However much comes in above it: it ages a step a minute."""
    served_at = 0.0
    low_served: list[float] = []
    for second in range(0, 1300, 10):
        now = float(second)
        flows = [Flow(1, -10, low_served[-1] if low_served else 0.0, 0.0), Flow(2, 10, served_at, now - 5.0)]
        for flow in serve(flows, {1: 5, 2: 5}, wanted=1, now=now):
            if flow == 1:
                low_served.append(now)
            else:
                served_at = now

    assert low_served == [1210.0]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1000)), min_size=1, max_size=6),
    st.integers(1, 60),
)
def test_equal_flows_get_equal_shares(sizes: list[tuple[int, float]], wanted: int) -> None:
    """No flow that still has tasks gets two fewer than another."""
    flows = [Flow(number, 0, 0.0, since) for number, (_, since) in enumerate(sizes)]
    lengths = {number: length for number, (length, _) in enumerate(sizes)}

    got = Counter(serve(flows, lengths, wanted=wanted))

    assert got.total() == min(wanted, sum(lengths.values()))
    unmet = [got[flow.id] for flow in flows if got[flow.id] < lengths[flow.id]]
    assert not unmet or max(got.values()) - min(unmet) <= 1


PLACES = st.builds(
    Place,
    environment=st.sampled_from(["", "dev", "prod"]),
    cluster_uid=st.sampled_from(["a", "b"]),
    concurrency_key=st.sampled_from(["", "db", "dns"]),
)
LIMITS = st.dictionaries(
    st.one_of(
        st.builds(LimitKey, st.just(LimitKind.ENVIRONMENT), st.sampled_from(["dev", "prod"])),
        st.builds(LimitKey, st.just(LimitKind.CLUSTER), st.sampled_from(["a", "b"])),
        st.builds(LimitKey, st.just(LimitKind.KEY), st.just("db")),
    ),
    st.integers(0, 3),
)


@given(LIMITS, st.lists(st.tuples(PLACES, st.integers(1, 2)), max_size=4), st.lists(PLACES, max_size=20))
def test_no_more_begin_than_a_limit_allows(limits: dict[LimitKey, int], running: list[tuple[Place, int]], wanted: list[Place]) -> None:
    """Whatever runs and whatever comes; and what is refused would have been too much."""
    allowance = Allowance(limits, running)
    taken: list[Place] = []
    for place in wanted:
        before = Counter(key for each in taken for key in allowance.keys_of(each))
        if (full := allowance.full(place)) is None:
            allowance.take(place)
            taken.append(place)
        else:
            used = before[full] + sum(number for each, number in running if full in allowance.keys_of(each))
            assert used >= limits.get(full, 1)
    for key, number in Counter(key for place in taken for key in allowance.keys_of(place)).items():
        already = sum(count for place, count in running if key in allowance.keys_of(place))
        assert number <= max(0, limits.get(key, 1) - already)
