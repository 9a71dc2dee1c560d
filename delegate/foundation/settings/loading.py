"""Builds a program's settings: flag > environment variable > alias of one > file > default.

Everything that is wrong is found in one pass and reported together. Empty variables count as unset, as manifests
write them. Secrets may also be given by file at each level; values of secrets appear in no message.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import unquote

from delegate.foundation.errors import DelegateError, ErrorGroup
from delegate.foundation.redaction import KNOWN_SECRETS, SHORTEST_SECRET
from delegate.foundation.secrets import Secret, SecretUrl
from delegate.foundation.settings import aliases, names
from delegate.foundation.settings.declarations import Fault, Resolving, Setting, declared_in, sections_of, settings_of
from delegate.foundation.settings.directories import configuration_directory
from delegate.foundation.settings.errors import SettingsError
from delegate.foundation.settings.kinds import PATH, Shown
from delegate.foundation.settings.programs import PROGRAMS, DelegateSettings, ManagerSettings

if TYPE_CHECKING:
    from delegate.foundation.settings.files import FileValue

P = TypeVar("P")

SYSTEM_FILE = Path("/etc/delegate/delegate.yaml")
LARGEST_SECRET_FILE = 64 * 2**10
"""Bytes."""
_FOREIGN_VARIABLES = frozenset({"DELEGATE_TEST_KUBECONFIG"})
"""Ours by name, but no setting: the test suite's."""


@dataclass(frozen=True)
class Place:
    """Where a value was given. Its text names the source the way a person would look for it. `content` is the file that holds it."""

    source: str
    name: str = ""
    file: str = ""
    line: int | None = None
    content: Path | None = None

    def __str__(self) -> str:
        if self.file:
            return f"{self.source} {self.file}:{self.line}"
        return f"{self.source} {self.name}" if self.name else self.source


DEFAULT = Place("default")


@dataclass(frozen=True)
class SettingsWarning:
    """Something that works, and that somebody should know: `event` for programs, the rest for people."""

    event: str
    name: str
    message: str
    hint: str = ""


@dataclass(frozen=True)
class SettingView:
    """One setting as `config show` shows it; the value of a secret is masked."""

    name: str
    value: Shown
    source: str
    variable: str
    flag: str
    about: str


@dataclass(frozen=True)
class Loaded(Generic[P]):
    """A program's settings, with where each value came from, and what to warn about."""

    settings: P
    places: dict[str, Place]
    warnings: tuple[SettingsWarning, ...]

    def describe(self) -> tuple[SettingView, ...]:
        """Every setting in order of declaration, secrets masked."""
        return tuple(
            SettingView(
                name=declared.key,
                value=None if value is None or (declared.required and value == "") else declared.kind.show(value),
                source=str(self.places[declared.key]),
                variable=declared.variable,
                flag=declared.flag,
                about=declared.about,
            )
            for declared, value in self._values()
        )

    def _values(self) -> Iterator[tuple[Setting[Any], Any]]:
        for attribute in sections_of(type(self.settings)):
            part = getattr(self.settings, attribute)
            for field, declared in settings_of(type(part)):
                yield declared, getattr(part, field.name)


def load(
    program: type[P],
    *,
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    config: Path | None = None,
    require: bool = True,
) -> Loaded[P]:
    """The settings of `program` (one of `programs`).

    `flags` are by key (a secret's file as `<key>_file`); `config` is a file that must exist, else the default one is
    read where present. With `require=False` a missing required value is no fault. Secrets read are registered for
    masking. Raises SettingsError, or a group of them.
    """
    loading = _Loading(flags or {}, os.environ if environment is None else environment)
    loading.read_file(program, config)
    loading.check_variables()
    parts = {name: loading.build(part, require) for name, part in sections_of(program).items()}
    if loading.errors:
        raise loading.errors[0] if len(loading.errors) == 1 else ErrorGroup(list[DelegateError](loading.errors))
    return Loaded(program(**parts), loading.places, tuple(loading.warnings))


@dataclass(frozen=True)
class Examined(Generic[P]):
    """Settings of which some may be broken: `settings` has the defaults in the place of each value that can't be used; `broken` names the
    sections with such values, or with values that don't go together."""

    settings: P
    broken: frozenset[str]
    errors: tuple[SettingsError, ...]
    loaded: Loaded[P]


def examine(
    program: type[P], *, flags: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None, config: Path | None = None
) -> Examined[P]:
    """As `load`, for whoever wants to say what is wrong and go on with the rest."""
    loading = _Loading(flags or {}, os.environ if environment is None else environment)
    try:
        loading.read_file(program, config)
    except DelegateError as error:
        loading.errors.append(SettingsError(error.message, hint=error.hint, file=error.file, line=error.line))
    loading.check_variables()
    parts, broken = {}, set()
    for name, part in sections_of(program).items():
        before = len(loading.errors)
        parts[name] = loading.build(part, require=False)
        if len(loading.errors) > before:
            broken.add(name)
        if parts[name] is None:
            harmless = {name: value for name, value in os.environ.items() if name in ("HOME", "PATH")}
            parts[name] = replace(_Loading({}, harmless).build(part, require=False), **loading.sound)
    settings = program(**parts)
    return Examined(settings, frozenset(broken), tuple(loading.errors), Loaded(settings, loading.places, tuple(loading.warnings)))


def default_config_file(program: type, environment: Mapping[str, str]) -> Path | None:
    """The file that is read when none is given; None where there is none.

    People's commands look into their own configuration directory first, and pass over a system file that they may not read.
    """
    if program in (DelegateSettings, ManagerSettings):
        return SYSTEM_FILE if SYSTEM_FILE.exists() else None
    for path in (configuration_directory(environment) / "delegate.yaml", SYSTEM_FILE):
        if os.access(path, os.R_OK):
            return path
    return None


class _Loading:
    def __init__(self, flags: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self.errors: list[SettingsError] = []
        self.warnings: list[SettingsWarning] = []
        self.places: dict[str, Place] = {}
        self.sound: dict[str, object] = {}
        """What was given for the section that was built last and can be used, by field."""
        self._told: set[str] = set()
        self._flags = flags
        self._environment = environment
        self._file: Path | None = None
        self._file_values: dict[str, FileValue] = {}
        self._values: dict[str, object] = {}
        self._known = declared_in(*PROGRAMS)

    def read_file(self, program: type, config: Path | None) -> None:
        self._file = config or default_config_file(program, self._environment)
        if self._file is None:
            return
        from delegate.foundation.settings.files import read_settings_file  # noqa: PLC0415 - without a file, no YAML is loaded

        values = read_settings_file(self._file, self.errors.append)
        keys = {name for declared in self._known.values() if declared.in_file for name in _names(declared, declared.key, "_file")}
        for key, value in values.items():
            if key in keys:
                self._file_values[key] = value
            elif key in names.RENAMED_KEYS:
                self._refuse_in_file(value.line, f"{key} is not used any more", f"use `{names.RENAMED_KEYS[key]}`")
            else:
                near = names.nearest(key, keys)
                hint = f"did you mean `{near}`?" if near else "`delegate config show` lists the keys"
                self._refuse_in_file(value.line, f"unknown key `{key}`", hint)

    def check_variables(self) -> None:
        known = {name for declared in self._known.values() for name in _names(declared, declared.variable, "_FILE")}
        for variable, value in sorted(self._environment.items()):
            if variable in aliases.WITHOUT_EFFECT:
                self.warnings.append(
                    SettingsWarning(
                        "settings.alias_without_effect",
                        variable,
                        f"{variable} is a setting of the Harness Delegate that means nothing here",
                        aliases.WITHOUT_EFFECT[variable],
                    )
                )
            elif variable in aliases.VARIABLES:
                continue
            elif variable.startswith("DELEGATE_") and variable not in known | _FOREIGN_VARIABLES and not names.is_injected(variable, value):
                near = names.nearest(variable, known)
                self.warnings.append(
                    SettingsWarning(
                        "settings.unknown_variable",
                        variable,
                        f"{variable} is no setting and was ignored",
                        f"did you mean {near}?" if near else "`delegate config show` lists the variables",
                    )
                )

    def build(self, part: type, require: bool) -> Any:
        """A section, or None where one of its values can't be used (the faults are recorded)."""
        before = len(self.errors)
        values: dict[str, object] = {}
        self.sound = {}
        for field, declared in settings_of(part):
            before_this = len(self.errors)
            found = self._find(declared)
            if found is not None:
                text, place = found
                self.places[declared.key] = place
                values[field.name] = self._parse(declared, text, place)
                if len(self.errors) == before_this:
                    self.sound[field.name] = values[field.name]
            else:
                self.places[declared.key] = DEFAULT
                if declared.computed is not None and len(self.errors) == before:
                    values[field.name] = declared.computed(Resolving(self._environment, self._values))
                if declared.required and require and len(self.errors) == before:
                    self.errors.append(
                        SettingsError(
                            f"{declared.variable} is not set",
                            hint=f"set {declared.variable}, or give {declared.flag}, or `{declared.key}` in the settings file",
                        )
                    )
            self._values[declared.key] = values.get(field.name, field.default)
        if len(self.errors) > before:
            return None
        built = part(**values)
        for fault in getattr(built, "faults", list)():
            self.errors.append(self._placed(fault))
        for doubt in getattr(built, "doubts", list)():
            self.warnings.append(SettingsWarning("settings.doubtful", doubt.key, doubt.message, doubt.hint))
        return built

    def _find(self, declared: Setting[Any]) -> tuple[str, Place] | None:
        """The winning text and its place; the first level that says anything decides."""
        for level in (self._from_flags, self._from_environment, self._from_aliases, self._from_file):
            found = level(declared)
            if found is not None:
                return found
        return None

    def _from_flags(self, declared: Setting[Any]) -> tuple[str, Place] | None:
        value, by_file = self._flags.get(declared.key), self._flags.get(f"{declared.key}_file") if declared.secret else None
        place, file_place = Place("flag", declared.flag), Place("flag", f"{declared.flag}-file")
        if value is not None and declared.secret:
            self.warnings.append(
                SettingsWarning(
                    "settings.secret_on_command_line",
                    declared.flag,
                    f"{declared.flag} shows the secret to everybody who can list processes",
                    f"use {declared.variable}_FILE or {declared.flag}-file",
                )
            )
        return self._one_of(value, place, by_file, file_place)

    def _from_environment(self, declared: Setting[Any]) -> tuple[str, Place] | None:
        variable = next((name for name in (declared.variable, *declared.also) if self._environment.get(name)), declared.variable)
        value = self._environment.get(variable) or None
        if value is not None and names.is_injected_value(value):
            self.errors.append(
                SettingsError(
                    f"{variable} holds {value!r}: Kubernetes put the address of a Service there",
                    hint=f"set `enableServiceLinks: false` in the pod's spec (or rename the Service); to be safe set {variable} too",
                )
            )
            return None
        by_file = (self._environment.get(f"{declared.variable}_FILE") or None) if declared.secret else None
        return self._one_of(value, Place("environment", variable), by_file, Place("environment", f"{declared.variable}_FILE"))

    def _from_aliases(self, declared: Setting[Any]) -> tuple[str, Place] | None:
        alias = aliases.find_alias(declared.key, self._environment)
        if alias is None:
            return None
        if alias.variable not in self._told:
            self._told.add(alias.variable)
            self.warnings.append(
                SettingsWarning(
                    "settings.alias",
                    alias.variable,
                    f"{alias.variable} is taken as an alias of {declared.variable}",
                    f"set {declared.variable} instead",
                )
            )
        return alias.text, Place("alias", alias.variable)

    def _from_file(self, declared: Setting[Any]) -> tuple[str, Place] | None:
        if not declared.in_file:
            return None
        value = self._file_values.get(declared.key)
        by_file = self._file_values.get(f"{declared.key}_file") if declared.secret else None
        return self._one_of(
            value.text if value else None,
            Place("file", declared.key, str(self._file), value.line if value else None),
            by_file.text if by_file else None,
            Place("file", f"{declared.key}_file", str(self._file), by_file.line if by_file else None),
        )

    def _one_of(self, value: str | None, place: Place, by_file: str | None, file_place: Place) -> tuple[str, Place] | None:
        if value is not None and by_file is not None:
            self._refuse(file_place, f"{place.name} and {file_place.name} are both given", f"keep {file_place.name} alone")
            return value, place
        if value is not None:
            return value, place
        if by_file is None:
            return None
        return self._secret_from(by_file, file_place), replace(file_place, content=Path(by_file))

    def _secret_from(self, path: str, place: Place) -> str:
        """The content of a secret's file (its kind strips the newline at the end); empty after an error."""
        try:
            with PATH.parse(path).open("rb") as file:
                content = file.read(LARGEST_SECRET_FILE + 1)
            text = content.decode()
        except OSError as error:
            hint = (
                "check the path and that the secret is mounted"
                if isinstance(error, FileNotFoundError)
                else "let the user that runs this read it"
            )
            self._refuse(place, f"{place.name}: {path} can't be read: {error.strerror}", hint)
            return ""
        except UnicodeDecodeError:
            self._refuse(place, f"{place.name}: {path} holds no text", "write the secret as UTF-8 text")
            return ""
        except ValueError as error:
            self._refuse(place, f"{place.name}: {error}", "")
            return ""
        if len(content) > LARGEST_SECRET_FILE:
            self._refuse(place, f"{place.name}: {path} is larger than {LARGEST_SECRET_FILE} bytes", "give the file of the secret alone")
            return ""
        if not text.strip():
            self._refuse(place, f"{place.name}: {path} is empty", "write the secret into it")
            return ""
        return text

    def _parse(self, declared: Setting[Any], text: str, place: Place) -> object:
        try:
            value: object = declared.kind.parse(text)
        except ValueError as error:
            self._refuse(place, f"{place.name}: {error}", "")
            return None
        if isinstance(value, Secret):
            self._have_masked(declared, value)
            value.file = place.content
        return value

    def _have_masked(self, declared: Setting[Any], value: Secret) -> None:
        secrets = [value]
        if isinstance(value, SecretUrl):
            written = value.password
            secrets = [written, Secret(unquote(written.reveal()))] if written else []
        if not all(KNOWN_SECRETS.add(each) for each in secrets):
            self.warnings.append(
                SettingsWarning(
                    "settings.secret_too_short",
                    declared.variable,
                    f"the secret in {declared.variable} is too short to be masked in logs",
                    f"use one of at least {SHORTEST_SECRET} characters, better 32",
                )
            )

    def _placed(self, fault: Fault) -> SettingsError:
        place = self.places.get(fault.key, DEFAULT)
        name = place.name or (self._known[fault.key].variable if fault.key in self._known else fault.key)
        return SettingsError(f"{name}: {fault.message}", hint=fault.hint, file=place.file, line=place.line)

    def _refuse(self, place: Place, message: str, hint: str) -> None:
        self.errors.append(SettingsError(message, hint=hint, file=place.file, line=place.line))

    def _refuse_in_file(self, line: int, message: str, hint: str) -> None:
        self.errors.append(SettingsError(message, hint=hint, file=str(self._file), line=line))


def _names(declared: Setting[Any], name: str, suffix: str) -> tuple[str, ...]:
    return (name, name + suffix) if declared.secret else (name,)
