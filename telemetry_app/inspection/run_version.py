"""Whether anything of a run's records changed: told from a few marks, without reading the records."""

from __future__ import annotations

from typing import Any

from telemetry_app import readers
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError
from telemetry_app.inspection.sources import history
from telemetry_app.models import Run
from telemetry_app.readiness import newest_retention_at


def run_version(run_id: str) -> str | None:
    """Return a text that changes whenever the answers about a run's records may; None where that can't be told.

    It holds the newest elements and lengths of the run's lists, its ledger, its row (each snapshot changes that),
    the newest retention, and what its workers dropped, which stands in each answer's coverage.
    """
    try:
        marks = readers.read_run_marks(run_id)
        if marks is None:
            return None
        losses = [
            (record.worker, record.buffer.get("dropped"), record.buffer.get("redelivered"))
            for record in readers.read_workers().records.values()
            if run_id in record.runs
        ]
        row: Any = history(lambda: Run.objects.filter(run_id=run_id).values_list().first())
        removed_at = history(newest_retention_at)
    except (LiveDataUnavailableError, HistoryUnavailableError):
        return None
    return repr((marks, sorted(losses, key=lambda loss: loss[0]), row, removed_at))
