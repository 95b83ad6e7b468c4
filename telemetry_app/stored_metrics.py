"""Metrics of stored steps, folded by PostgreSQL: 100,000 steps come as a few hundred rows, with what is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db import connection

from telemetry_app.metric_buckets import MOST_OF_A_MEAN, Bucket, Buckets, SeriesKey
from telemetry_app.models import Operation

NAMED_STEPS = 1_000  # newest steps whose metrics are named
MOST_NAMES = 5_000
VALUES_AT_ONCE = 12_000  # folded by one statement: steps times names; what two ops a step report is sorted in 4 MB
FEW_NAMES = 3  # each is read on its own, which unpacks large arrays as often
MOST_PARTS = 32
PARTS_KEPT = 128  # folded parts that a process remembers: four answers of the longest runs
MOST_PLACES = 1_000  # newest steps with non-finite values that are told

_BOUNDS = """
SELECT bounds.first, bounds.last, run.operations_count, ARRAY(
    SELECT operation FROM telemetry_app_stepaggregate WHERE run_id = %(run)s AND step = bounds.last
)
FROM (
    SELECT min(step) AS first, max(step) AS last FROM telemetry_app_stepaggregate WHERE run_id = %(run)s
) bounds LEFT JOIN telemetry_app_run run ON run.run_id = %(run)s
"""
# A row has one number of each metric, or all counts, then all minima, means, maxima and newest values: those of one
# metric stand `apart` from each other. Arrays compare by their first member, then by the second: so the least value
# comes with its step, without a sort. Each OFFSET 0 keeps what is below it from being evaluated once more for each use
# above, and `|| '{}'` a large array from being unpacked as often.
_SERIES = """
SELECT shown / %(width)s, operation, name, sum(count), sum(count * least(greatest(mean, -%(most)s), %(most)s)),
       min(ARRAY[low, shown]), max(ARRAY[high, -shown]), max(ARRAY[shown, newest])
FROM (
    SELECT shown, operation, name, CASE WHEN apart > 0 THEN numbers[place] ELSE 1 END AS count,
           numbers[place + apart] AS low, numbers[place + 2 * apart] AS mean, numbers[place + 3 * apart] AS high,
           numbers[place + 4 * apart] AS newest
    FROM ({values}) reported
    WHERE place IS NOT NULL AND shown BETWEEN %(from)s AND %(to)s
    OFFSET 0
) told
GROUP BY 1, 2, 3
"""
_STEPS = """
SELECT CASE WHEN step = %(tail)s THEN step - 1 ELSE step END AS shown, operation, metric_names,
       metric_numbers || '{{}}' AS numbers,
       cardinality(metric_names) * (cardinality(metric_numbers) > cardinality(metric_names))::int AS apart
FROM telemetry_app_stepaggregate WHERE run_id = %(run)s AND step BETWEEN %(first)s AND %(last)s OFFSET 0
"""
# Of one name less is to do for a step: no join.
_SERIES_OF_ONE = _SERIES.format(
    values=f"""
    SELECT *, %(name)s::text AS name, array_position(metric_names, %(name)s) AS place FROM ({_STEPS}) kept OFFSET 0
    """
)
_SERIES_OF_MANY = _SERIES.format(
    values=f"""
    SELECT kept.*, named.name, named.place::int
    FROM ({_STEPS}) kept CROSS JOIN unnest(metric_names) WITH ORDINALITY AS named (name, place)
    WHERE named.name = ANY(%(names)s) OFFSET 0
    """
)
# Each op that is counted raises a count, and no id comes twice: rows with the same sums are the same.
_MARKS = """
SELECT CASE WHEN step = %(tail)s THEN step - 1 ELSE step END / %(size)s, count(*), sum(count)::text, sum(id)::text
FROM telemetry_app_stepaggregate WHERE run_id = %(run)s AND step BETWEEN %(first)s AND %(last)s GROUP BY 1
"""
_COUNT = "SELECT operations_count FROM telemetry_app_run WHERE run_id = %(run)s"
_PLACES = """
SELECT step, operation, wanted.name, (nonfinite ->> wanted.name)::bigint
FROM telemetry_app_stepaggregate CROSS JOIN unnest(%(names)s::text[]) AS wanted (name)
WHERE run_id = %(run)s AND step BETWEEN %(first)s AND %(last)s
  AND nonfinite <> '{}' AND jsonb_exists(nonfinite, wanted.name)
ORDER BY step DESC LIMIT %(limit)s
"""
_NAMES = """
SELECT DISTINCT operation, name FROM (
    SELECT operation, metric_names, nonfinite FROM telemetry_app_stepaggregate
    WHERE run_id = %(run)s AND step >= (
        SELECT max(step) FROM telemetry_app_stepaggregate WHERE run_id = %(run)s
    ) - %(steps)s
) newest CROSS JOIN LATERAL (
    SELECT unnest(metric_names) UNION ALL SELECT jsonb_object_keys(nonfinite)
) AS reported (name)
LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class StoredBounds:
    """The stamps of a run's stored steps, the ops of the newest one, and how many ops are stored."""

    first: int | None = None
    last: int | None = None
    operations_count: int | None = None
    newest_operations: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StepSpan:
    """The steps that are shown, both included, and the stamp whose ops belong to the step before (-1: none does)."""

    first: int
    last: int
    tail: int = -1

    @property
    def last_stamp(self) -> int:
        """The newest stamp that belongs to the span."""
        return self.last + 1 if self.tail == self.last + 1 else self.last

    def shown(self, stamp: int) -> int:
        """Return the step that ops with a stamp are shown in."""
        return stamp - 1 if stamp == self.tail else stamp

    def holds(self, stamp: int) -> bool:
        """Return whether ops with a stamp are shown."""
        return self.first <= self.shown(stamp) <= self.last


def stored_bounds(run_id: str) -> StoredBounds:
    """Return where a run's stored steps begin and end."""
    [(first, last, count, operations)] = _rows(_BOUNDS, {"run": run_id})
    return StoredBounds(first, last, count, frozenset(operations))


def stored_series(
    run_id: str, names: Iterable[str], span: StepSpan, width: int, bounds: StoredBounds
) -> tuple[dict[SeriesKey, Buckets], int | None]:
    """Return the buckets of the asked metrics by op, and how many ops of the run were stored then (None: no row).

    `bounds` are those of the run's stored steps.
    """
    found: dict[SeriesKey, Buckets] = {}
    wanted = tuple(sorted(names))
    for bucket, operation, name, values, total, low, high, newest in _series(run_id, wanted, span, width, bounds):
        found.setdefault((operation, name), {})[int(bucket)] = Bucket(
            int(values), total, low[0], int(low[1]), high[0], -int(high[1]), newest[1], int(newest[0])
        )
    # Behind the series: it tells of what a snapshot stored meanwhile.
    [count] = [count for (count,) in _rows(_COUNT, {"run": run_id})] or [None]
    return found, count


def _series(
    run_id: str, names: tuple[str, ...], span: StepSpan, width: int, bounds: StoredBounds
) -> Iterator[tuple[Any, ...]]:
    """Yield the buckets of what is stored of a span, folded by parts.

    Each is folded in a fraction of the time that one statement may take, and remembered until a row of it changes. They
    meet where buckets do, so the same buckets come of them as of the whole.
    """
    if bounds.first is None or bounds.last is None:
        return
    # The oldest stamp may be the tail, which is shown a step before.
    first, newest = max(span.first, bounds.first - 1, 0), min(span.last, bounds.last)
    steps = max(VALUES_AT_ONCE // max(1, len(names)), (newest - first) // MOST_PARTS + 1)
    size = -(-steps // width) * width
    rows = {"run": run_id, "tail": span.tail, "size": size, "first": first, "last": newest + (span.tail == newest + 1)}
    marks = {int(number): tuple(mark) for number, *mark in _rows(_MARKS, rows)}
    while first <= newest:
        last = min(newest, (first // size + 1) * size - 1)
        if first // size in marks:
            tail = span.tail if first <= span.tail <= last + 1 else -1
            yield from _folded(run_id, names, width, first, last, tail, marks[first // size])
        first = last + 1


@lru_cache(PARTS_KEPT)
def _folded(
    run_id: str, names: tuple[str, ...], width: int, first: int, last: int, tail: int, mark: tuple[Any, ...]
) -> list[tuple[Any, ...]]:
    """Return the buckets of the steps from `first` to `last`; `mark` is another where one of their rows is."""
    parameters = {
        "run": run_id, "width": width, "most": MOST_OF_A_MEAN, "tail": tail,
        "first": first, "last": last + (tail == last + 1), "from": first, "to": last,
    }  # fmt: skip
    if len(names) > FEW_NAMES:
        return _rows(_SERIES_OF_MANY, parameters | {"names": list(names)})
    return [row for name in names for row in _rows(_SERIES_OF_ONE, parameters | {"name": name})]


def stored_places(run_id: str, names: Iterable[str], span: StepSpan) -> list[tuple[int, str, str, int]]:
    """Return stamp, op, metric and how many values were not finite, newest first."""
    limit = {"limit": MOST_PLACES + 1, "first": span.first, "last": span.last_stamp}
    return [tuple(row) for row in _rows(_PLACES, {"run": run_id, "names": list(names), **limit})]


def stored_kinds(run_id: str, places: Sequence[tuple[int, str, str, int]]) -> dict[tuple[int, str, str], set[str]]:
    """Return which kinds those were, as far as the op rows are still kept."""
    rows = Operation.objects.of_run(run_id).filter(
        step__in={step for step, *_ in places}, nonfinite__has_any_keys=sorted({name for _, _, name, _ in places})
    )
    kinds: dict[tuple[int, str, str], set[str]] = {}
    columns = rows.order_by().values_list("step", "operation", "nonfinite")
    for step, operation, nonfinite in columns[: 10 * MOST_PLACES]:
        for name, kind in nonfinite.items():
            kinds.setdefault((step, operation, name), set()).add(str(kind))
    return kinds


def stored_names(run_id: str) -> list[SeriesKey]:
    """Return which ops reported which metrics in the newest 1,000 steps."""
    parameters = {"run": run_id, "steps": NAMED_STEPS, "limit": MOST_NAMES}
    return [(operation, name) for operation, name in _rows(_NAMES, parameters)]


def _rows(statement: str, parameters: dict[str, Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall()
