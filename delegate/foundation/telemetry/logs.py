"""Logs: JSON lines (or lines for people) on standard error, with secrets masked, written without blocking the loop.

    log = structlog.get_logger(__name__)
    with bound(task="t-1", attempt="a-1", application="checkout-dev", cluster="..."):
        log.info("plan.made", creates=3)

Each line has `timestamp`, `level`, `event`, and `error` (text) where there is one. Pass an exception as `error=`, or use
`log.exception(...)` to have its traceback too. Libraries that use the standard `logging` go through the same chain.
"""

import contextlib
import logging
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import TracebackType
from typing import Any, BinaryIO, Final, cast

import msgspec
import structlog

from delegate.foundation.errors import DelegateError
from delegate.foundation.redaction import KNOWN_SECRETS, KnownSecrets, looks_clean, names_a_secret, redact
from delegate.foundation.secrets import HIDDEN, Secret
from delegate.foundation.settings.sections import LocalLogging, LogFormat, Logging, LogLevel
from delegate.foundation.telemetry.writing import LineWriter

EventDict = MutableMapping[str, Any]
LONGEST_TEXT = 16_384
"""Characters of one value in a line; the rest is cut off, with a word about it."""
_DEEPEST = 6
_MOST_ITEMS = 200
_LEVELS: Final = {LogLevel.DEBUG: 10, LogLevel.INFO: 20, LogLevel.WARNING: 30, LogLevel.ERROR: 40}
_FIRST_KEYS = ("timestamp", "level", "event", "error", "task", "attempt", "application", "cluster")
# What libraries have to say below these levels is about them, not about what we do.
_QUIET_LIBRARIES = {
    "asyncio": 30,
    "aiohttp": 30,
    "kubernetes_asyncio": 30,
    "botocore": 30,
    "aiobotocore": 30,
    "asyncssh": 30,
    "urllib3": 30,
}


class LogSetup:
    """Logging as configured, until it is closed. A context manager."""

    def __init__(self, writer: LineWriter, bridge: logging.Handler) -> None:
        self._writer = writer
        root = logging.getLogger()
        self._before = (root.level, list(root.handlers))
        root.handlers[:] = [bridge]

    @property
    def dropped(self) -> int:
        """Lines that were dropped because nobody read them fast enough."""
        return self._writer.dropped

    def close(self) -> None:
        """Writes what is queued and gives the standard library's logging back. What is logged afterwards goes nowhere."""
        logging.captureWarnings(False)
        root = logging.getLogger()
        root.handlers[:] = self._before[1]
        root.setLevel(self._before[0])
        structlog.configure(processors=[_drop])
        self._writer.close()

    def __enter__(self) -> "LogSetup":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def configure(
    settings: Logging | LocalLogging, *, stream: BinaryIO | None = None, known: KnownSecrets = KNOWN_SECRETS, most_lines: int = 10_000
) -> LogSetup:
    """Sets up logging for the process: structlog and the standard library's, to standard error (or `stream`)."""
    stream = stream or sys.stderr.buffer
    form = settings.format or (LogFormat.CONSOLE if stream.isatty() else LogFormat.JSON)
    render = _renderer(form, colors=stream.isatty())
    chain: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        explain_errors,
        RedactSecrets(known),
    ]

    def finish(event: EventDict, level: str = "warning") -> bytes:
        for processor in chain:
            event = cast("EventDict", processor(None, level, event))
        return render(event)

    writer = LineWriter(stream, most_lines=most_lines, on_dropped=lambda count: finish({"event": "log.lines_dropped", "lines": count}))
    threshold = _LEVELS[settings.level]
    structlog.configure(
        processors=[*chain, lambda _, __, event: ((render(event),), {})],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=lambda *_: _Output(writer.write),
        cache_logger_on_first_use=False,
    )
    setup = LogSetup(writer, _Bridge(lambda event, level: writer.write(finish(event, level))))
    logging.getLogger().setLevel(threshold)
    for name, least in _QUIET_LIBRARIES.items():
        logging.getLogger(name).setLevel(max(least, threshold))
    logging.captureWarnings(True)
    return setup


@contextlib.contextmanager
def bound(**fields: object) -> Iterator[None]:
    """Has these fields in every line that is logged inside, also in tasks started inside."""
    with structlog.contextvars.bound_contextvars(**fields):
        yield


def explain_errors(logger: object, method: str, event: EventDict) -> EventDict:
    """Turns `error=` and `exc_info=` into text: `error`, `error_code` and `hint` of ours, `stack` where asked for."""
    raised = event.pop("exc_info", None)
    if raised:
        found = raised if isinstance(raised, BaseException) else raised[1] if isinstance(raised, tuple) else sys.exception()
        if isinstance(found, BaseException):
            event.setdefault("error", found)
            event["stack"] = "".join(traceback.format_exception(found))
    error = event.get("error")
    if isinstance(error, BaseException):
        event["error"] = _words(error)
        if isinstance(error, DelegateError):
            event.setdefault("error_code", error.code)
            if error.hint:
                event.setdefault("hint", error.hint)
    elif error is not None and not isinstance(error, str):
        event["error"] = str(error)
    return event


def _words(error: BaseException) -> str:
    if isinstance(error, DelegateError):
        return str(error)
    if isinstance(error, BaseExceptionGroup):
        return f"{error.message}: " + "; ".join(_words(each) for each in error.exceptions)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class RedactSecrets:
    """The last processor of the chain: after it there are only plain values, and no secret in any of them."""

    def __init__(self, known: KnownSecrets = KNOWN_SECRETS) -> None:
        self._known = known

    def __call__(self, logger: object, method: str, event: EventDict) -> EventDict:
        if self._is_clean(event):
            return event
        return {self._known.mask(key): self._field(key, value, 0) for key, value in event.items()}

    def _is_clean(self, event: EventDict) -> bool:
        """Whether all of it can be shown as it is: nearly always so, and found out by one look at all texts together."""
        texts: list[str] = []
        for key, value in event.items():
            if names_a_secret(key):
                return False
            texts.append(key)
            match value:
                case str() if len(value) <= LONGEST_TEXT:
                    texts.append(value)
                case None | bool() | int() | float():
                    pass
                case _:
                    return False
        text = "\n".join(texts)
        return text.isascii() and looks_clean(text, self._known)

    def _field(self, key: str, value: object, depth: int) -> object:
        if value and names_a_secret(key) and not isinstance(value, bool | int | float):
            return HIDDEN
        return self._plain(value, depth)

    def _plain(self, value: object, depth: int) -> object:
        match value:
            case None | bool() | int() | float():
                return value
            case str():
                return self._text(value)
            case Secret():
                return value.shown
            case bytes() | bytearray():
                return self._text(bytes(value[: 4 * LONGEST_TEXT]).decode(errors="replace"))
            case Mapping() if depth < _DEEPEST:
                items = list(value.items())[:_MOST_ITEMS]
                return {self._text(_describe(key)): self._field(_describe(key), each, depth + 1) for key, each in items}
            case list() | tuple() | set() | frozenset() if depth < _DEEPEST:
                return [self._plain(each, depth + 1) for each in list(value)[:_MOST_ITEMS]]
            case msgspec.Struct() if depth < _DEEPEST:
                return {name: self._field(name, getattr(value, name), depth + 1) for name in value.__struct_fields__}
            case BaseException():
                return self._text(_words(value))
            case _:
                return self._text(_describe(value))

    def _text(self, text: str) -> str:
        if not text.isascii():  # file names may hold what is no UTF-8, which no JSON can
            text = text.encode(errors="replace").decode()
        masked = redact(text, self._known)
        if len(masked) > LONGEST_TEXT:
            return f"{masked[:LONGEST_TEXT]} … ({len(masked) - LONGEST_TEXT} more characters)"
        return masked


def _describe(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a value that can't describe itself must not break what logs it
        return f"<{type(value).__name__}>"


def _renderer(form: LogFormat, colors: bool) -> Callable[[EventDict], bytes]:
    if form is LogFormat.JSON:
        encoder = msgspec.json.Encoder(enc_hook=str)

        def render_json(event: EventDict) -> bytes:
            first = {key: event.pop(key) for key in _FIRST_KEYS if key in event}
            return encoder.encode({**first, **event})

        return render_json
    console = structlog.dev.ConsoleRenderer(colors=colors, sort_keys=False)

    def render_console(event: EventDict) -> bytes:
        stack = event.pop("stack", None)
        line = console(None, "", event)
        return (f"{line}\n{stack.rstrip()}" if stack else line).encode(errors="replace")

    return render_console


class _Output:
    """What structlog's bound loggers call with a finished line."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write

    def msg(self, line: bytes) -> None:
        self._write(line)

    debug = info = warning = error = critical = exception = log = fatal = warn = failure = err = msg


class _Bridge(logging.Handler):
    """Takes the standard library's records into our chain."""

    def __init__(self, write: Callable[[EventDict, str], None]) -> None:
        super().__init__()
        self._write_event = write

    def emit(self, record: logging.LogRecord) -> None:
        try:
            event: EventDict = {"event": record.getMessage(), "logger": record.name}
            if record.exc_info:
                event["exc_info"] = record.exc_info
            self._write_event(event, record.levelname.lower())
        except Exception:  # noqa: BLE001 - logging must never break what logs; the standard library decides how to say so
            self.handleError(record)


def _drop(logger: object, method: str, event: EventDict) -> EventDict:
    raise structlog.DropEvent
