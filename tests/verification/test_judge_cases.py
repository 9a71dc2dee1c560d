"""The shared cases of the judge (canary 23 and 24), and what others get wrong."""

from typing import Any

import msgspec
import pytest

from delegate.engine.verification.judge.comparisons import compare_counts, compare_samples
from delegate.model.verification.checks import Compare, Direction
from delegate.model.verification.readings import Verdict
from delegate.model.verification.records import Batch, Comparison
from tests.verification.cases import case

SPARSE = case("23")
POINTS = case("24")


def batches(*, minutes: int = 15, **changed: Any) -> list[Batch]:
    samples = SPARSE["samples"] | changed
    columns = (samples["new_errors"], samples["new_requests"], samples["old_errors"], samples["old_requests"])
    rows = list(zip(*columns, strict=True))[:minutes]
    return [Batch(60.0 * minute, *map(float, row)) for minute, row in enumerate(rows, start=1)]


class TestSparseErrors:
    """23: twelve errors of 1,500 against none of 1,500."""

    POLICY = SPARSE["tasks"][0]["policy"]["checks"][0]

    def judge(self, rows: list[Batch], *, is_over: bool = True, **fields: Any) -> Comparison | None:
        compare = msgspec.convert({"baseline": "old", "kind": "counts", "requests": "n", "direction": "increase", **fields}, Compare)
        return compare_counts(rows, compare, level=self.POLICY["alpha"], is_over=is_over)

    def test_one_sided_errors_convict(self) -> None:
        """All of twelve on the new side have a chance of 0.5^12."""
        found = self.judge(batches())

        assert found is not None
        assert found.verdict is Verdict.FAIL
        assert (found.p or 0) == pytest.approx(0.5**12)

    def test_exposure_enters(self) -> None:
        """Where the old version has nine times the requests, fewer errors are enough, earlier."""
        found = {
            exposure: [self.judge(batches(old_requests=[exposure] * 15)[:minute], is_over=False) for minute in range(1, 16)]
            for exposure in (100, 900)
        }

        decided = {exposure: next(each for each in rows if each is not None) for exposure, rows in found.items()}
        minutes = {exposure: rows.index(decided[exposure]) + 1 for exposure, rows in found.items()}
        assert minutes == {100: 14, 900: 8}
        assert {each.verdict for each in decided.values()} == {Verdict.FAIL}

    def test_the_same_errors_on_both_sides(self) -> None:
        """They pass."""
        found = self.judge(batches(old_errors=SPARSE["samples"]["new_errors"]))

        assert found is not None
        assert found.verdict is Verdict.PASS

    def test_too_few_to_decide(self) -> None:
        """Three against none may be chance: it goes on."""
        rows = batches(minutes=3)

        assert self.judge(rows, is_over=False) is None
        ended = self.judge(rows)
        assert ended is not None
        assert ended.p == pytest.approx(0.125)

    def test_a_heavy_start(self) -> None:
        """Forty errors in the first minute convict, unless the policy declares a warm-up that covers it, and then it says so."""
        heavy = batches(new_errors=[40] + [0] * 14)
        found, warmed = self.judge(heavy), self.judge(heavy, warmUp="60s")

        assert found is not None
        assert found.verdict is Verdict.FAIL
        assert warmed is not None
        assert warmed.verdict is Verdict.PASS
        assert "start-up: 40 events" in warmed.notes[0]

    def test_a_decrease(self) -> None:
        """Too few orders are found the same way, and too many are not the bad direction."""
        fewer = [Batch(60.0 * minute, 1, 100, 12, 100) for minute in range(1, 16)]
        more = [Batch(60.0 * minute, 12, 100, 1, 100) for minute in range(1, 16)]

        down, up = self.judge(fewer, direction="decrease"), self.judge(more, direction="decrease")
        assert down is not None
        assert down.verdict is Verdict.FAIL
        assert down.ratio == pytest.approx(1 / 12, rel=0.2)
        assert up is not None
        assert up.verdict is Verdict.PASS

    def test_no_requests_on_one_side(self) -> None:
        """There is nothing to compare with, and that is not good."""
        found = self.judge(batches(old_requests=[0] * 15))

        assert found is not None
        assert found.verdict is Verdict.NO_DATA

    @pytest.mark.parametrize(("requests", "verdict"), [(1e18, Verdict.FAIL), (1e-18, Verdict.NO_DATA)])
    def test_hardly_any_requests_on_one_side(self, requests: float, verdict: Verdict) -> None:
        """A baseline of nothing beside ours is none; beside an immense one, errors that it has none of convict."""
        found = self.judge(batches(old_requests=[requests] * 15))

        assert found is not None
        assert found.verdict is verdict

    def test_a_rise_that_is_allowed(self) -> None:
        """Twice as many errors, with twice as many allowed, pass."""
        doubled = [Batch(60.0 * minute, 20, 1000, 10, 1000) for minute in range(1, 16)]

        strict, lenient = self.judge(doubled), self.judge(doubled, allowedIncrease="100%")
        assert strict is not None
        assert strict.verdict is Verdict.FAIL
        assert lenient is not None
        assert lenient.verdict is Verdict.PASS


class TestTwoPoints:
    """24: samples that are too small, and what they must not decide."""

    POLICY = POINTS["tasks"][0]["policy"]["checks"][0]

    def judge(self, new: list[float], old: list[float], *, allowed: str = "10%", **fields: Any) -> Comparison:
        compare = msgspec.convert({"baseline": "old", "direction": "increase", "allowedIncrease": allowed, **fields}, Compare)
        return compare_samples(new, old, compare, level=self.POLICY["alpha"])

    def test_two_points_convict_nobody(self) -> None:
        """They are too few, by name."""
        found = self.judge(POINTS["samples"]["new"], POINTS["samples"]["old"])

        assert (found.verdict, found.reason) == (Verdict.NO_DATA, "too few points: 2 of at least 5")

    def test_six_points(self) -> None:
        """3.4 % more, hardly by chance, fail where nothing is allowed, and pass with a note where 10 % are."""
        six = POINTS["variants"]["six"]
        strict, lenient = self.judge(six["new"], six["old"], allowed="0%"), self.judge(six["new"], six["old"])

        assert strict.verdict is Verdict.FAIL
        assert (strict.p or 0) == pytest.approx(2 / 924)
        assert strict.relative == pytest.approx(0.034, abs=1e-3)
        assert strict.interval is not None
        assert [*strict.interval] == [4, 10]
        assert lenient.verdict is Verdict.PASS
        assert lenient.notes == ("significant, but too small to matter",)

    def test_the_unit_makes_no_difference(self) -> None:
        """The same values a million times smaller have the same verdict and the same p."""
        six = POINTS["variants"]["six"]
        as_is = self.judge(six["new"], six["old"], allowed="0%")
        smaller = self.judge([x / 1e6 for x in six["new"]], [y / 1e6 for y in six["old"]], allowed="0%")

        assert (smaller.verdict, smaller.p) == (as_is.verdict, as_is.p)
        assert smaller.relative == pytest.approx(as_is.relative)

    def test_one_point(self) -> None:
        """It is no data."""
        assert self.judge([300], [205]).verdict is Verdict.NO_DATA

    def test_constants(self) -> None:
        """0 against 5 is clear, without any noise: the same each time."""
        constants = POINTS["variants"]["constants"]
        found = [self.judge(constants["new"], constants["old"], direction=Direction.DECREASE) for _ in range(3)]

        assert found[0].verdict is Verdict.FAIL
        assert found[0] == found[1] == found[2]

    @pytest.mark.parametrize("sides", [([], [205.0, 208.0]), ([205.0] * 9, [])])
    def test_one_side_empty(self, sides: tuple[list[float], list[float]]) -> None:
        """It is no data, whichever it is."""
        assert self.judge(*sides).verdict is Verdict.NO_DATA

    def test_equal_values(self) -> None:
        """They pass, though their ranks have no spread."""
        assert self.judge([5.0] * 30, [5.0] * 30).verdict is Verdict.PASS

    def test_a_baseline_of_nothing(self) -> None:
        """Against zero any rise is infinitely large, and is written as text."""
        found = self.judge([5.0] * 6, [0.0] * 6)

        assert (found.verdict, found.relative) == (Verdict.FAIL, "+Inf")
