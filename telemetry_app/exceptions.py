"""The errors of the telemetry application."""

from __future__ import annotations

__all__ = [
    "HistoryUnavailableError",
    "InvalidQueryError",
    "LiveDataUnavailableError",
    "NotFoundError",
    "QueueUnavailableError",
    "TelemetryError",
]


class TelemetryError(Exception):
    """Base of every error this application raises."""


class LiveDataUnavailableError(TelemetryError):
    """Redis can't be asked: refused, silent, loading or read with a wrong password. Never the same as "nothing"."""


class HistoryUnavailableError(TelemetryError):
    """PostgreSQL can't be asked. Never the same as "nothing"."""


class NotFoundError(TelemetryError):
    """No such run or worker, in Redis or in PostgreSQL."""


class InvalidQueryError(TelemetryError, ValueError):
    """A caller's parameter breaks a rule; the message names the value and the rule, `parameter` its name."""

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(message)
        self.parameter = parameter


class QueueUnavailableError(TelemetryError):
    """Celery's queue does not take a task."""
