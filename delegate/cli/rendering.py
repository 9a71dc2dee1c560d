"""`delegate render`: the objects that a source holds, decoded as `sync` decodes them, touching no cluster."""

import enum
import sys
from typing import TYPE_CHECKING

import click

from delegate.cli.environments import child_environment, provide_temporary_files
from delegate.cli.locations import source_of
from delegate.cli.loops import run_async
from delegate.cli.options import with_settings
from delegate.cli.outputs import print_json
from delegate.foundation.redaction import redact
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import LocalSettings
from delegate.model.sources import Source

if TYPE_CHECKING:
    from delegate.engine.sources.renders import Rendered

_SECONDS = 600.0


class Form(enum.StrEnum):
    YAML = "yaml"
    JSON = "json"


@click.command()
@click.argument("location", metavar="PATH-OR-URL")
@click.option("--revision", default="", metavar="R", help="Branch, tag or commit; of a path's repository where a path is given.")
@click.option("--path", default="", metavar="P", help="Directory or file inside it.")
@click.option(
    "-o",
    "--output",
    type=click.Choice([each.value for each in Form]),
    default=Form.YAML.value,
    show_default=True,
    callback=lambda _, __, value: Form(value),
    help="json is one array.",
)
@click.option("--validate", is_flag=True, help="Checks every object against the schema of its kind first, without a cluster.")
@with_settings(LocalSettings)
def render(*, location: str, revision: str, path: str, output: Form, validate: bool, loaded: Loaded[LocalSettings]) -> None:
    """Prints the objects of a directory, file or Git repository: by file, then by document, Lists taken apart.

    Nothing is defaulted or stripped. Every fault of the set is reported at once, with file and line; then the exit code is 2.
    """
    bodies, notices = run_async(_render(source_of(location, revision=revision, path=path), loaded.settings, validate=validate))
    for notice in notices:
        click.echo(f"note: {redact(notice)}", err=True)
    if output is Form.JSON:
        print_json(bodies)
        return
    from delegate.cli.yaml_writing import write_yaml  # noqa: PLC0415 - not needed for JSON

    sys.stdout.buffer.write(write_yaml(bodies).encode())
    sys.stdout.flush()


async def _render(source: Source, settings: LocalSettings, *, validate: bool) -> tuple[list[dict[str, object]], tuple[str, ...]]:
    from delegate.engine.sources.manifests import Sources  # noqa: PLC0415 - `--help` does without
    from delegate.engine.sources.settings import RenderSettings  # noqa: PLC0415

    provide_temporary_files(settings.workspace.cache_dir)
    sources = Sources(
        cache_dir=settings.workspace.cache_dir,
        allow_local=True,
        rendering=RenderSettings.from_settings(settings.sources),
        environment=child_environment(settings.network, place=settings.workspace.cache_dir / "user"),
    )
    try:
        revision = await sources.resolve(source, timeout=_SECONDS)
        rendered = await sources.render(source, revision, timeout=_SECONDS)
    finally:
        sources.close()
    notices = (*rendered.notices, *_validate(rendered)) if validate else rendered.notices
    return [manifest.body for manifest in rendered.manifests], notices


def _validate(rendered: "Rendered") -> tuple[str, ...]:
    """Raises every fault of the set; what could not be checked is a notice."""
    from delegate.model.errors import raise_all  # noqa: PLC0415
    from delegate.model.validation.checking import check_manifests  # noqa: PLC0415 - reads the definitions of Kubernetes

    checked = check_manifests(rendered.manifests, rendered.locate)
    raise_all(checked.errors)
    return tuple(f"{kind} is not validated: its definition is not in the set" for kind in checked.unknown)
