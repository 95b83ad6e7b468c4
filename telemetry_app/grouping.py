"""Group op records by step. Pure: records in, groups out; live answers, the snapshot and the pages share it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from telemetry_app.step_numbers import number_steps
from workers_client.wire import OPTIM_STEP, TRAINING_OPERATIONS, OpRecord, Status


@dataclass(slots=True)
class MetricSpread:
    """One metric of one op in one step; `last` is the newest by finish time. A count of 0 has no numbers."""

    count: int = 0
    min: float | None = None
    mean: float | None = None
    max: float | None = None
    last: float | None = None


@dataclass(slots=True)
class OperationGroup:
    """The records of one op name in one step.

    `seconds` and `queue_seconds` are sums; ops that ran as one computation (`batch`) carry the whole's elapsed time
    each, so a batch adds its time once. `nonfinite` counts NaN and infinite values by metric name.
    """

    count: int = 0
    failures: int = 0
    seconds: float = 0.0
    queue_seconds: float = 0.0
    metrics: dict[str, MetricSpread] = field(default_factory=dict)
    nonfinite: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class StepGroup:
    """The ops of one step. Instants are unix seconds.

    `finished_at` is the end of its last op, and None while no `optim_step` of it succeeded. `wall_seconds` runs from
    the end of the step before (for the first, from its first enqueue) to the end of its last op; None where neither
    is known.
    """

    step: int
    completed: bool
    started_at: float
    finished_at: float | None
    wall_seconds: float | None
    failures: int
    operations: dict[str, OperationGroup]


def group_steps(records: Iterable[OpRecord], *, steps_completed: int | None = None) -> list[StepGroup]:
    """Fold op records into one group per step, oldest step first.

    A record counts once by its identity, in whatever order records come. An op belongs to the step it was stamped
    with; ops after the newest successful `optim_step` that do no training (saves, loads, forward-only) belong to that
    step and make no empty one. `steps_completed`, where known, tells a step whose `optim_step` record is missing from
    one that is still open.
    """
    unique = {record.identity: record for record in records}
    numbered = number_steps(unique.values(), steps_completed=steps_completed)
    by_step: dict[int, list[OpRecord]] = {}
    for step, record in numbered:
        by_step.setdefault(step, []).append(record)
    _fold_tail_into_its_step(by_step, steps_completed)
    groups: list[StepGroup] = []
    for step in sorted(by_step):
        groups.append(_step_group(step, by_step[step], groups[-1] if groups else None, steps_completed))
    return groups


def _fold_tail_into_its_step(by_step: dict[int, list[OpRecord]], steps_completed: int | None) -> None:
    """Give the ops behind the newest `optim_step` that do no training to the step which that op completed."""
    newest = max(by_step, default=0)
    if newest == 0 or any(record.operation in TRAINING_OPERATIONS for record in by_step[newest]):
        return
    if steps_completed is not None and newest < steps_completed:
        return  # a completed step whose training records are missing: not a tail
    tail = by_step.pop(newest)
    by_step.setdefault(newest - 1, []).extend(tail)


def _step_group(step: int, records: list[OpRecord], before: StepGroup | None, steps_completed: int | None) -> StepGroup:
    records.sort(key=lambda record: (record.at, record.identity))
    completed = any(_completes_a_step(record) for record in records)
    completed = completed or (steps_completed is not None and step < steps_completed)
    ended_at = records[-1].at
    operations = _operation_groups(records)
    return StepGroup(
        step=step,
        completed=completed,
        started_at=min(_started_at(record) for record in records),
        finished_at=ended_at if completed else None,
        wall_seconds=_wall_seconds(step, records, before, ended_at),
        failures=sum(group.failures for group in operations.values()),
        operations=operations,
    )


def _completes_a_step(record: OpRecord) -> bool:
    return record.operation == OPTIM_STEP and record.status == Status.SUCCEEDED.value


def _started_at(record: OpRecord) -> float:
    return min(record.at if record.started_at is None else record.started_at, record.at)


def _wall_seconds(step: int, records: list[OpRecord], before: StepGroup | None, ended_at: float) -> float | None:
    if step == 0:
        enqueued = [record.enqueued_at for record in records if record.enqueued_at is not None]
        return max(0.0, ended_at - min(enqueued)) if enqueued else None
    if before is None or before.step != step - 1 or before.finished_at is None:
        return None  # the end of the step before is not at hand: unknown, not 0
    return max(0.0, ended_at - before.finished_at)


def _operation_groups(records: list[OpRecord]) -> dict[str, OperationGroup]:
    """Fold one step's records, oldest first, into one group per op name, in order of appearance."""
    groups: dict[str, OperationGroup] = {}
    batches: dict[tuple[str, str], float] = {}
    for record in records:
        group = groups.setdefault(record.operation, OperationGroup())
        group.count += 1
        group.failures += record.status == Status.FAILED.value
        group.queue_seconds += record.queue_seconds or 0.0
        group.seconds += _new_seconds(record, batches)
        for name in record.nonfinite:
            group.metrics.setdefault(name, MetricSpread())
            group.nonfinite[name] = group.nonfinite.get(name, 0) + 1
        for name, value in record.metrics.items():
            spread = group.metrics.get(name)
            if spread is None:
                spread = group.metrics[name] = MetricSpread()
            _add(spread, value)
    return groups


def _new_seconds(record: OpRecord, batches: dict[tuple[str, str], float]) -> float:
    """Return what this record adds to its op's seconds: of a batch only what exceeds the part counted before."""
    seconds = record.elapsed_seconds or 0.0
    if record.batch is None:
        return seconds
    key = (record.operation, record.batch)
    counted = batches.get(key, 0.0)
    batches[key] = max(counted, seconds)
    return max(0.0, seconds - counted)


def _add(spread: MetricSpread, value: float) -> None:
    spread.count += 1
    spread.last = value
    if spread.min is None or spread.max is None or spread.mean is None:
        spread.min = spread.mean = spread.max = value
        return
    spread.min = min(spread.min, value)
    spread.max = max(spread.max, value)
    spread.mean += (value - spread.mean) / spread.count  # running mean: no sum that could overflow
