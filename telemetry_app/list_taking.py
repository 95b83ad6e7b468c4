"""Take what is behind a list's cursor, and move the cursor: one list of Redis, in the transaction that stores it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from telemetry_app import readers
from telemetry_app.instants import from_unix
from telemetry_app.models import ListCursor
from telemetry_app.upserts import upsert
from telemetry_app.wrong_clocks import by_receipt_time
from workers_client import wire

_STORED = f"SELECT * FROM {ListCursor._meta.db_table} WHERE list_key = ANY(%s)"
WORKERS_KNOWN = 64  # workers whose highest number a cursor knows

R = TypeVar("R", wire.OpRecord, wire.SampleRecord, wire.TurnRecord)


@dataclass(slots=True)
class Taken(Generic[R]):
    """What is new in one list, oldest first. `after` is where it was left before."""

    records: list[R] = field(default_factory=list)
    reported_at: dict[str, float] = field(default_factory=dict)  # by identity: what a wrong clock said
    malformed_count: int = 0
    are_new: bool = True  # nothing of it can be stored yet
    is_cut: bool = False  # the record taken last is not in the list any more: others may have left it unseen
    after_record_id: str = ""
    after_at: datetime | None = None
    lag_seconds: float = 0.0  # how long the oldest of them waited

    @property
    def per_second(self) -> float:
        """Records a second over the time they span; 0 of a few, which say nothing of a rate."""
        if len(self.records) < wire.LIST_LIMIT // 10:
            return 0.0
        return len(self.records) / max(1.0, self.records[-1].at - self.records[0].at)


def cursors_of(*keys: str) -> list[ListCursor]:
    """Return the cursors of lists, in their order; those of lists of which nothing was taken are unsaved.

    Whoever else takes the lists waits for the lock of their run or workload.
    """
    stored = {cursor.list_key: cursor for cursor in ListCursor.objects.raw(_STORED, [list(keys)])}
    return [stored.get(key) or ListCursor(list_key=key) for key in keys]


def take_list(
    cursor: ListCursor,
    parse: Callable[[bytes], R],
    now: datetime,
    *,
    parse_all: Callable[[list[bytes]], list[R]] | None = None,
) -> Taken[R]:
    """Read what is behind the list's cursor and move the cursor; malformed elements count once.

    Raises:
        LiveDataUnavailableError: Redis can't be read.
    """
    new = readers.read_list_after(cursor.list_key, cursor.newest_record_id, parse, parse_all=parse_all)
    if not new.records and new.malformed_count == cursor.malformed_behind:
        return Taken()
    received_at = now.timestamp()
    records, reported_at = by_receipt_time(new.records, received_at)
    numbers = _numbers(records)
    taken = Taken(
        records=records,
        reported_at=reported_at,
        malformed_count=new.malformed_count - min(cursor.malformed_behind, new.malformed_count),
        are_new=not reported_at and _are_new(numbers, cursor.highest_numbers),
        is_cut=bool(cursor.newest_record_id and new.records) and not new.reached,
        after_record_id=cursor.newest_record_id,
        after_at=cursor.newest_at,
        lag_seconds=max(0.0, received_at - records[0].at) if records else 0.0,
    )
    cursor.malformed_behind = new.malformed_tail_count if new.records else new.malformed_count
    if records:
        cursor.newest_record_id = records[-1].identity
        cursor.newest_at = from_unix(records[-1].at)
        cursor.records_taken += len(records)
        cursor.highest_numbers = _highest(numbers, cursor.highest_numbers)
    cursor.moved_at = now
    upsert(cursor)
    return taken


# --- Numbers --------------------------------------------------------------------------------------------------
# Workers number their records from 1, so one with a higher number than any taken before is new. What can't be told
# so, as records of other writers, is told by its finish time, which the unique constraint holds.
def _numbers(records: Sequence[Any]) -> dict[str, tuple[int, int]]:
    """Return the lowest and the highest number of each worker's records, the one heard last standing last."""
    numbers: dict[str, tuple[int, int]] = {}
    for record in records:
        worker, _, digits = (record.id or "").rpartition(":")
        if not (digits.isdecimal() and digits.isascii() and len(digits) < 19):
            continue
        number = int(digits)
        known = numbers.get(worker)
        if known is None:
            numbers[worker] = number, number
        elif number > known[1]:
            numbers[worker] = known[0], number
        elif number < known[0]:
            numbers[worker] = number, known[1]
    return numbers


def _are_new(numbers: Mapping[str, tuple[int, int]], highest: Mapping[str, int]) -> bool:
    """Return whether all numbers are above those known; of a worker that may have been forgotten nothing is known."""
    may_forget = len(highest) >= WORKERS_KNOWN
    return all(
        lowest > highest[worker] if worker in highest else not may_forget for worker, (lowest, _) in numbers.items()
    )


def _highest(numbers: Mapping[str, tuple[int, int]], known: Mapping[str, int]) -> dict[str, int]:
    """Return the highest number of each worker, of the workers heard last."""
    highest = {worker: number for worker, number in known.items() if worker not in numbers}
    highest |= {worker: max(number, known.get(worker, 0)) for worker, (_, number) in numbers.items()}
    return dict(list(highest.items())[-WORKERS_KNOWN:])
