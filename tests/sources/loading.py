"""What the tests of the loader share: short ways to load a text and to see what was refused."""

from pathlib import Path

from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import Loaded, SourceFile, load
from delegate.foundation.errors import DelegateError, flatten

DATA = Path(__file__).parent.parent / "data"
CASES = DATA / "cases" / "sync"

HEAD = "apiVersion: example.com/v1\nkind: Sample\nmetadata: {name: sample}\n"


def load_text(text: str | bytes, path: str = "file.yaml", limits: SourceLimits | None = None) -> Loaded:
    data = text.encode() if isinstance(text, str) else text
    return load([SourceFile(path, data)], limits)


def bodies(text: str | bytes, path: str = "file.yaml") -> list[object]:
    return [manifest.body for manifest in load_text(text, path).manifests]


def refusals(*files: SourceFile, limits: SourceLimits | None = None) -> tuple[DelegateError, ...]:
    """Every fault of a set, in order; fails where there is none."""
    try:
        loaded = load(files, limits)
    except DelegateError as error:
        return flatten(error)
    raise AssertionError(f"nothing was refused: {loaded.manifests}")


def refusals_of(text: str | bytes, path: str = "file.yaml", limits: SourceLimits | None = None) -> tuple[DelegateError, ...]:
    data = text.encode() if isinstance(text, str) else text
    return refusals(SourceFile(path, data), limits=limits)


def case_files(name: str, *names: str) -> list[SourceFile]:
    folder = CASES / name
    return [SourceFile(file, (folder / file).read_bytes()) for file in names]
