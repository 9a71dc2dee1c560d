"""How a setting is declared: once, as a field of a section, with everything that is to be known about it.

The loader, the flags of commands, `config show` and the check for unknown names all read these declarations.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast, dataclass_transform, get_type_hints, overload

from delegate.foundation.settings.kinds import Kind

T = TypeVar("T")
D = TypeVar("D")
S = TypeVar("S")
_METADATA = "setting"


@dataclass(frozen=True)
class Resolving:
    """What a computed default may look at: the environment, and the settings declared before it, by key."""

    environment: Mapping[str, str]
    values: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Setting(Generic[T]):
    """One setting. `key` names it in files, `variable` in the environment, `flag` on the command line.

    A secret one has a `_FILE` variable, a `-file` flag and a `_file` key beside it.
    """

    variable: str
    key: str
    flag: str
    kind: Kind[T]
    about: str
    required: bool
    in_file: bool
    also: tuple[str, ...]
    computed: Callable[[Resolving], T] | None

    @property
    def secret(self) -> bool:
        return self.kind.secret


@dataclass(frozen=True)
class Fault:
    """What is wrong with a setting beside others: found by a section's `faults()`, placed by the loader."""

    key: str
    message: str
    hint: str = ""


@overload
def setting(
    variable: str,
    kind: Kind[T],
    about: str,
    *,
    default: D,
    key: str = ...,
    flag: str = ...,
    required: bool = ...,
    in_file: bool = ...,
    also: tuple[str, ...] = ...,
) -> T | D: ...


@overload
def setting(
    variable: str,
    kind: Kind[T],
    about: str,
    *,
    default_factory: Callable[[], D],
    key: str = ...,
    flag: str = ...,
) -> T | D: ...


@overload
def setting(
    variable: str,
    kind: Kind[T],
    about: str,
    *,
    computed: Callable[[Resolving], T],
    key: str = ...,
    flag: str = ...,
    in_file: bool = ...,
) -> T: ...


def setting(
    variable: str,
    kind: Kind[Any],
    about: str,
    *,
    default: object = dataclasses.MISSING,
    default_factory: Callable[[], object] | None = None,
    computed: Callable[[Resolving], Any] | None = None,
    key: str = "",
    flag: str = "",
    required: bool = False,
    in_file: bool = True,
    also: tuple[str, ...] = (),
) -> Any:
    """A field of a section. `about` says what it is for, its unit, and why the default is what it is.

    `computed` settings are worked out by the loader from the environment and earlier settings; building the section
    by hand, they have to be given. `required` ones must have a value other than their default when a program starts.
    """
    key = key or variable.removeprefix("DELEGATE_").lower()
    declared = Setting(
        variable=variable,
        key=key,
        flag=flag or "--" + key.replace("_", "-"),
        kind=kind,
        about=about,
        required=required,
        in_file=in_file,
        also=also,
        computed=computed,
    )
    metadata = {_METADATA: declared}
    if default_factory is not None:
        return dataclasses.field(default_factory=default_factory, metadata=metadata)
    if default is not dataclasses.MISSING:
        return dataclasses.field(default=default, metadata=metadata)
    return dataclasses.field(metadata=metadata)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(setting,))
def section(of: type[S]) -> type[S]:
    """Makes a class of `setting` fields a frozen section, built with keyword arguments alone."""
    return dataclasses.dataclass(frozen=True, kw_only=True)(of)


def settings_of(part: type) -> Iterator[tuple[dataclasses.Field[Any], Setting[Any]]]:
    """The settings of a section, in order of declaration."""
    for field in dataclasses.fields(part):
        yield field, cast("Setting[Any]", field.metadata[_METADATA])


def sections_of(program: type) -> dict[str, type]:
    """The sections of a program's settings, in order, by attribute."""
    hints = get_type_hints(program)
    return {field.name: hints[field.name] for field in dataclasses.fields(program)}


def declared_in(*programs: type) -> dict[str, Setting[Any]]:
    """Every setting of these programs by key; the first declaration of a key stands."""
    found: dict[str, Setting[Any]] = {}
    for program in programs:
        for part in sections_of(program).values():
            for _, declared in settings_of(part):
                found.setdefault(declared.key, declared)
    return found
