"""When records of wrong clocks were received: history knows it of those that a snapshot took, Redis of none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from telemetry_app.checked_records import Checked
from telemetry_app.models import Operation, Sample
from telemetry_app.readers import LiveRun
from telemetry_app.wrong_clocks import received


def place_received(runs: Iterable[LiveRun]) -> None:
    """Let the stored records of wrong clocks end when they were received, instead of whenever they are read.

    What no snapshot took stays in `of_wrong_clocks`. Asks nothing where all clocks are right.
    """
    found = list(runs)
    _place(Operation, {run.run_id: run.operations for run in found})
    _place(Sample, {run.run_id: run.samples for run in found})


def _place(model: type[Operation | Sample], lists: Mapping[str, Checked[Any]]) -> None:
    wrong = {run_id: checked for run_id, checked in lists.items() if checked.of_wrong_clocks}
    if not wrong:
        return
    stored = model._default_manager.filter(
        run_id__in=wrong,
        record_id__in={identity for checked in wrong.values() for identity in checked.of_wrong_clocks},
        reported_at__isnull=False,
    )
    placed: dict[str, dict[str, Any]] = {}
    for run_id, record_id, at in stored.order_by().values_list("run_id", "record_id", "at"):
        if record_id in wrong[run_id].of_wrong_clocks:
            record = wrong[run_id].of_wrong_clocks.pop(record_id)
            placed.setdefault(run_id, {})[record_id] = received(record, at.timestamp())
    for run_id, of_run in placed.items():
        wrong[run_id].records = [of_run.get(record.identity, record) for record in wrong[run_id].records]
