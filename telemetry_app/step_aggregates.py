"""Keep what each step of a run amounts to beyond its op records: one row per step and op name.

A row is a `grouping.OperationGroup` of all op records stored so far of its step and op, whether their rows are still
there or not. It is written in the transaction that stores the records, so each record counts in it exactly once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from django.db.models import Q
from django.db.models.functions import Collate
from msgspec.structs import astuple

from telemetry_app import bulk
from telemetry_app.bulk import Table
from telemetry_app.grouping import (
    MetricColumns,
    MetricSpread,
    OperationGroup,
    OperationKey,
    iterate_operations,
    merged,
    with_nonfinite,
)
from telemetry_app.instants import from_unix, to_unix
from telemetry_app.models import Operation, StepAggregate
from workers_client import wire

_KEY = ("run", "step", "operation")
_VALUES = (
    "count", "failures", "cancelled", "seconds", "queue_seconds", "nonfinite", "batches", "metric_names",
    "metric_numbers", "first_enqueued_at", "started_at", "finished_at",
)  # fmt: skip
BATCHES_REMEMBERED = 64  # of one step and op, the newest: the ops of a batch are recorded together, or nearly
_TABLE = Table(StepAggregate, ("run_id", "step", "operation", *_VALUES))
_STORED = (
    f"SELECT id, {', '.join(_TABLE.columns)} FROM {StepAggregate._meta.db_table} WHERE run_id = %s AND step = ANY(%s)"
)
_INSTANTS = frozenset({"first_enqueued_at", "started_at", "finished_at"})


@dataclass(slots=True)
class StepChanges:
    """What new records make of a run's steps: rows to add, packed, and groups to merge into rows that are there."""

    run_id: str
    records: Sequence[tuple[int, wire.OpRecord]] = ()
    added: list[bytes] = field(default_factory=list)
    both: dict[OperationKey, tuple[OperationGroup, OperationGroup]] = field(default_factory=dict)


def stored_groups(run_id: str, steps: Iterable[int]) -> dict[OperationKey, OperationGroup]:
    """Return what is stored of these steps; under the run's lock nobody else changes it."""
    wanted = list(set(steps))
    if not wanted:
        return {}
    return groups_of(StepAggregate.objects.raw(_STORED, [run_id, wanted]))


def step_changes(
    run_id: str, numbered: Sequence[tuple[int, wire.OpRecord]], known: Mapping[OperationKey, OperationGroup]
) -> StepChanges:
    """Count new op records, each once and with its step, in their steps, of which `known` is stored. Asks nobody.

    Records that were stored before must not be among them.
    """
    changes = StepChanges(run_id, numbered)
    changes.added = list(bulk.packed(_TABLE, _added(changes, known)))
    return changes


def _added(changes: StepChanges, known: Mapping[OperationKey, OperationGroup]) -> Iterator[tuple[Any, ...]]:
    """Give a row for each group that is not stored yet, and keep those that are with what is stored."""
    for key, group in iterate_operations(changes.records):
        if key in known:
            changes.both[key] = known[key], group
        else:
            yield _row(changes.run_id, key, group)


def store_changes(changes: StepChanges) -> None:
    """Write what new records make of their steps.

    Must run in the transaction that inserted them, behind the insertion and under the run's lock.
    """
    if changes.added:
        bulk.copy(_TABLE, changes.added)
    if changes.both:
        new_ids = {record.identity for _, record in changes.records}
        _complete_from_rows(changes.run_id, changes.both, new_ids)
        _update(changes.run_id, {key: merged(old, group) for key, (old, group) in changes.both.items()})


def group_of(row: StepAggregate) -> OperationGroup:
    """Return the group that a row was made of."""
    finished_at = row.finished_at.timestamp()
    metrics = _metrics_from(row.metric_names, row.metric_numbers, finished_at)
    return OperationGroup(
        count=row.count,
        failures=row.failures,
        seconds=row.seconds,
        queue_seconds=row.queue_seconds,
        metrics=with_nonfinite(metrics, row.nonfinite),
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


# --- Metrics as arrays ----------------------------------------------------------------------------------------
# A row names its metrics in one array and has their numbers in another: all counts, then all minima, means, maxima,
# newest values and their instants, as `MetricSpread` has them. Where each metric has one value, of the newest op, as
# most ops of a step come alone, there are the values and nothing else.
_NUMBERS = len(MetricSpread.__struct_fields__)
_LAST = MetricSpread.__struct_fields__.index("last")


def metric_arrays(group: OperationGroup) -> tuple[Sequence[str], Sequence[float]]:
    """Return names and numbers of a group's metrics as a row holds them."""
    metrics = group.metrics
    if isinstance(metrics, MetricColumns):
        if metrics.count == 1 and metrics.last_at == group.finished_at:
            return metrics.names, metrics.lasts
        counts, instants = [metrics.count] * len(metrics.names), [metrics.last_at] * len(metrics.names)
        spread = (*counts, *metrics.minima, *metrics.means, *metrics.maxima, *metrics.lasts, *instants)
        return metrics.names, spread
    told = {name: spread for name, spread in metrics.items() if spread.count}
    if all(spread.count == 1 and spread.last_at == group.finished_at for spread in told.values()):
        return list(told), [spread.last for spread in told.values()]  # type: ignore[misc]
    return list(told), list(chain.from_iterable(zip(*map(astuple, told.values()), strict=True)))


def newest_values(names: Sequence[str], numbers: Sequence[float]) -> dict[str, float]:
    """Return the newest value of each metric of a row."""
    size = len(names)
    return dict(zip(names, numbers[_LAST * size :] if len(numbers) > size else numbers, strict=False))


def _metrics_from(names: Sequence[str], numbers: Sequence[float], finished_at: float) -> Mapping[str, MetricSpread]:
    size = len(names)
    if len(numbers) == size:
        return MetricColumns(names, 1, numbers, numbers, numbers, numbers, finished_at)
    counts, *columns = [numbers[start : start + size] for start in range(0, _NUMBERS * size, size)]
    return dict(zip(names, map(MetricSpread, map(int, counts), *columns), strict=True))


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
    for _, new in both.values():
        new.metrics = dict(new.metrics)  # whose spreads may be changed
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
        group.nonfinite, list(group.batches.items())[-BATCHES_REMEMBERED:], *metric_arrays(group),
        group.first_enqueued_at, group.started_at, group.finished_at,
    )  # fmt: skip


def _update(run_id: str, groups: Mapping[OperationKey, OperationGroup]) -> None:
    rows = []
    for key, group in groups.items():
        values = dict(zip(_TABLE.columns, _row(run_id, key, group), strict=True))
        values |= {name: from_unix(values[name]) for name in _INSTANTS}
        rows.append(StepAggregate(**values))
    StepAggregate.objects.bulk_create(rows, update_conflicts=True, unique_fields=_KEY, update_fields=_VALUES)
