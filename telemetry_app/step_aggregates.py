"""Keep what each step of a run amounts to beyond its op records: one row per step and op name.

A row is a `grouping.OperationGroup` of all op records stored so far of its step and op, whether their rows are still
there or not. It is written in the transaction that stores the records, so each record counts in it exactly once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q
from django.db.models.functions import Collate
from msgspec import to_builtins

from telemetry_app import bulk
from telemetry_app.bulk import Table
from telemetry_app.grouping import MetricSpread, OperationGroup, OperationKey, group_operations, merged
from telemetry_app.instants import from_unix, to_unix
from telemetry_app.models import Operation, StepAggregate
from workers_client import wire

_KEY = ("run", "step", "operation")
_VALUES = (
    "count", "failures", "cancelled", "seconds", "queue_seconds", "metrics", "nonfinite", "first_enqueued_at",
    "started_at", "finished_at", "batches",
)  # fmt: skip
BATCHES_REMEMBERED = 64  # of one step and op, the newest: the ops of a batch are recorded together, or nearly
_TABLE = Table(StepAggregate, ("run_id", "step", "operation", *_VALUES))
_INSTANTS = frozenset({"first_enqueued_at", "started_at", "finished_at"})


@dataclass(slots=True)
class StepChanges:
    """What new records make of a run's steps: rows to add, packed, and groups to merge into rows that are there."""

    run_id: str
    new_ids: Container[str] = frozenset()
    added: list[bytes] = field(default_factory=list)
    both: dict[OperationKey, tuple[OperationGroup, OperationGroup]] = field(default_factory=dict)


def stored_groups(run_id: str, steps: Iterable[int]) -> dict[OperationKey, OperationGroup]:
    """Return what is stored of these steps; under the run's lock nobody else changes it."""
    wanted = list(set(steps))
    if not wanted:
        return {}
    return groups_of(StepAggregate.objects.filter(run_id=run_id).extra(where=["step = ANY(%s)"], params=[wanted]))


def step_changes(
    run_id: str, numbered: Sequence[tuple[int, wire.OpRecord]], known: Mapping[OperationKey, OperationGroup]
) -> StepChanges:
    """Count new op records, each with its step, in their steps, of which `known` is stored. Asks nobody.

    Records that were stored before must not be among them.
    """
    unique = {record.identity: (step, record) for step, record in numbered}
    new = group_operations(unique.values())
    rows = [_row(run_id, key, group) for key, group in new.items() if key not in known]
    both = {key: (known[key], new[key]) for key in new if key in known} if known else {}
    return StepChanges(run_id, unique.keys(), list(bulk.packed(_TABLE, rows)), both)


def store_changes(changes: StepChanges) -> None:
    """Write what new records make of their steps.

    Must run in the transaction that inserted them, behind the insertion and under the run's lock.
    """
    if changes.added:
        bulk.copy(_TABLE, changes.added)
    if changes.both:
        _complete_from_rows(changes.run_id, changes.both, changes.new_ids)
        _update(changes.run_id, {key: merged(old, group) for key, (old, group) in changes.both.items()})


def group_of(row: StepAggregate) -> OperationGroup:
    """Return the group that a row was made of."""
    finished_at = row.finished_at.timestamp()
    metrics = {name: MetricSpread() for name in row.nonfinite}
    metrics.update((name, _spread_of(value, finished_at)) for name, value in row.metrics.items())
    return OperationGroup(
        count=row.count,
        failures=row.failures,
        seconds=row.seconds,
        queue_seconds=row.queue_seconds,
        metrics=metrics,
        nonfinite=row.nonfinite,
        cancelled=row.cancelled,
        first_enqueued_at=to_unix(row.first_enqueued_at),
        started_at=row.started_at.timestamp(),
        finished_at=finished_at,
        batches={name: float(seconds) for name, seconds in row.batches},
    )


def groups_of(rows: Iterable[StepAggregate]) -> dict[OperationKey, OperationGroup]:
    """Return the groups of rows of one run, by step and op name."""
    return {(row.step, row.operation): group_of(row) for row in rows}


def metrics_of(group: OperationGroup) -> dict[str, Any]:
    """Return metrics as a row holds them: a single value of the newest op as it is, else its numbers in a list.

    Those are `[count, min, mean, max, last, last_at]`. Most ops of a step come alone, and most report all metrics.
    """
    metrics: dict[str, Any] = to_builtins(_metrics_to_encode(group))
    return metrics


def _metrics_to_encode(group: OperationGroup) -> dict[str, Any]:
    return {
        name: spread.last if spread.count == 1 and spread.last_at == group.finished_at else spread
        for name, spread in group.metrics.items()
        if spread.count
    }


# --- What is stored already -----------------------------------------------------------------------------------
def _complete_from_rows(
    run_id: str, both: Mapping[OperationKey, tuple[OperationGroup, OperationGroup]], new_ids: Container[str]
) -> None:
    """Give groups what their aggregates don't hold, from the op rows that do: forgotten batches, and which of two is
    the last.

    Only batches and instants that the new records share with stored ones are looked for.
    """
    batches = {name for old, new in both.values() for name in new.batches.keys() - old.batches}
    ties = {at for old, new in both.values() for at in _tied_instants(old, new)}
    if not batches and not ties:
        return
    rows = Operation.objects.of_run(run_id).filter(
        Q(batch__in=batches) | Q(at__in=[from_unix(at) for at in ties]), step__in={step for step, _ in both}
    )
    columns = ("step", "operation", "at", "record_id", "batch", "elapsed_seconds", "metrics")
    for step, operation, at, record_id, batch, seconds, metrics in rows.values_list(*columns).order_by(
        Collate("record_id", "C")  # as Python orders identities, whatever the database's own order
    ):
        if (step, operation) not in both:
            continue
        old, new = both[step, operation]
        if batch and seconds is not None and record_id not in new_ids:
            old.batches[batch] = max(old.batches.get(batch, 0.0), seconds)
        for name, value in metrics.items():
            _settle_last(new.metrics.get(name), float(value), at.timestamp())


def _tied_instants(old: OperationGroup, new: OperationGroup) -> set[float]:
    return {
        spread.last_at
        for name, spread in new.metrics.items()
        if spread.last_at is not None and name in old.metrics and old.metrics[name].last_at == spread.last_at
    }


def _settle_last(spread: MetricSpread | None, value: float, at: float) -> None:
    """Let the value of the greatest identity at the newest instant be the last: rows come in that order."""
    if spread is not None and spread.last_at == at:
        spread.last = value


# --- Rows -----------------------------------------------------------------------------------------------------
def _row(run_id: str, key: OperationKey, group: OperationGroup) -> tuple[Any, ...]:
    """Return a row in the order of `_TABLE`, its instants as unix seconds."""
    return (
        run_id, *key, group.count, group.failures, group.cancelled, group.seconds, group.queue_seconds,
        _metrics_to_encode(group), group.nonfinite, group.first_enqueued_at, group.started_at, group.finished_at,
        list(group.batches.items())[-BATCHES_REMEMBERED:],
    )  # fmt: skip


def _update(run_id: str, groups: Mapping[OperationKey, OperationGroup]) -> None:
    rows = []
    for key, group in groups.items():
        values = dict(zip(_TABLE.columns, _row(run_id, key, group), strict=True))
        values |= {name: from_unix(values[name]) for name in _INSTANTS} | {"metrics": metrics_of(group)}
        rows.append(StepAggregate(**values))
    StepAggregate.objects.bulk_create(rows, update_conflicts=True, unique_fields=_KEY, update_fields=_VALUES)


def _spread_of(value: Any, finished_at: float) -> MetricSpread:
    if not isinstance(value, list):
        value = [1, *[value] * 4, finished_at]
    count, *numbers = value
    return MetricSpread(count, *map(float, numbers))  # PostgreSQL writes 1e300 as a whole number
