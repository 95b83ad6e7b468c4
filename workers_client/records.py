"""What a record of the buffer becomes: one JSON object. Runs in the flush thread, for what is sent alone."""

from __future__ import annotations

import math
from typing import Any

from workers_client import wire
from workers_client.codec import encode_object
from workers_client.commands import ErrorWords, add_trace
from workers_client.metrics import kind_of, recorded_number
from workers_client.run_totals import RunTotals
from workers_client.wire_values import count, text

# What the fold keeps of an op: its id, its run, the worker's own steps before it, role, request id, operation, trace
# context, started_at (None of an op that never ran), at, elapsed_seconds, error, metrics, replaced, work. Of the
# trace context, metrics and work it keeps what `held_…` returns: a record may wait for long.
OpData = tuple[
    str, RunTotals, int, str, str, str, Any, "float | None", float, "float | None", "ErrorWords | None", Any, Any, Any
]

_SUCCEEDED = wire.Status.SUCCEEDED.value  # looking up an enum's value costs as much as a dict
_FLOAT = frozenset({float})
_known_names: set[str] = set()  # metric names that were found good: checking eight names costs more than the rest
_KNOWN_NAMES_LIMIT = 4_096


def encode_operation(data: OpData) -> bytes:
    """Encode an op record. The run's step base must be known: a record's step is the base and the own steps before."""
    (
        record_id, totals, own_step, role, request_id, operation, trace, started_at, at, elapsed, error,
        metrics, replaced, work,
    ) = data  # fmt: skip
    fields: dict[str, Any] = {
        "id": record_id,
        "operation": operation,
        "request_id": request_id if request_id.isprintable() else text(request_id),
        "status": _SUCCEEDED,
        "at": int(at * 1e6) / 1e6,  # microseconds, as readers keep; `round` costs ten times as much
        "step": (totals.steps_base or 0) + own_step,
    }
    if error is not None:
        fields["status"] = error.status
        fields["error_type"] = text(error.error_type) or "Exception"
        if error.error_category is not None:
            fields["error_category"] = error.error_category
    if started_at is not None:
        fields["started_at"] = int(started_at * 1e6) / 1e6
    if elapsed is not None:
        fields["elapsed_seconds"] = int(elapsed * 1e9) / 1e9
    if trace is not None:
        add_trace(fields, trace, at if started_at is None else started_at)
    if metrics is not None or replaced is not None:
        _add_metrics(fields, metrics, replaced)
    if work is not None:
        _add_work(fields, *work)
    # What all records of a run and role share is encoded once: `{"run_id":…,"role":…,"worker":…,` and the rest.
    head = totals.heads.get(role)
    if head is None:
        shared = {"run_id": totals.run_id, "role": role, "worker": totals.worker}
        head = totals.heads[role] = encode_object(shared)[:-1] + b","
    return head + encode_object(fields)[1:]


def encode_fields(fields: dict[str, Any]) -> bytes:
    """Encode a record that is kept as it is written."""
    return encode_object(fields)


def operation_size(metrics: Any) -> int:
    """Return about how many bytes an op takes in memory while it waits: its fixed part and its metrics."""
    return 900 + 120 * (len(metrics) if metrics is not None else 0)


def held_metrics(metrics: dict[Any, Any]) -> dict[Any, Any]:
    """Return metrics as plain numbers: a tensor may hold its batch or its graph, and its host may change it."""
    if _FLOAT.issuperset(map(type, metrics.values())):
        return metrics
    numbers = {name: recorded_number(value) for name, value in metrics.items()}
    return {name: number for name, number in numbers.items() if number is not None}


def held_work(work: tuple[Any, Any, Any]) -> tuple[int | None, int | None, str | None]:
    """Return tokens, datums and batch as the record has them, None of what is unusable."""
    tokens, datums, batch = work
    return count(tokens), count(datums), None if batch is None else text(str(batch))


def _add_metrics(fields: dict[str, Any], metrics: dict[Any, Any] | None, replaced: dict[Any, str] | None) -> None:
    if metrics and replaced is None and len(metrics) <= wire.METRICS_LIMIT and _known_names.issuperset(metrics):
        values = metrics.values()
        if _FLOAT.issuperset(map(type, values)) and math.isfinite(
            sum(values)
        ):  # of one that is not, neither is the sum
            fields["metrics"] = metrics
            return
    finite, nonfinite = split_metrics(metrics, replaced)
    if finite:
        fields["metrics"] = finite
        if len(_known_names) < _KNOWN_NAMES_LIMIT:
            _known_names.update(finite)
    if nonfinite:
        fields["nonfinite"] = nonfinite


def split_metrics(
    metrics: dict[Any, Any] | None, replaced: dict[Any, str] | None
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the finite metrics, and the kinds of the others; a stand-in told by `sanitize_metrics` is no value."""
    finite: dict[str, float] = {}
    nonfinite = {name: kind for name, kind in (replaced or {}).items() if _is_metric_name(name)}
    for name, value in (metrics or {}).items():
        if not _is_metric_name(name) or name in nonfinite:
            continue
        number = recorded_number(value)
        if number is None:
            continue
        kind = kind_of(number)
        if kind is not None:
            nonfinite[name] = kind
        elif len(finite) < wire.METRICS_LIMIT:
            finite[name] = number
    return finite, dict(list(nonfinite.items())[: wire.METRICS_LIMIT])


def _add_work(fields: dict[str, Any], tokens: Any, datums: Any, batch: Any) -> None:
    said = {"tokens": tokens, "datums": datums, "batch": batch}
    fields.update({name: value for name, value in said.items() if value is not None})


def _is_metric_name(name: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= wire.METRIC_NAME_LIMIT and name.isprintable()
