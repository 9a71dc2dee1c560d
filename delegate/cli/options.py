"""Options that commands share. Flags of settings are made from the settings' declarations.

@click.command()
@with_settings(LocalSettings)
@output_option
def command(loaded: Loaded[LocalSettings], output: Output) -> ExitCode | None: ...
"""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from delegate.cli.outputs import Output
from delegate.cli.streams import LateStandardError
from delegate.foundation.settings.declarations import Setting, declared_in
from delegate.foundation.settings.loading import Loaded, SettingsWarning, load
from delegate.foundation.settings.programs import LocalSettings
from delegate.foundation.settings.sections import LocalLogging, Logging

Command = TypeVar("Command", bound=Callable[..., Any])
ALL_BUT_LOGS = frozenset(declared_in(LocalSettings)) - {"log_level", "log_format"}
"""For commands of people that touch no cluster of theirs: what else could be set means nothing to them."""
_PREFIX = "setting__"


def output_option(command: Command) -> Command:
    """`-o text|json`, as `output`."""
    option = click.option(
        "-o",
        "--output",
        type=click.Choice([each.value for each in Output]),
        default=Output.TEXT.value,
        callback=lambda _, __, value: Output(value),
        help="Form of what is printed; json is one document.",
    )
    return option(command)


def config_option(command: Command) -> Command:
    """`--config FILE`, as `config`."""
    option = click.option("--config", type=click.Path(path_type=Path), default=None, metavar="FILE", help="Settings file (YAML).")
    return option(command)


def settings_flags(*programs: type, without: frozenset[str] = frozenset()) -> Callable[[Command], Command]:
    """A flag for every setting of these programs, all together as `flags` (by key, only the given ones)."""
    declared = [each for each in declared_in(*programs).values() if each.key not in without]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def collect(*arguments: Any, **named: Any) -> Any:
            given = {key.removeprefix(_PREFIX): named.pop(key) for key in list(named) if key.startswith(_PREFIX)}
            flags = {key: str(value) for key, value in given.items() if value is not None}
            return command(*arguments, flags=flags, **named)

        wrapped: Any = collect
        for each in reversed(declared):
            wrapped = _flag(each)(wrapped)
            if each.secret:
                wrapped = click.option(
                    f"{each.flag}-file",
                    f"{_PREFIX}{each.key}_file",
                    default=None,
                    metavar="PATH",
                    help=f"File that holds it ({each.variable}_FILE).",
                )(wrapped)
        result: Command = wrapped
        return result

    return decorate


def with_settings(program: type, *, require: bool = True, without: frozenset[str] = frozenset()) -> Callable[[Command], Command]:
    """Flags of the settings and `--config`; the command gets them loaded, as `loaded`, and runs with logging set up.

    `without` are keys that the command has options of its own for. Raises SettingsError before the command starts.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def run(*arguments: Any, flags: dict[str, str], config: Path | None, **named: Any) -> Any:
            loaded: Loaded[Any] = load(program, flags=flags, config=config, require=require)
            return _run_logged(loaded, functools.partial(command, *arguments, loaded=loaded, **named))

        return settings_flags(program, without=without)(config_option(run))  # type: ignore[return-value]  # the same call for click

    return decorate


def warn_about(warnings: tuple[SettingsWarning, ...]) -> None:
    """Logs what loading the settings had to warn about."""
    import structlog  # noqa: PLC0415 - slow to import, and most commands have nothing to warn about

    log = structlog.get_logger(__name__)
    for warning in warnings:
        log.warning(warning.event, name=warning.name, message=warning.message, hint=warning.hint)


def _run_logged(loaded: Loaded[Any], call: Callable[[], Any]) -> Any:
    from delegate.foundation.telemetry import logs  # noqa: PLC0415 - slow to import

    logging: Logging | LocalLogging = loaded.settings.logging
    # On a terminal progress may be redrawn; it keeps lines above itself that come through sys.stderr.
    with logs.configure(logging, stream=LateStandardError() if sys.stderr.isatty() else None):
        warn_about(loaded.warnings)
        return call()


def _flag(declared: Setting[Any]) -> Callable[[Command], Command]:
    name = f"{_PREFIX}{declared.key}"
    about = f"{declared.about} [{declared.variable}]"
    if declared.kind.switch:
        return click.option(f"{declared.flag}/--no-{declared.flag.removeprefix('--')}", name, default=None, help=about)
    return click.option(declared.flag, name, default=None, metavar=declared.kind.noun, help=about)
