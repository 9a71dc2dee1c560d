"""What commands print: documents and results on standard output, words about faults on standard error."""

import enum
import sys

import click
import msgspec

from delegate.foundation.errors import Category, DelegateError, flatten
from delegate.foundation.redaction import redact


class UsageFaultError(DelegateError):
    """A command line that can't be meant."""

    default_code = "input.usage"
    category = Category.INPUT


class CommandInterruptedError(DelegateError):
    """Somebody interrupted the command."""

    default_code = "transient.interrupted"
    category = Category.TRANSIENT
    default_retryable = True


class Output(enum.StrEnum):
    TEXT = "text"
    JSON = "json"


def print_json(document: object) -> None:
    """One JSON document on standard output, indented, with a newline at its end."""
    encoded = msgspec.json.format(msgspec.json.encode(document, enc_hook=str), indent=2)
    sys.stdout.buffer.write(encoded + b"\n")
    sys.stdout.flush()


def print_table(headers: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Columns as wide as their widest cell, two spaces apart; the last one as it is. Nothing is cut off."""
    widths = [max(len(row[column]) for row in [headers, *rows]) for column in range(len(headers))]
    for row in [headers, *rows]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())


def report_error(error: DelegateError, output: Output = Output.TEXT) -> None:
    """Tells an expected fault: `error:` and `hint:` lines on standard error; with JSON the document on standard output."""
    if output is Output.JSON:
        from delegate.model.results import describe_error  # noqa: PLC0415 - not needed by commands that succeed

        details = describe_error(error)
        masked = msgspec.json.decode(redact(msgspec.json.encode({"error": details[0], "errors": details}).decode()))
        print_json(masked)
        return
    for each in flatten(error):
        click.echo(f"error: {redact(str(each))}", err=True)
        if each.hint:
            click.echo(f"hint: {redact(each.hint)}", err=True)
