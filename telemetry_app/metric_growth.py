"""What newly stored records add to the ever-growing totals that monitoring reads. Pure: records in, sums out.

Totals are sums over all runs, by op or by workload, so that there are few of them however many runs there are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from telemetry_app.step_clock import PARTS
from workers_client import wire

SECONDS_BUCKETS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0)  # upper ends, inclusive
# What one record adds at most: one that says more would stop a float from counting the others (2**53).
MOST_OF_ONE_RECORD = 1e9
OTHER = "other"

# Ops of the Tinker API. Others are told apart too, as long as they are few (see `metric_totals.py`).
KNOWN_OPERATIONS = frozenset(
    {
        "create_model", wire.FORWARD, wire.FORWARD_BACKWARD, wire.OPTIM_STEP, "save_weights",
        "save_weights_for_sampler", "save_state", "load_weights", "load_state", "delete_model", "unload_model",
        wire.SAMPLE,
    }
)  # fmt: skip
DROPPED_KINDS = frozenset({"operation", "failure", "sample_failure", "sample_group", "gpu_turn"})
DROP_REASONS = (*(reason.value for reason in wire.DropReason), OTHER)


class Kind(StrEnum):
    """What totals are of; the label of each is in the comment."""

    OPERATION = "operation"  # name of the op
    SAMPLES = "samples"  # none
    STEPS = "steps"  # none
    TURNS = "turns"  # workload
    RECORDS = "records"  # none
    DROPPED = "dropped"  # kind of record


BUCKET_COLUMNS = tuple(f"le_{end:g}" for end in (*SECONDS_BUCKETS, float("inf")))  # each counts those of its own
_SECONDS = ("seconds", *BUCKET_COLUMNS)
# Rows hold their values in this order: columns may be added behind the last one, and never moved or taken away.
COLUMNS: Mapping[Kind, tuple[str, ...]] = {
    Kind.OPERATION: (*(status.value for status in wire.Status), "queue_seconds", "tokens", *_SECONDS),
    Kind.SAMPLES: ("answered", "failed", "seconds", "tokens"),
    Kind.STEPS: (*_SECONDS, *PARTS),
    Kind.TURNS: ("turns", "hold_seconds", "wait_seconds"),
    Kind.RECORDS: ("operations", "samples", "turns", "malformed", "missing", "conflicts"),
    Kind.DROPPED: DROP_REASONS,
}

Row = dict[str, float]


class Growth:
    """Sums by kind, label and column. Each record may be added once."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Kind, str], Row] = {}

    def row(self, kind: Kind, label: str = "") -> Row:
        """Return the sums of one kind and label, to add to."""
        row = self.rows.get((kind, label))
        if row is None:
            row = self.rows[kind, label] = dict.fromkeys(COLUMNS[kind], 0.0)
        return row

    def add_operations(self, records: Iterable[wire.OpRecord]) -> None:
        """Count op records; those of one batch count the whole batch's time each."""
        by_operation: dict[str, list[wire.OpRecord]] = {}
        for record in records:  # thousands in one snapshot: what follows is done for all of an op at once
            by_operation.setdefault(record.operation, []).append(record)
        for operation, found in by_operation.items():
            row = self.row(Kind.OPERATION, operation)
            for status, count in Counter([record.status for record in found]).items():
                row[status] += count
            row["queue_seconds"] += _amounts([record.queue_seconds for record in found if record.queue_seconds])
            row["tokens"] += _amounts([record.tokens for record in found if record.tokens])
            _add_seconds(row, [record.elapsed_seconds for record in found if record.elapsed_seconds is not None])
            self.row(Kind.RECORDS)["operations"] += len(found)

    def add_samples(self, records: Iterable[wire.SampleRecord]) -> None:
        """Count sampling records: each failed answer is one, a group is as many as it says."""
        for record in records:
            row = self.row(Kind.SAMPLES)
            if isinstance(record, wire.SampleFailure):
                row["failed"] += 1
            else:
                row["answered"] += _amount(record.count)
                row["seconds"] += _amount(record.seconds_sum)
                row["tokens"] += _amount(record.tokens_sum)
            self.row(Kind.RECORDS)["samples"] += 1

    def add_turns(self, workload: str, records: Iterable[wire.TurnRecord]) -> None:
        """Count a workload's GPU turns: how long each held the device, and waited for it before."""
        for record in records:
            row = self.row(Kind.TURNS, workload)
            row["turns"] += 1
            row["hold_seconds"] += _amount(record.at - record.started_at)
            if record.requested_at is not None:
                row["wait_seconds"] += _amount(record.started_at - record.requested_at)
            self.row(Kind.RECORDS)["turns"] += 1

    def add_step(self, wall_seconds: float, parts: Mapping[str, float]) -> None:
        """Count a completed step, with the seconds of each of its parts."""
        row = self.row(Kind.STEPS)
        _add_seconds(row, [wall_seconds])
        for part, seconds in parts.items():
            row[part] += _amount(seconds)

    def add_losses(self, *, malformed: int = 0, missing: int = 0, conflicts: int = 0) -> None:
        """Count what could not be stored, or not as it came."""
        for name, count in (("malformed", malformed), ("missing", missing), ("conflicts", conflicts)):
            if count > 0:
                self.row(Kind.RECORDS)[name] += _amount(count)

    def add_dropped(self, before: object, now: object) -> None:
        """Count what a worker says it dropped since it said `before`: by kind of record, by reason."""
        for kind, reasons in _mapping(now).items():
            known = _mapping(_mapping(before).get(kind))
            for reason, count in _mapping(reasons).items():
                more = _amount(count) - _amount(known.get(reason))
                if more > 0:
                    row = self.row(Kind.DROPPED, kind if kind in DROPPED_KINDS else OTHER)
                    row[reason if reason in DROP_REASONS else OTHER] += more


def _add_seconds(row: Row, seconds: Sequence[float]) -> None:
    row["seconds"] += _amounts(seconds)
    ordered = sorted(seconds)
    below = 0
    for column, end in zip(BUCKET_COLUMNS, (*SECONDS_BUCKETS, float("inf")), strict=True):
        within = bisect_right(ordered, end)
        row[column] += within - below
        below = within


def _amounts(values: Sequence[float]) -> float:
    """Return what records add together; none of the values is below 0."""
    if max(values, default=0.0) < MOST_OF_ONE_RECORD:
        return sum(values)
    return sum(map(_amount, values))


def _amount(value: object) -> float:
    """Return what a record adds: nothing where it does not say, says no number, or less than nothing."""
    if isinstance(value, (int, float)) and value > 0:
        return value if value < MOST_OF_ONE_RECORD else MOST_OF_ONE_RECORD
    return 0.0


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
