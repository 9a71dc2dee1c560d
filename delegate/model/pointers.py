"""JSON pointers (RFC 6901), as JSON patches, results and ignore rules write places in a body."""

from collections.abc import Iterable


def pointer_of(path: Iterable[str | int]) -> str:
    """`/spec/ports/0` for the steps of a path; empty for the whole."""
    return "".join(f"/{escaped(step)}" for step in path)


def escaped(step: str | int) -> str:
    """One step as a pointer has it."""
    return str(step).replace("~", "~0").replace("/", "~1")


def steps_of(pointer: str) -> list[str]:
    """The steps of a pointer that begins with `/`; none of the empty one."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
