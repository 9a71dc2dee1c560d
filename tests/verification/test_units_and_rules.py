"""Units, rules and their meeting: conversions that are exact, rules without a unit refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.verification.rules import RuleError, parse_rule, parse_share
from delegate.model.verification.units import UNITS, Dimension, UnknownUnitError, parse_unit

SYMBOLS = sorted({unit.symbol for unit in UNITS.values()})


@pytest.mark.parametrize(
    ("value", "unit", "rule"),
    [
        (7.0, "%", "<= 0.07 ratio"),
        (0.07, "ratio", "<= 7%"),
        (0.2, "s", "<= 200ms"),
        (200_000_000.0, "ns", "<= 200 ms"),
        (300.0, "us", "<= 0.3ms"),
        (1.0, "GiB", "<= 1024 MiB"),
        (1.5, "MB", "<= 1500 KB"),
        (60.0, "1/min", "<= 1 /s"),
        (200.0, "count", "== 200 count"),
    ],
)
def test_equal_numbers_in_two_units_are_equal(value: float, unit: str, rule: str) -> None:
    """On the bound itself no rounding decides."""
    assert parse_rule(rule).accepts(parse_unit(unit).to_base(value))


def test_seconds_are_not_milliseconds() -> None:
    """0.9 s are far over 400 ms, and 0.9 ms are not."""
    rule = parse_rule("<= 400ms")

    assert not rule.accepts(parse_unit("s").to_base(0.9))
    assert rule.accepts(parse_unit("ms").to_base(0.9))


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.sampled_from(SYMBOLS), st.data())
def test_conversion_there_and_back(value: float, symbol: str, data: st.DataObject) -> None:
    """A value in another unit of its dimension is the same value again."""
    unit = parse_unit(symbol)
    other = parse_unit(data.draw(st.sampled_from([each for each in SYMBOLS if parse_unit(each).dimension is unit.dimension])))

    assert other.convert(unit.convert(value, other), unit) == pytest.approx(value, rel=1e-12)


def test_infinities_stay() -> None:
    """In every unit."""
    assert parse_unit("ms").to_base(math.inf) == math.inf
    assert parse_unit("%").convert(-math.inf, parse_unit("ratio")) == -math.inf


@pytest.mark.parametrize("text", ["", "Mb", "sec", "MS", "pct", "k"])
def test_what_is_no_unit(text: str) -> None:
    """Nothing is guessed; the units that there are, are named."""
    with pytest.raises(UnknownUnitError, match="ratio"):
        parse_unit(text)


@pytest.mark.parametrize(
    "text", ["<= 1", "<= 0.01", "1%", "<= %", "<= one %", "=> 1%", "<= 1 % or so", "5ms..", "9ms..5ms", "1ms..2%", "<= NaN %"]
)
def test_what_is_no_rule(text: str) -> None:
    """A number without a unit above all."""
    with pytest.raises(RuleError):
        parse_rule(text)


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("<= 1%", [0.01, 0.0, -1.0], [0.010001, math.inf]),
        ("< 1%", [0.0099], [0.01]),
        (">= 99.5 %", [0.995, math.inf], [0.9949]),
        ("> 0 count", [1.0], [0.0]),
        ("50ms..200ms", [0.05, 0.2], [0.0499, 0.2001]),
        ("50..200 ms", [0.05, 0.2], [0.0499, 0.2001]),
        ("== 200 count", [200.0], [503.0]),
        ("!= 0 count", [1.0, -1.0], [0.0]),
        ("fail if > 1percent", [0.01], [0.0101]),
        ("fail if == 0 count", [1.0], [0.0]),
    ],
)
def test_rules(text: str, good: list[float], bad: list[float]) -> None:
    """Each way to write one, at its ends."""
    rule = parse_rule(text)

    assert all(rule.accepts(value) for value in good)
    assert not any(rule.accepts(value) for value in bad)


def test_nan_is_never_judged() -> None:
    """Neither by a rule nor by its opposite."""
    for text in ("<= 1%", "fail if > 1%", "!= 0%"):
        with pytest.raises(ValueError, match="NaN"):
            parse_rule(text).accepts(math.nan)


@given(
    st.floats(-100, 100), st.sampled_from(["<= 5 count", "< 5 count", ">= 5 count", "> 5 count", "== 5 count", "!= 5 count", "1..5 count"])
)
def test_a_lower_bound_decides_only_what_is_certain(bound: float, text: str) -> None:
    """Whatever the true number is, from the bound on, the rule says the same; else it is not said."""
    rule = parse_rule(text)
    possible = {rule.accepts(bound + more) for more in (0.0, 0.25, 1.0, 3.0, 7.0, 1000.0, math.inf)}
    found = rule.accepts_at_least(bound)

    assert found is None or possible == {found}


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=6), st.sampled_from(["<= 5 count", ">= 5 count", "1..5 count", "== 5 count"]))
def test_the_worst_value_fails_if_any_does(values: list[float], text: str) -> None:
    """So that one bad series can't hide among good ones."""
    rule = parse_rule(text)

    assert rule.accepts(max(values, key=rule.badness)) == all(map(rule.accepts, values))


def test_shares() -> None:
    """Of a baseline, as a ratio."""
    assert parse_share("10%") == 0.1
    assert parse_share("0.5 ratio") == 0.5
    for text in ("10", "5ms", "-1%", ""):
        with pytest.raises(RuleError):
            parse_share(text)


def test_every_dimension_has_a_unit_of_its_own_base() -> None:
    """Whose factor is one."""
    assert {unit.dimension for unit in UNITS.values() if unit.factor == 1} == set(Dimension)
