"""Metrics of totals that only ever grow, made of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client.core import Metric

from telemetry_app.metric_growth import (
    BUCKET_COLUMNS,
    COLUMNS,
    DROP_REASONS,
    DROPPED_KINDS,
    KNOWN_OPERATIONS,
    SECONDS_BUCKETS,
    Kind,
    Row,
)
from telemetry_app.prometheus import families
from telemetry_app.prometheus.families import Family
from telemetry_app.step_clock import PARTS
from workers_client import wire

Rows = Mapping[str, Row]
_ENDS = (*map(str, SECONDS_BUCKETS), "+Inf")


def total_metrics(totals: Mapping[Kind, Rows]) -> Iterator[Metric]:
    """Yield the metrics of all totals. Those with fixed labels are 0 until something is counted.

    Else nobody could take a rate of the first that is.
    """
    yield from _operations(_with_zeros(totals[Kind.OPERATION], Kind.OPERATION, KNOWN_OPERATIONS))
    yield from _samples(_the_row(totals[Kind.SAMPLES], Kind.SAMPLES))
    yield from _steps(_the_row(totals[Kind.STEPS], Kind.STEPS))
    turns = totals[Kind.TURNS]
    yield _counter(families.GPU_TURNS, turns, "turns")
    yield _counter(families.GPU_HOLD_SECONDS, turns, "hold_seconds")
    yield _counter(families.GPU_WAIT_SECONDS, turns, "wait_seconds")
    yield from _records(_the_row(totals[Kind.RECORDS], Kind.RECORDS))
    dropped = _with_zeros(totals[Kind.DROPPED], Kind.DROPPED, DROPPED_KINDS)
    yield _by_columns(families.RECORDS_DROPPED, dropped, DROP_REASONS)


def _operations(rows: Rows) -> Iterator[Metric]:
    yield _by_columns(families.OPERATIONS, rows, [status.value for status in wire.Status])
    seen = {operation: row for operation, row in rows.items() if any(row.values())}
    yield _histogram(families.OPERATION_SECONDS, {(operation,): row for operation, row in seen.items()})
    yield _counter(families.OPERATION_QUEUE_SECONDS, seen, "queue_seconds")
    yield _counter(families.OPERATION_TOKENS, seen, "tokens")


def _samples(row: Row) -> Iterator[Metric]:
    yield families.SAMPLE_ANSWERS.by({(status,): row[status] for status in ("answered", "failed")})
    yield families.SAMPLE_SECONDS.of(row["seconds"])
    yield families.SAMPLE_TOKENS.of(row["tokens"])


def _steps(row: Row) -> Iterator[Metric]:
    yield _histogram(families.STEP_SECONDS, {(): row})
    yield families.STEP_PART_SECONDS.by({(part,): row[part] for part in PARTS})


def _records(row: Row) -> Iterator[Metric]:
    kinds = {"operation": "operations", "sample": "samples", "turn": "turns"}
    yield families.RECORDS_STORED.by({(kind,): row[column] for kind, column in kinds.items()})
    yield families.RECORDS_MALFORMED.of(row["malformed"])
    yield families.RECORDS_MISSING.of(row["missing"])
    yield families.RECORDS_CONFLICTING.of(row["conflicts"])


# --- Rows to metrics ------------------------------------------------------------------------------------------
def _counter(family: Family, rows: Rows, column: str) -> Metric:
    return family.by({(label,): row[column] for label, row in rows.items()})


def _by_columns(family: Family, rows: Rows, columns: Sequence[str]) -> Metric:
    return family.by({(label, column): row[column] for label, row in rows.items() for column in columns})


def _histogram(family: Family, rows: Mapping[tuple[str, ...], Row]) -> Metric:
    return family.spread({labels: (_buckets(row), row["seconds"]) for labels, row in rows.items()})


def _buckets(row: Row) -> list[tuple[str, float]]:
    return list(zip(_ENDS, accumulate(row[column] for column in BUCKET_COLUMNS), strict=True))


def _the_row(rows: Rows, kind: Kind) -> Row:
    return rows.get("") or dict.fromkeys(COLUMNS[kind], 0.0)


def _with_zeros(rows: Rows, kind: Kind, labels: frozenset[str]) -> Rows:
    """Return the rows with one for each label, in their order."""
    found = {label: dict.fromkeys(COLUMNS[kind], 0.0) for label in labels} | dict(rows)
    return {label: found[label] for label in sorted(found)}
