"""Records that wait for a flush: bounded by count and bytes, with what goes first when they are too many."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from workers_client.wire import DropReason

# Kinds of records; the order is that in which they go when the buffer is full: successful ops first.
OPERATION = "operation"
FAILURE = "failure"
SAMPLE_FAILURE = "sample_failure"
SAMPLE_GROUP = "sample_group"
GPU_TURN = "gpu_turn"
KINDS = (OPERATION, FAILURE, SAMPLE_FAILURE, SAMPLE_GROUP, GPU_TURN)


class Counters:
    """Counts by kind of record; `produced = sent + dropped + buffered` for each kind."""

    def __init__(self) -> None:
        self.produced = dict.fromkeys(KINDS, 0)
        self.sent = dict.fromkeys(KINDS, 0)
        self.dropped: dict[str, dict[str, int]] = {kind: {} for kind in KINDS}

    def drop(self, kind: str, reason: DropReason, count: int = 1) -> None:
        """Count records that are lost for `reason`."""
        reasons = self.dropped[kind]
        reasons[reason.value] = reasons.get(reason.value, 0) + count


class Pending(NamedTuple):
    """One record that waits: its number among the worker's records, its kind, the key of its list, what it holds and
    what makes bytes of that, about how many bytes it takes, and its run's totals where it is about a run."""

    number: int
    kind: str
    key: str
    size_bytes: int
    encode: Callable[[Any], bytes]
    data: Any
    totals: Any = None


class RecordBuffer:
    """Queues of records by kind, oldest first. Only the holder of the recorder's fold lock touches it."""

    def __init__(self, *, max_records: int, max_bytes: int, counters: Counters) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._counters = counters
        self._queues: dict[str, deque[Pending]] = {kind: deque() for kind in KINDS}
        self._count = 0  # records that wait
        self._taken = dict.fromkeys(KINDS, 0)  # records of the flush that is under way: they still take memory
        self._taken_count = self._taken_bytes = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        """Records that wait, those of a flush under way excepted."""
        return self._count

    def add(self, record: Pending) -> None:
        """Add a record; drop the oldest of the least dear kind while there are too many."""
        self._counters.produced[record[1]] += 1
        self._queues[record[1]].append(record)
        self._count += 1
        self.size_bytes += record[3]
        while self._count + self._taken_count > self._max_records:
            if not self._drop_one(DropReason.QUEUE_FULL):
                break
        while self.size_bytes + self._taken_bytes > self._max_bytes:
            if not self._drop_one(DropReason.BYTES_FULL):
                break

    def take(self, *, max_records: int, max_bytes: int, is_ready: Callable[[Pending], bool]) -> list[Pending]:
        """Take records for one flush in the order of their numbers: all kinds alike, oldest first.

        What is not ready stays, in its place.
        """
        taken: list[Pending] = []
        size = 0
        kept: dict[str, list[Pending]] = {kind: [] for kind in KINDS}
        queues = [queue for queue in self._queues.values() if queue]
        while queues and len(taken) < max_records and (size < max_bytes or not taken):
            queue = queues[0] if len(queues) == 1 else min(queues, key=_first_number)
            record = queue.popleft()
            if not queue:
                queues.remove(queue)
            if is_ready(record):
                taken.append(record)
                size += record.size_bytes
            else:
                kept[record.kind].append(record)
        for kind, records in kept.items():
            self._queues[kind].extendleft(reversed(records))
        self._count -= len(taken)
        self.size_bytes -= size
        for record in taken:
            self._taken[record.kind] += 1
        self._taken_count, self._taken_bytes = len(taken), size
        return taken

    def settle(self) -> None:
        """Say that what was taken is delivered: its memory is free."""
        self._taken = dict.fromkeys(KINDS, 0)
        self._taken_count = self._taken_bytes = 0

    def refuse(self, record: Pending) -> None:
        """Drop a record that was taken and has no JSON."""
        self._taken[record.kind] -= 1
        self._taken_count -= 1
        self._taken_bytes -= record.size_bytes
        self._counters.drop(record.kind, DropReason.REFUSED)

    def has_before(self, number: int) -> bool:
        """Return whether a record with this number or an earlier one waits."""
        return any(queue and queue[0].number <= number for queue in list(self._queues.values()))

    def counts(self) -> dict[str, int]:
        """Return how many records of each kind are not delivered yet, those of a flush under way included."""
        return {kind: len(queue) + self._taken[kind] for kind, queue in self._queues.items()}

    def _drop_one(self, reason: DropReason) -> bool:
        for kind in KINDS:
            if self._queues[kind]:
                self.size_bytes -= self._queues[kind].popleft().size_bytes
                self._count -= 1
                self._counters.drop(kind, reason)
                return True
        return False


def _first_number(queue: deque[Pending]) -> int:
    return queue[0].number
