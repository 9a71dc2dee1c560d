"""Log lines have the fixed keys, hide every secret, and never hold up whoever logs."""

import asyncio
import base64
import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
import structlog

from delegate.foundation.redaction import KnownSecrets
from delegate.foundation.secrets import HIDDEN, Secret
from delegate.foundation.settings import LocalLogging, LogFormat, Logging, LogLevel, SettingsError
from delegate.foundation.telemetry import logs
from delegate.foundation.telemetry.writing import LineWriter

SECRET = "hunter2-and-a-half"
log = structlog.get_logger("test")


class Captured(io.BytesIO):
    """A stream whose content outlives its closing."""

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


@pytest.fixture
def known() -> KnownSecrets:
    registry = KnownSecrets()
    registry.add(SECRET)
    return registry


@pytest.fixture(autouse=True)
def _give_logging_back() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def logged(emit: Any, settings: Logging | LocalLogging | None = None, known: KnownSecrets | None = None) -> Captured:
    """What `emit()` logs."""
    stream = Captured()
    with logs.configure(settings or Logging(), stream=stream, known=known or KnownSecrets()):
        emit()
    return stream


def test_a_line_is_json_with_the_fixed_keys() -> None:
    """timestamp, level and event stand in each line, fields beside them; the time is UTC."""
    (line,) = logged(lambda: log.info("plan.made", creates=3, seconds=0.5)).lines()

    assert line.pop("timestamp").endswith("Z")
    assert line == {"level": "info", "event": "plan.made", "creates": 3, "seconds": 0.5}


def test_bound_fields_are_in_every_line_inside() -> None:
    """Also in tasks that were started inside, and in none after."""

    async def work() -> None:
        with logs.bound(task="t-1", attempt="a-1", application="shop", cluster="c-1"):
            log.info("inside")
            await asyncio.create_task(asyncio.to_thread(log.info, "in_thread"))
        log.info("outside")

    inside, in_thread, outside = logged(lambda: asyncio.run(work())).lines()

    expected = {"task": "t-1", "attempt": "a-1", "application": "shop", "cluster": "c-1"}
    assert expected.items() <= inside.items()
    assert expected.items() <= in_thread.items()
    assert not expected.keys() & outside.keys()


def test_an_error_is_text_with_code_and_hint() -> None:
    """`error=` takes the exception itself."""
    error = SettingsError("no such key", hint="use another", file="a.yaml", line=3)

    ours, theirs, group = logged(
        lambda: (
            log.error("it.failed", error=error),
            log.error("it.failed", error=ValueError("bad")),
            log.error("it.failed", error=ExceptionGroup("two", [error, KeyError("k")])),
        )
    ).lines()

    assert (ours["error"], ours["error_code"], ours["hint"]) == ("a.yaml:3: no such key", "input.settings", "use another")
    assert theirs["error"] == "ValueError: bad"
    assert group["error"] == "two: a.yaml:3: no such key; KeyError: 'k'"


def test_an_exception_has_its_traceback() -> None:
    """`log.exception` tells error and stack apart, with causes."""

    def fail() -> None:
        try:
            try:
                raise OSError("disk")
            except OSError as error:
                raise RuntimeError("no outbox") from error
        except RuntimeError:
            log.exception("outbox.failed")

    (line,) = logged(fail).lines()

    assert line["error"] == "RuntimeError: no outbox"
    assert "OSError: disk" in line["stack"]
    assert "test_logs.py" in line["stack"]


def test_no_form_of_a_secret_is_in_any_line(known: KnownSecrets) -> None:
    """Registered ones as they are and encoded, in fields, keys, exceptions and their tracebacks, structures and bytes."""
    basic = base64.b64encode(f"user:{SECRET}".encode()).decode()

    class Options(msgspec.Struct):
        address: str
        password: str

    def emit() -> None:
        log.warning("a.b", text=f"x{SECRET}y", url=f"https://u:{SECRET}@h/", header=f"Basic {basic}", quoted=quote(f"{SECRET}/+"))
        log.warning("a.b", nested={"list": [{SECRET: f"{SECRET}"}, (SECRET.encode(), {SECRET})]}, options=Options(SECRET, "other-secret"))
        log.warning("a.b", token="other-secret", data={"clientSecret": "other-secret", "n": 1}, secret=Secret("other-secret"))
        log.warning("".join(("event.", SECRET)), error=f"refused: {SECRET}")
        try:
            raise ValueError(f"can't use {SECRET}")
        except ValueError as error:
            log.exception("it.failed")
            log.error("it.failed", error=error, given=error)
            logging.getLogger("lib").exception("library failed with %s", SECRET)

    for form in LogFormat:
        written = logged(emit, Logging(format=form), known).getvalue().decode()

        assert written.count(HIDDEN) >= 15
        for hidden in (SECRET, "other-secret", basic[8:24]):
            assert hidden not in written


def test_a_secret_line_by_line_is_hidden_in_a_json_line(known: KnownSecrets) -> None:
    """A multi-line key in a field, whose newlines JSON escapes."""
    pem = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIEXAMPLE\nEXAMPLEEXAMPLE==\n-----END EC PRIVATE KEY-----"

    assert "EXAMPLE" not in logged(lambda: log.info("a.b", key=pem), known=known).getvalue().decode()


def test_plain_numbers_keep_their_names() -> None:
    """A count or a flag isn't hidden for its name, nor is an absent secret."""
    (line,) = logged(lambda: log.info("a.b", token=3, password=True, secret=None)).lines()

    assert (line["token"], line["password"], line["secret"]) == (3, True, None)


def test_levels_below_the_set_one_are_silent() -> None:
    """For our own events and the libraries'."""

    def emit() -> None:
        for each in (log, logging.getLogger("lib")):
            each.debug("d")
            each.info("i")
            each.warning("w")

    assert [line["event"] for line in logged(emit, Logging(level=LogLevel.WARNING)).lines()] == ["w", "w"]
    assert len(logged(emit, Logging(level=LogLevel.DEBUG)).lines()) == 6


def test_the_standard_librarys_records_go_through_the_same_chain(known: KnownSecrets) -> None:
    """With level, logger, arguments filled in, and what is bound; what libraries say of themselves is left out below warning."""

    def emit() -> None:
        with logs.bound(task="t-1"):
            logging.getLogger("kubernetes_asyncio.client").warning("retrying %s with %s", "watch", SECRET)
            logging.getLogger("aiohttp.access").info("GET /")

    (line,) = logged(emit, known=known).lines()

    assert (line["level"], line["event"], line["logger"], line["task"]) == (
        "warning",
        f"retrying watch with {HIDDEN}",
        "kubernetes_asyncio.client",
        "t-1",
    )


def test_an_unretrieved_task_exception_is_a_log_line() -> None:
    """What asyncio reports about a forgotten task isn't lost in plain text."""

    async def fail() -> None:
        asyncio.get_running_loop().call_exception_handler({"message": "Task exception was never retrieved", "exception": ValueError("x")})

    (line,) = logged(lambda: asyncio.run(fail())).lines()

    assert (line["logger"], line["error"]) == ("asyncio", "ValueError: x")


def test_anything_can_be_logged() -> None:
    """Values without a JSON form, broken names of files, objects that can't describe themselves, cycles and huge texts."""

    class Broken:
        def __str__(self) -> str:
            raise RuntimeError

    cycle: list[object] = []
    cycle.append(cycle)
    stream = logged(
        lambda: log.info("a.b", path=os.fsdecode(b"/x\xff"), broken=Broken(), cycle=cycle, nan=float("nan"), big=2**80, huge="x" * 100_000)
    )

    (line,) = stream.lines()
    assert line["broken"] == "<Broken>"
    assert line["path"].startswith("/x")
    assert line["big"] == 2**80
    assert len(stream.getvalue()) < 20_000
    assert "more characters" in line["huge"]


def test_console_lines_are_for_people() -> None:
    """No JSON; the traceback below its line; no colours where nobody looks."""

    def fail() -> None:
        try:
            raise ValueError("bad")
        except ValueError:
            log.exception("it.failed", part="poller")

    text = logged(fail, Logging(format=LogFormat.CONSOLE)).getvalue().decode()

    first, *rest = text.splitlines()
    assert "it.failed" in first
    assert "part=poller" in first
    assert rest[0].startswith("Traceback")
    assert rest[-1] == "ValueError: bad"
    assert "\x1b" not in text


def test_peoples_commands_log_for_programs_unless_on_a_terminal() -> None:
    """Captured standard error is JSON, quietly from warning on."""
    (line,) = logged(lambda: (log.info("quiet"), log.warning("loud")), LocalLogging()).lines()

    assert line["event"] == "loud"


def test_after_closing_nothing_reaches_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    """`-o json` stays one document, whatever logs late."""
    logged(lambda: log.info("a.b"))
    log.warning("late")

    assert capfd.readouterr() == ("", "")


class StuckStream(io.RawIOBase):
    """A pipe that nobody reads until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()
        self.reached = threading.Event()
        self.written: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.reached.set()
        assert self.released.wait(30)
        self.written.append(bytes(data))
        return len(data)


def test_a_reader_that_stalls_costs_lines_and_no_time() -> None:
    """Whoever logs goes on at once; what found no room is counted, and told once there is room again."""
    stream = StuckStream()
    setup = logs.configure(Logging(), stream=stream, known=KnownSecrets(), most_lines=10)  # type: ignore[arg-type]  # enough of a stream
    log.info("first")
    assert stream.reached.wait(30)

    for number in range(50):  # would never return if it waited for the reader
        log.info("more", number=number)

    assert setup.dropped == 40
    stream.released.set()
    setup.close()
    lines = [json.loads(line) for line in b"".join(stream.written).splitlines()]
    assert [line["event"] for line in lines[:11]] == ["first"] + ["more"] * 10
    assert [(line["event"], line["lines"], line["level"]) for line in lines[11:]] == [("log.lines_dropped", 40, "warning")]


def test_closing_gives_up_on_a_reader_that_never_comes() -> None:
    """The process can end with a full pipe."""
    stream = StuckStream()
    writer = LineWriter(stream, most_lines=1)  # type: ignore[arg-type]  # enough of a stream
    writer.write(b"first")
    assert stream.reached.wait(30)
    writer.write(b"second")

    writer.close(timeout=0.01)

    stream.released.set()


def test_a_closed_stream_is_survived() -> None:
    """Standard error may be gone; the lines count as dropped."""
    stream = io.BytesIO()
    stream.close()
    writer = LineWriter(stream)
    writer.write(b"line")
    writer.close()

    assert writer.dropped == 1
