"""The errors of `workers_client`. None of them ever leaves a recording hook."""

from __future__ import annotations

__all__ = ["ConfigurationError", "MalformedRecordError", "WorkersClientError"]


class WorkersClientError(Exception):
    """Base of every error this package raises."""


class ConfigurationError(WorkersClientError, ValueError):
    """An argument breaks a rule; the message names the argument, its value and the rule."""


class MalformedRecordError(WorkersClientError, ValueError):
    """Bytes found in Redis are no usable record.

    `reason` is a short fixed word for counting (`not_json`, `not_an_object`, `missing_operation`, …); the message
    never repeats the content, which is not trusted.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"record is malformed: {reason}")
        self.reason = reason
