"""A day's work with the real kubectl and helm, command by command as it was recorded on a real control plane."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from delegate.simulator.server import Simulator
from tests.simulator.programs import Person, Printed
from tests.simulator.replaying import load

_DRAWN = "[bcdfghjklmnpqrstvwxz2456789]"
_POD = re.compile(f"^(pod/.*?-)(?:<pod>|{_DRAWN}{{5}}|{_DRAWN}{{6,10}}-{_DRAWN}{{5}})$")


@pytest.mark.timeout(180)
async def test_kubectl_and_helm_print_what_they_printed_on_a_real_control_plane(simulator: Simulator, tmp_path: Path) -> None:
    """Every exit code and every recorded line is the same, names that are drawn for pods aside."""
    session = load("kubectl-helm-session")
    person = Person(simulator, tmp_path, "team")
    for name, text in session["files"].items():
        path = person.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    found = []
    for number, step in enumerate(session["steps"], 1):
        printed = await person.run(step["command"])
        found += [f"step {number}, {step['command']}: {line}" for line in differences(step, printed)]

    assert found == []


def differences(step: dict[str, Any], printed: Printed) -> list[str]:
    """What a command printed against what it was recorded to print; of a longer standard error the last lines are recorded."""
    found = []
    if printed.code != step["exit"]:
        found.append(f"exit {printed.code} instead of {step['exit']}: {printed.stderr}")
    if "stdout" in step and _unnamed(printed.stdout) != _unnamed(step["stdout"]):
        found.append(f"printed {printed.stdout} instead of {step['stdout']}")
    if "stderr" in step:
        want = step["stderr"]
        if printed.stderr[-len(want) :] != want if want else printed.stderr:
            found.append(f"complained {printed.stderr} instead of {want}")
    if "status" in step and (got := json.loads("\n".join(printed.stdout))["info"]["status"]) != step["status"]:
        found.append(f"status {got} instead of {step['status']}")
    if "statuses" in step and (states := [item["status"] for item in json.loads("\n".join(printed.stdout))]) != step["statuses"]:
        found.append(f"statuses {states} instead of {step['statuses']}")
    return found


def _unnamed(lines: list[str]) -> list[str]:
    """The hashes in names are the real ones; the rest of a pod's name is drawn."""
    return [_POD.sub(r"\1<pod>", line) for line in lines]


@pytest.mark.parametrize(
    "printed",
    [
        Printed(1, ["a", "pod/web-67fd86cfbd-x7k2b"], ["the end"]),
        Printed(0, ["a", "pod/wob-67fd86cfbd-x7k2b"], ["the end"]),
        Printed(0, ["a"], ["the end"]),
        Printed(0, ["a", "pod/web-67fd86cfbd-x7k2b"], ["another end"]),
    ],
)
def test_the_comparison_notices_differences(printed: Printed) -> None:
    """A session without differences would prove nothing if it could not find these."""
    step = {"exit": 0, "stdout": ["a", "pod/web-<pod>"], "stderr": ["the end"]}

    assert differences(step, Printed(0, ["a", "pod/web-67fd86cfbd-x7k2b"], ["before", "the end"])) == []
    assert differences(step, printed) != []
