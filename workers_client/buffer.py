"""Records that wait for a flush: bounded by count and bytes, with what goes first when they are too many."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workers_client.wire import DropReason

# Kinds of records; the order is that in which they go when the buffer is full: successful ops first.
OPERATION = "operation"
FAILURE = "failure"
SAMPLE_FAILURE = "sample_failure"
SAMPLE_GROUP = "sample_group"
GPU_TURN = "gpu_turn"
KINDS = (OPERATION, FAILURE, SAMPLE_FAILURE, SAMPLE_GROUP, GPU_TURN)


@dataclass
class Counters:
    """Counts by kind of record; `produced = sent + dropped + buffered` for each kind."""

    produced: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    sent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    dropped: dict[str, dict[str, int]] = field(default_factory=lambda: {kind: {} for kind in KINDS})

    def drop(self, kind: str, reason: DropReason, count: int = 1) -> None:
        """Count records that are lost for `reason`."""
        reasons = self.dropped[kind]
        reasons[reason.value] = reasons.get(reason.value, 0) + count


@dataclass(frozen=True)
class Pending:
    """One record that waits: its kind, the key of its list, what makes its bytes, and about how many they are."""

    kind: str
    key: str
    encode: Callable[[], bytes]
    size_bytes: int
    run_id: str | None = None


class RecordBuffer:
    """Queues of records by kind, oldest first. Only the holder of the recorder's fold lock touches it."""

    def __init__(self, *, max_records: int, max_bytes: int, counters: Counters) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._counters = counters
        self._queues: dict[str, deque[Pending]] = {kind: deque() for kind in KINDS}
        self._taken: list[Pending] = []  # records of the flush that is under way: they still take memory
        self._taken_bytes = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        """Records that wait, those of a flush under way excepted."""
        return sum(map(len, self._queues.values()))

    def add(self, record: Pending) -> None:
        """Add a record; drop the oldest of the least dear kind while there are too many."""
        self._counters.produced[record.kind] += 1
        self._queues[record.kind].append(record)
        self.size_bytes += record.size_bytes
        while len(self) + len(self._taken) > self._max_records:
            if not self._drop_one(DropReason.QUEUE_FULL):
                break
        while self.size_bytes + self._taken_bytes > self._max_bytes:
            if not self._drop_one(DropReason.BYTES_FULL):
                break

    def take(self, *, max_records: int, max_bytes: int) -> list[Pending]:
        """Take records for one flush, oldest first within a kind, the dear kinds first."""
        taken: list[Pending] = []
        size = 0
        for kind in reversed(KINDS):
            queue = self._queues[kind]
            while queue and len(taken) < max_records and (size < max_bytes or not taken):
                record = queue.popleft()
                size += record.size_bytes
                taken.append(record)
        self.size_bytes -= size
        self._taken, self._taken_bytes = list(taken), size
        return taken

    def settle(self) -> None:
        """Say that what was taken is delivered: its memory is free."""
        self._taken, self._taken_bytes = [], 0

    def refuse(self, record: Pending) -> None:
        """Drop a record that was taken and has no JSON."""
        self._taken.remove(record)
        self._counters.drop(record.kind, DropReason.REFUSED)

    def counts(self) -> dict[str, int]:
        """Return how many records of each kind are not delivered yet, those of a flush under way included."""
        counts = {kind: len(queue) for kind, queue in self._queues.items()}
        for record in self._taken:
            counts[record.kind] += 1
        return counts

    def _drop_one(self, reason: DropReason) -> bool:
        for kind in KINDS:
            if self._queues[kind]:
                self.size_bytes -= self._queues[kind].popleft().size_bytes
                self._counters.drop(kind, reason)
                return True
        return False


def estimate_bytes(metrics: dict[str, Any] | None) -> int:
    """Return about how many bytes a record takes in memory: its fixed part and its metrics."""
    return 600 + (0 if not metrics else 100 * len(metrics))
