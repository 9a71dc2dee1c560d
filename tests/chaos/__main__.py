"""`python -m tests.chaos [--seconds S] [--seed N] [--runs R]`: chaos for as long as one likes; ends with 1 at the first broken promise.

Each run lasts for two minutes or what is left, in a directory of its own, which is kept where a promise was broken.
"""

import asyncio
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import click

from tests.chaos.stories import Story

_RUN_SECONDS = 120.0


@click.command()
@click.option("--seconds", type=float, default=600.0, show_default=True, help="How long things break, over all runs.")
@click.option("--seed", type=int, default=None, help="Of the first run; the next ones count on from it.")
def main(seconds: float, seed: int | None) -> None:
    """Chaos, and its judgement."""
    first = random.randrange(2**32) if seed is None else seed
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        directory = Path(tempfile.mkdtemp(prefix=f"delegate-chaos-{first}-"))
        click.echo(f"chaos seed {first}, {min(left, _RUN_SECONDS):g} s in {directory}", err=True)
        account = asyncio.run(Story(directory, first).tell(min(left, _RUN_SECONDS)))
        click.echo(str(account))
        if account.violations:
            click.echo("\n".join(account.deeds))
            click.echo(f"kept: {directory}", err=True)
            sys.exit(1)
        shutil.rmtree(directory)
        first += 1


if __name__ == "__main__":
    main()
