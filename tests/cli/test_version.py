"""`delegate version` tells what runs, and what it would run."""

import platform
from pathlib import Path

from delegate import __version__
from tests.cli.programs import run


def program(directory: Path, name: str, body: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_versions_of_itself_and_what_it_uses(tmp_path: Path) -> None:
    """As a document."""
    program(tmp_path, "helm", "echo v4.1.4+g0ab1234")
    program(tmp_path, "git", "echo git version 2.99.1")

    document = run("version", "-o", "json", env={"PATH": f"{tmp_path}:/usr/bin:/bin"}).document

    assert document == {
        "delegate": __version__,
        "protocol": "1",
        "helm": "v4.1.4+g0ab1234",
        "git": "2.99.1",
        "python": platform.python_version(),
    }


def test_a_program_that_is_missing_or_broken_is_not_found(tmp_path: Path) -> None:
    """It is no fault of `version`."""
    program(tmp_path, "git", "exit 3")

    ended = run("version", env={"PATH": str(tmp_path)})

    assert ended.code == 0
    told = dict(line.split(maxsplit=1) for line in ended.stdout.splitlines())
    assert told["delegate"] == __version__
    assert told["helm"] == told["git"] == "not found"
