"""Logs of daemons in tests: one plain line each, without the values of local variables."""

import pytest
import structlog


@pytest.fixture(autouse=True)
def plain_logs() -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
        ]
    )
