"""Sampling answers by window of time. Pure: what one source holds in, windows of both sources out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from workers_client import wire

Number = TypeVar("Number", int, float)

MOST_SECONDS = 1e200  # a duration that a worker wrote counts as at most so long: sums stay finite


@dataclass(slots=True)
class SampleWindow:
    """What was answered within one window. Durations are seconds.

    `timed_count` are the answers whose durations are known; `busy_seconds` is summed over workers.
    """

    answered: int = 0
    failed: int = 0
    timed_count: int = 0
    seconds_sum: float = 0.0
    seconds_max: float | None = None
    tokens_sum: int | None = None
    busy_seconds: float | None = None

    def add(self, other: SampleWindow) -> None:
        """Count what another source holds of the same window."""
        self.answered += other.answered
        self.failed += other.failed
        self.timed_count += other.timed_count
        self.seconds_sum += other.seconds_sum
        self.seconds_max = _larger(self.seconds_max, other.seconds_max)
        self.tokens_sum = _total(self.tokens_sum, other.tokens_sum)
        self.busy_seconds = _total(self.busy_seconds, other.busy_seconds)

    @property
    def mean_seconds(self) -> float | None:
        """Mean time from acceptance to answer, None where no duration is known."""
        return self.seconds_sum / self.timed_count if self.timed_count else None


def window_of(at: float, window_seconds: int) -> int:
    """Return the number of the window that an instant lies in; windows are half-open and aligned to the Unix epoch."""
    return math.floor(at / window_seconds)


def windows_of(records: Iterable[wire.SampleRecord], window_seconds: int) -> dict[int, SampleWindow]:
    """Fold records into windows, by when they were answered; a group counts in the window of its last answer."""
    windows: dict[int, SampleWindow] = {}
    for record in records:
        windows.setdefault(window_of(record.at, window_seconds), SampleWindow()).add(_of_record(record))
    return windows


def _of_record(record: wire.SampleRecord) -> SampleWindow:
    if isinstance(record, wire.SampleFailure):
        return SampleWindow(failed=1)
    is_timed = record.seconds_sum is not None
    return SampleWindow(
        answered=record.count,
        timed_count=record.count if is_timed else 0,
        seconds_sum=min(record.seconds_sum or 0.0, MOST_SECONDS),
        seconds_max=record.seconds_max,
        tokens_sum=record.tokens_sum,
        busy_seconds=None if record.busy_seconds is None else min(record.busy_seconds, MOST_SECONDS),
    )


def _larger(first: float | None, second: float | None) -> float | None:
    known = [value for value in (first, second) if value is not None]
    return max(known, default=None)


def _total(first: Number | None, second: Number | None) -> Number | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second
