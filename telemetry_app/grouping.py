"""Group op records by step. Pure: records in, groups out; live answers, the snapshot and the pages share it.

Records are folded into one group per step and op name first, and those groups into steps. History keeps the former
(`step_aggregates.py`), so that a step whose records are gone is told in the same way as one whose records are there.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from operator import attrgetter

from msgspec import Struct

from telemetry_app.step_numbers import number_steps
from workers_client.wire import OPTIM_STEP, TRAINING_OPERATIONS, OpRecord, Status

_at = attrgetter("at")
_columns = attrgetter(
    "status", "elapsed_seconds", "queue_seconds", "enqueued_at", "started_at", "at", "batch", "nonfinite", "metrics"
)
_FAILED, _CANCELLED = Status.FAILED.value, Status.CANCELLED.value
_LARGEST = sys.float_info.max  # a sum of durations stops there: neither JSON nor PostgreSQL's JSON has infinity


class MetricSpread(Struct, array_like=True, eq=False, gc=False):
    """One metric of one op in one step; `last` is the newest by finish time. A count of 0 has no numbers.

    Encodes as the list of its numbers, and is made several times faster than a dataclass: a run has thousands.
    """

    count: int = 0
    min: float | None = None
    mean: float | None = None
    max: float | None = None
    last: float | None = None
    last_at: float | None = None  # unix seconds; does not count when two are compared

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MetricSpread) and self._compared() == other._compared()

    def _compared(self) -> tuple[float | None, ...]:
        return self.count, self.min, self.mean, self.max, self.last


class MetricColumns(Mapping[str, MetricSpread]):
    """The metrics of ops that all report the same ones: each number of all metrics stands side by side.

    History keeps them so; a `MetricSpread` of each is made when one is asked for.
    """

    __slots__ = ("_spreads", "count", "last_at", "lasts", "maxima", "means", "minima", "names")

    def __init__(
        self,
        names: Sequence[str],
        count: int,
        minima: Sequence[float],
        means: Sequence[float],
        maxima: Sequence[float],
        lasts: Sequence[float],
        last_at: float,
    ) -> None:
        self.names = names
        self.count = count
        self.minima = minima
        self.means = means
        self.maxima = maxima
        self.lasts = lasts
        self.last_at = last_at
        self._spreads: dict[str, MetricSpread] | None = None

    def __getitem__(self, name: str) -> MetricSpread:
        return self._by_name()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def _by_name(self) -> dict[str, MetricSpread]:
        if self._spreads is None:
            numbers = (repeat(self.count), self.minima, self.means, self.maxima, self.lasts, repeat(self.last_at))
            self._spreads = dict(zip(self.names, map(MetricSpread, *numbers), strict=True))
        return self._spreads


@dataclass(slots=True)
class OperationGroup:
    """The records of one op name in one step. Instants are unix seconds.

    `seconds` and `queue_seconds` are sums; ops that ran as one computation (`batch`) carry the whole's elapsed time
    each, so a batch adds its time once. `nonfinite` counts NaN and infinite values by metric name.
    """

    count: int = 0
    failures: int = 0
    seconds: float = 0.0
    queue_seconds: float = 0.0
    metrics: Mapping[str, MetricSpread] = field(default_factory=dict)
    nonfinite: dict[str, int] = field(default_factory=dict)
    cancelled: int = field(default=0, compare=False)
    first_enqueued_at: float | None = field(default=None, compare=False)
    started_at: float = field(default=math.inf, compare=False)  # of its first op
    finished_at: float = field(default=-math.inf, compare=False)  # of its last op
    batches: dict[str, float] = field(default_factory=dict, compare=False)  # seconds counted of each

    @property
    def succeeded(self) -> int:
        """Ops that neither failed nor were cancelled."""
        return self.count - self.failures - self.cancelled


OperationKey = tuple[int, str]  # step and op name
OperationGroups = Mapping[OperationKey, OperationGroup]


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
    return steps_of(group_operations(numbered), steps_completed=steps_completed)


def group_operations(numbered: Iterable[tuple[int, OpRecord]]) -> dict[OperationKey, OperationGroup]:
    """Fold records, each once and with its step, into one group per step and op name."""
    return dict(iterate_operations(numbered))


def iterate_operations(numbered: Iterable[tuple[int, OpRecord]]) -> Iterator[tuple[OperationKey, OperationGroup]]:
    """Do the same group by group: who keeps none needs no room for thousands."""
    by_key: dict[OperationKey, list[OpRecord]] = {}
    for step, record in numbered:
        by_key.setdefault((step, record.operation), []).append(record)
    for key, records in by_key.items():
        yield key, _operation_group(records)


def steps_of(groups: OperationGroups, *, steps_completed: int | None = None) -> list[StepGroup]:
    """Fold groups of ops into steps, oldest step first; the rule of the tail is that of `group_steps`."""
    by_step: dict[int, dict[str, OperationGroup]] = {}
    for (step, operation), group in groups.items():
        by_step.setdefault(step, {})[operation] = group
    _fold_tail_into_its_step(by_step, steps_completed)
    steps: list[StepGroup] = []
    for step in sorted(by_step):
        steps.append(_step_group(step, by_step[step], steps[-1] if steps else None, steps_completed))
    return steps


def merged(group: OperationGroup, later: OperationGroup) -> OperationGroup:
    """Return the group of the records of both, which must have none in common.

    Where both have the newest value of a metric at one instant, that of `later` is the last. Of a batch that both
    have, the longer time counts.
    """
    shared_seconds = sum(min(group.batches[name], later.batches[name]) for name in group.batches.keys() & later.batches)
    return OperationGroup(
        count=group.count + later.count,
        failures=group.failures + later.failures,
        seconds=min(group.seconds + later.seconds - shared_seconds, _LARGEST),
        queue_seconds=min(group.queue_seconds + later.queue_seconds, _LARGEST),
        metrics=_merged_metrics(group.metrics, later.metrics),
        nonfinite={
            name: group.nonfinite.get(name, 0) + later.nonfinite.get(name, 0)
            for name in {**group.nonfinite, **later.nonfinite}
        },
        cancelled=group.cancelled + later.cancelled,
        first_enqueued_at=_earlier(group.first_enqueued_at, later.first_enqueued_at),
        started_at=min(group.started_at, later.started_at),
        finished_at=max(group.finished_at, later.finished_at),
        batches={
            name: max(group.batches.get(name, 0.0), later.batches.get(name, 0.0))
            for name in {**group.batches, **later.batches}
        },
    )


# --- Steps ----------------------------------------------------------------------------------------------------
def _fold_tail_into_its_step(by_step: dict[int, dict[str, OperationGroup]], steps_completed: int | None) -> None:
    """Give the ops behind the newest `optim_step` that do no training to the step which that op completed."""
    newest = max(by_step, default=0)
    if newest == 0 or not TRAINING_OPERATIONS.isdisjoint(by_step[newest]):
        return
    if steps_completed is not None and newest < steps_completed:
        return  # a completed step whose training records are missing: not a tail
    tail = by_step.pop(newest)
    owner = by_step[newest - 1] = dict(by_step.get(newest - 1, {}))
    for operation, group in tail.items():
        # What ran as one computation has one stamp.
        apart = replace(group, batches={})
        owner[operation] = merged(owner[operation], apart) if operation in owner else group


def _step_group(
    step: int, operations: dict[str, OperationGroup], before: StepGroup | None, steps_completed: int | None
) -> StepGroup:
    completed = OPTIM_STEP in operations and operations[OPTIM_STEP].succeeded > 0
    completed = completed or (steps_completed is not None and step < steps_completed)
    ended_at = max(group.finished_at for group in operations.values())
    return StepGroup(
        step=step,
        completed=completed,
        started_at=min(group.started_at for group in operations.values()),
        finished_at=ended_at if completed else None,
        wall_seconds=_wall_seconds(step, operations.values(), before, ended_at),
        failures=sum(group.failures for group in operations.values()),
        operations=dict(sorted(operations.items(), key=lambda item: (item[1].started_at, item[0]))),
    )


def _wall_seconds(
    step: int, operations: Iterable[OperationGroup], before: StepGroup | None, ended_at: float
) -> float | None:
    if step == 0:
        enqueued = [group.first_enqueued_at for group in operations if group.first_enqueued_at is not None]
        return max(0.0, ended_at - min(enqueued)) if enqueued else None
    if before is None or before.step != step - 1 or before.finished_at is None:
        return None  # the end of the step before is not at hand: unknown, not 0
    return max(0.0, ended_at - before.finished_at)


# --- Ops of one name in one step ------------------------------------------------------------------------------
def _operation_group(records: list[OpRecord]) -> OperationGroup:
    """Fold the records of one op name in one step: of a hundred thousand at once where a run was left for long."""
    if len(records) == 1:
        return _group_of_one(records[0])
    records.sort(key=_at)
    if len({record.at for record in records}) < len(records):
        records.sort(key=lambda record: (record.at, record.identity))
    statuses, took, queued, enqueued_at, started_at, at, batches, nonfinite, metrics = zip(
        *map(_columns, records), strict=True
    )
    seconds_of = {} if batches.count(None) == len(batches) else _batch_seconds(batches, took)
    if seconds_of:
        took = tuple(seconds for seconds, batch in zip(took, batches, strict=True) if batch is None)
    counts = Counter(chain.from_iterable(nonfinite)) if any(nonfinite) else {}
    return OperationGroup(
        len(records),
        statuses.count(_FAILED),
        min(sum(filter(None, took)) + sum(seconds_of.values()), _LARGEST),
        min(sum(filter(None, queued)), _LARGEST),
        with_nonfinite(_spreads(metrics, at), counts),
        dict(counts),
        statuses.count(_CANCELLED),
        min(_told(enqueued_at), default=None),
        min([at[0], *_told(started_at)]),
        at[-1],
        seconds_of,
    )


def _told(values: tuple[float | None, ...]) -> Sequence[float]:
    return values if None not in values else [value for value in values if value is not None]  # type: ignore[return-value]


def _group_of_one(record: OpRecord) -> OperationGroup:
    """Do the same for a single record, which is what an `optim_step` comes as."""
    at, seconds = record.at, record.elapsed_seconds or 0.0
    values = list(record.metrics.values())
    metrics = MetricColumns(list(record.metrics), 1, values, values, values, values, at)
    return OperationGroup(
        1,
        int(record.status == _FAILED),
        seconds,
        record.queue_seconds or 0.0,
        with_nonfinite(metrics, record.nonfinite),
        dict.fromkeys(record.nonfinite, 1),
        int(record.status == _CANCELLED),
        record.enqueued_at,
        at if record.started_at is None else min(record.started_at, at),
        at,
        {} if record.batch is None else {record.batch: seconds},
    )


def with_nonfinite(metrics: Mapping[str, MetricSpread], names: Iterable[str]) -> Mapping[str, MetricSpread]:
    """Add metrics that had values, but none that counts."""
    return {**metrics, **{name: MetricSpread() for name in names if name not in metrics}} if names else metrics


def _spreads(metrics: Sequence[Mapping[str, float]], at: Sequence[float]) -> Mapping[str, MetricSpread]:
    """Return the spread of each metric over ops that ended `at`, oldest first."""
    names = list(metrics[0])
    if list(map(list, metrics)).count(names) == len(metrics):  # the usual case, much faster
        count = len(metrics)
        columns = list(zip(*[values.values() for values in metrics], strict=True))
        means = [sum(values) / count for values in columns]
        if math.isfinite(sum(means)):
            minima, maxima = list(map(min, columns)), list(map(max, columns))
            return MetricColumns(names, count, minima, means, maxima, list(metrics[-1].values()), at[-1])
    spreads: dict[str, MetricSpread] = {}
    for name in dict.fromkeys(chain.from_iterable(metrics)):
        having = [(values[name], ended_at) for values, ended_at in zip(metrics, at, strict=True) if name in values]
        spreads[name] = _spread([value for value, _ in having], having[-1][1])
    return spreads


def _spread(values: Sequence[float], last_at: float) -> MetricSpread:
    count = len(values)
    mean = sum(values) / count
    if not math.isfinite(mean):
        mean = sum(value / count for value in values)
    return MetricSpread(count, min(values), mean, max(values), values[-1], last_at)


def _batch_seconds(batches: Iterable[str | None], seconds: Iterable[float | None]) -> dict[str, float]:
    """Return the seconds of each batch: those of its longest op."""
    longest: dict[str, float] = {}
    for batch, took in zip(batches, seconds, strict=True):
        if batch is not None:
            longest[batch] = max(longest.get(batch, 0.0), took or 0.0)
    return longest


def _mean(mean: float, count: int, other: float, other_count: int) -> float:
    """Return the mean of both, without a sum that could overflow."""
    total = count + other_count
    found = mean + (other - mean) * other_count / total
    return found if math.isfinite(found) else mean * (count / total) + other * (other_count / total)


def _merged_metrics(metrics: Mapping[str, MetricSpread], later: Mapping[str, MetricSpread]) -> dict[str, MetricSpread]:
    shared = {name: _merged_spread(metrics[name], later[name]) for name in metrics.keys() & later}
    return {**metrics, **later, **shared}


def _merged_spread(spread: MetricSpread, later: MetricSpread) -> MetricSpread:
    if spread.min is None or spread.mean is None or spread.max is None or spread.last_at is None:
        return later
    if later.min is None or later.mean is None or later.max is None or later.last_at is None:
        return spread
    newest = later if later.last_at >= spread.last_at else spread
    return MetricSpread(
        spread.count + later.count,
        min(spread.min, later.min),
        _mean(spread.mean, spread.count, later.mean, later.count),
        max(spread.max, later.max),
        newest.last,
        newest.last_at,
    )


def _earlier(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)
