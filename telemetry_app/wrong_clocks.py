"""Records whose worker's clock can't be right: they are told by the time at which they were received. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from workers_client import wire

# Outside of this a clock is wrong: its records would make partitions without end, or stay the newest for years.
OLDEST_SECONDS = 400 * 86_400.0
NEWEST_SECONDS = 86_400.0

R = TypeVar("R", wire.OpRecord, wire.SampleRecord, wire.TurnRecord)


def is_plausible(at: float, now: float) -> bool:
    """Return whether something may have happened `at` that is told of at `now` (unix seconds)."""
    return now - OLDEST_SECONDS <= at and not is_ahead(at, now)


def is_ahead(at: float, now: float) -> bool:
    """Return whether `at` is further in the future than clocks are apart."""
    return at > now + NEWEST_SECONDS


def correction_of_records(offset_seconds: float) -> float:
    """Return what to take off the records of a clock that is so far ahead of Redis's: nothing of a wrong one, whose
    records are told by the time at which they were received."""
    return offset_seconds if -OLDEST_SECONDS <= offset_seconds <= NEWEST_SECONDS else 0.0


def by_receipt_time(records: Sequence[R], received_at: float) -> tuple[list[R], dict[str, float]]:
    """Return the records, those of a wrong clock as if they had ended at `received_at`, and when each of them said.

    Durations stay, instants before the end move with it, and each keeps its identity: the second value is by identity.
    """
    instants = [record.at for record in records]
    if not records or (is_plausible(min(instants), received_at) and is_plausible(max(instants), received_at)):
        return list(records), {}
    told: list[R] = []
    reported: dict[str, float] = {}
    for record in records:
        if is_plausible(record.at, received_at):
            told.append(record)
            continue
        reported[record.identity] = record.at
        told.append(received(record, received_at))
    return told, reported


def received(record: R, received_at: float) -> R:
    """Return the record as if it had ended at `received_at` (unix seconds)."""
    shift = received_at - record.at
    moved: dict[str, float | None] = {
        name: round(value + shift, 6) if is_plausible(value + shift, received_at) else received_at
        for name in ("enqueued_at", "started_at", "requested_at", "accepted_at", "first_accepted_at",
                     "first_answered_at")
        if (value := getattr(record, name, None)) is not None and not is_plausible(value, received_at)
    }  # fmt: skip
    if isinstance(record, wire.OpRecord):
        moved["queue_seconds"] = None  # told by two clocks
    return replace(record, id=record.identity, at=received_at, **moved)  # type: ignore[arg-type]
