"""Count the op rows that were stored before steps had aggregates: `/steps` is answered from those alone.

A run at a time, each in a transaction of its own, so that one that is stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.db import migrations, transaction
from msgspec.structs import astuple

from telemetry_app.grouping import OperationGroup, OperationKey, group_operations
from telemetry_app.instants import from_unix
from telemetry_app.rows import OPERATION_RECORD_FIELDS, record_of

ROWS_PER_QUERY = 1_000
_KEY = ["run", "step", "operation"]
_VALUES = [
    "count", "failures", "cancelled", "seconds", "queue_seconds", "metrics", "nonfinite", "first_enqueued_at",
    "started_at", "finished_at",
]  # fmt: skip


def fill(apps: Any, schema_editor: Any) -> None:
    """Write the aggregates of all steps whose op rows are more than their aggregates count."""
    for run_id in apps.get_model("telemetry_app", "Run").objects.values_list("run_id", flat=True).iterator():
        with transaction.atomic():
            _fill_run(apps, run_id)


def _fill_run(apps: Any, run_id: str) -> None:
    aggregates = apps.get_model("telemetry_app", "StepAggregate").objects
    known = {
        (step, operation): count
        for step, operation, count in aggregates.filter(run_id=run_id).values_list("step", "operation", "count")
    }
    rows = []
    for key, group in _groups(apps, run_id):
        if known.get(key, 0) < group.count:
            rows.append(aggregates.model(run_id=run_id, step=key[0], operation=key[1], **_values_of(group)))
        if len(rows) == ROWS_PER_QUERY:
            _write(aggregates, rows)
            rows = []
    _write(aggregates, rows)


def _groups(apps: Any, run_id: str) -> Iterator[tuple[OperationKey, OperationGroup]]:
    operations = apps.get_model("telemetry_app", "Operation").objects.filter(run_id=run_id)
    rows = operations.only(*OPERATION_RECORD_FIELDS).order_by("step").iterator(ROWS_PER_QUERY)
    for step, of_step in groupby(rows, key=attrgetter("step")):
        yield from group_operations((step, record_of(row)) for row in of_step).items()


def _values_of(group: OperationGroup) -> dict[str, Any]:
    return {name: getattr(group, name) for name in _VALUES} | {
        "metrics": {
            name: spread.last if spread.count == 1 and spread.last_at == group.finished_at else astuple(spread)
            for name, spread in group.metrics.items()
            if spread.count
        },
        "first_enqueued_at": from_unix(group.first_enqueued_at),
        "started_at": from_unix(group.started_at),
        "finished_at": from_unix(group.finished_at),
    }


def _write(aggregates: Any, rows: list[Any]) -> None:
    aggregates.bulk_create(rows, update_conflicts=True, unique_fields=_KEY, update_fields=_VALUES)


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("telemetry_app", "0005_cursor_numbers")]

    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
