"""How the process lives and ends: stop requests, signals, supervision, trying again, stalls. Knows no domain word."""

from delegate.foundation.lifecycle.errors import PartFailedError
from delegate.foundation.lifecycle.retrying import RetryDetails, Retrying, backoff, retrying
from delegate.foundation.lifecycle.signals import stop_on_signals
from delegate.foundation.lifecycle.stalls import LoopMonitor
from delegate.foundation.lifecycle.stops import StopReason, StopRequest, StopRequests
from delegate.foundation.lifecycle.supervision import DeathLimit, supervise

__all__ = [
    "DeathLimit",
    "LoopMonitor",
    "PartFailedError",
    "RetryDetails",
    "Retrying",
    "StopReason",
    "StopRequest",
    "StopRequests",
    "backoff",
    "retrying",
    "stop_on_signals",
    "supervise",
]
