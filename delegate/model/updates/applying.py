"""All edits and images of a request against the files of one commit: which files change, and how."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from delegate.model.updates.errors import AmbiguousEditError, EditedFileError, EditNotFoundError, UnreadableYamlError
from delegate.model.updates.finding import find_scalar
from delegate.model.updates.images import ImagePlaces, find_image
from delegate.model.updates.paths import parse_path
from delegate.model.updates.requests import Edit, GitUpdateSpec
from delegate.model.updates.splicing import Replacement, Splice, Touched, splice
from delegate.model.updates.texts import YamlText, read_yaml


class Updated(NamedTuple):
    """`files` are the new contents of those that change; `skipped` names files that hold an image's name but are no YAML."""

    files: Mapping[str, bytes]
    touched: tuple[Touched, ...]
    skipped: tuple[str, ...] = ()


def apply_update(update: GitUpdateSpec, contents: Mapping[str, bytes], searched: Sequence[str]) -> Updated:
    """`contents` are files of one commit, `searched` the names of those that images are looked for in.

    Raises what is wrong with the first edit that can't be made. What has its value already is no change.
    """
    files = _Files(contents)
    splices: dict[str, list[Splice]] = {}
    for edit in update.edits:
        splices.setdefault(edit.file, []).append(_replacement(files.read(edit.file), edit))
    for name, reference in update.images.items():
        for file, found in _places(files, searched, name, reference, update.path).items():
            splices.setdefault(file, []).extend(found)
    changed: dict[str, bytes] = {}
    touched: list[Touched] = []
    for file in sorted(splices):
        spliced = splice(files.read(file), splices[file])
        if spliced.touched:
            changed[file] = spliced.text.encode()
            touched += spliced.touched
    return Updated(changed, tuple(touched), tuple(dict.fromkeys(files.skipped)))


class _Files:
    """The files of a commit, each read once."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self._contents = contents
        self._texts: dict[str, YamlText] = {}
        self.skipped: list[str] = []

    def mentions(self, file: str, word: str) -> bool:
        return word.encode() in self._contents[file]

    def read(self, file: str) -> YamlText:
        """Raises EditedFileError, UnreadableYamlError."""
        if file not in self._texts:
            try:
                self._texts[file] = read_yaml(self._contents[file].decode(), file)
            except UnicodeDecodeError as error:
                raise EditedFileError("the file is no UTF-8", file=file) from error
            except KeyError as error:
                raise EditedFileError("the file is not in the repository", file=file) from error
        return self._texts[file]


def _replacement(yaml: YamlText, edit: Edit) -> Replacement:
    scalar = find_scalar(yaml, parse_path(edit.path), edit.object)
    return Replacement(scalar, edit.value, edit.path)


def _places(files: _Files, searched: Sequence[str], name: str, reference: str, below: str) -> Mapping[str, Sequence[Splice]]:
    found: dict[str, ImagePlaces] = {}
    for file in searched:
        if not files.mentions(file, name.rpartition("/")[2]):
            continue
        try:
            places = find_image(files.read(file), name, reference)
        except (UnreadableYamlError, EditedFileError):
            files.skipped.append(file)
            continue
        if places.overrides or places.fields:
            found[file] = places
    overriding = {file: places.overrides for file, places in found.items() if places.overrides}
    chosen = overriding or {file: places.fields for file, places in found.items()}
    if not chosen:
        seen = f"; {', '.join(files.skipped[:5])} can't be read" if files.skipped else ""
        hint = "check the name (without tag) and spec.path, or set the value by spec.edits"
        raise EditNotFoundError(f"image {name} is nowhere in {below or 'the repository'}{seen}", hint=hint)
    directories = sorted({file.rpartition("/")[0] or "." for file in chosen})
    if len(directories) > 1 and not below:
        words = f"image {name} is in {len(directories)} directories: {', '.join(directories[:10])}"
        raise AmbiguousEditError(words, hint="name the one that is meant by spec.path, or a directory above all of them (`.`)")
    return chosen
