"""`delegate config`: what is set, and where each value comes from."""

from pathlib import Path
from typing import Any

import click

from delegate.cli.options import config_option, output_option, settings_flags
from delegate.cli.outputs import Output, print_json, print_table
from delegate.foundation.settings.kinds import Shown
from delegate.foundation.settings.loading import Loaded, SettingView, load
from delegate.foundation.settings.programs import PROGRAMS, DelegateSettings, LocalSettings, ManagerSettings, OperatorSettings

_PROGRAMS: dict[str, type] = {
    "delegate": DelegateSettings,
    "manager": ManagerSettings,
    "operator": OperatorSettings,
    "local": LocalSettings,
}


@click.group()
def config() -> None:
    """Settings: their values and where they come from."""


@config.command()
@click.option(
    "--program",
    type=click.Choice(list(_PROGRAMS)),
    default="delegate",
    show_default=True,
    help="Whose: the daemon's, the manager's, those of commands against a manager, those of commands without one.",
)
@settings_flags(*PROGRAMS)
@config_option
@output_option
def show(program: str, flags: dict[str, str], config: Path | None, output: Output) -> None:
    """Every setting, its value and the source of the value; secrets are masked."""
    loaded: Loaded[Any] = load(_PROGRAMS[program], flags=flags, config=config, require=False)
    views = loaded.describe()
    if output is Output.JSON:
        print_json({"settings": views, "warnings": loaded.warnings})
        return
    print_table(("SETTING", "VALUE", "SOURCE", "VARIABLE"), [(view.name, _words(view), view.source, view.variable) for view in views])
    for warning in loaded.warnings:
        click.echo(f"warning: {warning.message}", err=True)
        if warning.hint:
            click.echo(f"hint: {warning.hint}", err=True)


def _words(view: SettingView) -> str:
    value: Shown = view.value
    if value is None or value in ("", [], {}):
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, dict):
        return ",".join(f"{key}={each}" for key, each in value.items())
    return str(value)
