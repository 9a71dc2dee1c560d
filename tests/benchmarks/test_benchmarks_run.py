"""Each benchmark runs from end to end at tiny sizes. What it measures there means nothing, and no time is asserted."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.reports import Report
from benchmarks.subjects import SUBJECTS

_ROOT = Path(__file__).parents[2]
_SECONDS = 100


def bench(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("DELEGATE_")}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments, "--quick"],
        cwd=_ROOT,
        env={**ours, "DELEGATE_BENCH_KUBECTL": "/nonexistent/kubectl", **environment},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "figures.json"


@pytest.mark.timeout(_SECONDS + 20)
@pytest.mark.parametrize("name", sorted(SUBJECTS.keys() - {"sync"}))
def test_subject_gives_figures(name: str, written: Path) -> None:
    """Every subject ends with a report for people and for programs."""
    _report(name, written)


@pytest.mark.timeout(_SECONDS + 20)
def test_sync_says_what_it_could_not_compare(written: Path) -> None:
    """Without kubectl the rest is measured, and an unchanged sync has written nothing."""
    report = _report("sync", written)

    assert report.skipped == ("kubectl apply --server-side: /nonexistent/kubectl is not there; name one with DELEGATE_BENCH_KUBECTL",)
    assert [figure.value for figure in report.figures if figure.name.strip() == "its writes"] == [0]


def _report(name: str, written: Path) -> Report:
    run = bench(name, "--json", str(written))

    assert run.returncode == 0, run.stderr
    (report,) = msgspec.json.decode(written.read_bytes(), type=list[Report])
    assert report.subject == name
    assert run.stdout.startswith(f"{name}: {report.title}")
    assert all(words in run.stdout for words in report.skipped)
    assert any(figure.ratio is not None for figure in report.figures)
    assert all(figure.value >= 0 for figure in report.figures)
    return report


@pytest.mark.timeout(_SECONDS + 20)
def test_what_can_not_be_measured_is_an_error(tmp_path: Path) -> None:
    """A server that isn't there ends the run with 1, and the other subjects are measured all the same."""
    run = bench("sync", "loader", DELEGATE_BENCH_KUBECONFIG=str(tmp_path / "missing"))

    assert run.returncode == 1
    assert "missing" in run.stderr
    assert "loader: " in run.stdout


def test_unknown_subject_is_wrong_usage() -> None:
    """A name that is no subject is answered with those that are."""
    run = bench("sinc")

    assert run.returncode == 2
    assert "'queue'" in run.stderr
