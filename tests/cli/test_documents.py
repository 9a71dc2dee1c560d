"""What the documents tell people to type exists: commands, options, variables, task documents, paths of the protocol."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from delegate.cli.program import cli
from delegate.foundation.settings.aliases import VARIABLES
from delegate.foundation.settings.declarations import declared_in
from delegate.foundation.settings.programs import PROGRAMS
from delegate.model.tasks import read_task
from delegate.protocol import control, enrolment, problems, routes, work

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "docs/operations.md")
_COMMAND = re.compile(r"(?:^|[\s($`])(?:\.venv/bin/)?delegate ((?:[a-z]+)(?: [^`|#;&)\n]*)?)")
_VARIABLE = re.compile(r"`?\b((?:DRONE_)?DELEGATE_[A-Z_]+[A-Z])\b")


def _code(document: str) -> str:
    """Indented and fenced blocks, and what stands between backticks."""
    text = (ROOT / document).read_text().replace("\\\n", " ")
    blocks = [line for line in text.splitlines() if line.startswith("    ")]
    return "\n".join([*blocks, *re.findall(r"`[^`\n]+`", text)])


def _commands() -> Iterator[tuple[str, list[str]]]:
    for document in DOCUMENTS:
        for match in _COMMAND.finditer(_code(document)):
            words = shlex.split(match[1], comments=True)
            if words and cli.get_command(click.Context(cli), words[0]) is not None:
                yield document, words


def test_every_command_and_option_exists() -> None:
    """Down to the flags; enough of them were found for this to mean something."""
    found = list(_commands())
    assert len(found) >= 15
    for document, words in found:
        command: click.Command = cli
        rest = list(words)
        while isinstance(command, click.Group) and rest:
            following = command.get_command(click.Context(command), rest[0])
            assert following is not None, f"{document}: {words}"
            command, rest = following, rest[1:]
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        unknown = [word for word in rest if word.startswith("-") and word != "-" and word.partition("=")[0] not in known]
        assert not unknown, f"{document}: delegate {' '.join(words)}: no {unknown}"


def test_every_variable_exists() -> None:
    """As a setting, as the file of a secret, or as another product's name for one."""
    known = {name for each in declared_in(*PROGRAMS).values() for name in (each.variable, f"{each.variable}_FILE")} | VARIABLES
    for document in DOCUMENTS:
        told = set(_VARIABLE.findall((ROOT / document).read_text()))
        assert told
        assert told - known == set(), document


@pytest.mark.parametrize("document", ["docs/operations.md"])
def test_every_task_document_can_be_submitted(document: str) -> None:
    """As it stands."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)

    assert blocks
    for block in blocks:
        read_task(yaml.safe_load(block))


def test_the_protocol_is_told_in_its_own_words() -> None:
    """Every route, verdict, command, reason, state and problem code is on the page."""
    page = (ROOT / "docs/protocol.md").read_text()
    paths = [
        value.removeprefix(routes.BASE)
        for name, value in vars(routes).items()
        if name.isupper() and str(value).startswith(f"{routes.BASE}/")
    ]
    enumerations = (
        enrolment.AttemptState,
        enrolment.AttemptVerdict,
        work.ResultVerdict,
        work.ReleaseReason,
        control.LeaseVerdict,
        problems.ProblemCode,
    )
    words = [f"`{member.value}`" for enumeration in enumerations for member in enumeration]

    assert [path for path in paths if f"{path}`" not in page] == []
    assert [word for word in words if word not in page] == []
