"""Which runs are in trouble and why: told as their counts are, live of those that are looked at, else by history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from telemetry_app.incident_changes import TROUBLES
from telemetry_app.inspection.every_run import EveryRun
from telemetry_app.inspection.known_runs import rows_of, rows_or_none
from telemetry_app.instants import from_unix
from telemetry_app.models import Run


@dataclass(frozen=True, slots=True)
class TroubledRun:
    """A run in trouble: its state, since when (None: not known), and the facts in words."""

    run_id: str
    state: str
    since: datetime | None
    reason: str
    name: str = ""


def runs_in_trouble(told: EveryRun, limit: int) -> list[TroubledRun]:
    """Return runs in trouble, the worst state first and in each the newest trouble first."""
    found = sorted(chain(_live(told), _stored(told, limit)), key=_order)[:limit]
    rows = rows_of(told.fleet, [run.run_id for run in found])
    return [_with_row(run, rows.get(run.run_id)) for run in found]


def _live(told: EveryRun) -> list[TroubledRun]:
    return [
        TroubledRun(run_id, verdict.state, from_unix(verdict.since), "; ".join(verdict.evidence))
        for run_id, verdict in told.verdicts.items()
        if verdict.state in TROUBLES
    ]


def _stored(told: EveryRun, limit: int) -> list[TroubledRun]:
    others = Run.objects.filter(state__in=TROUBLES).exclude(run_id__in=told.verdicts)[:limit]
    rows: Sequence[Run] = rows_or_none(told.fleet, lambda: list(others))
    return [TroubledRun(row.run_id, row.state, row.state_since, row.state_reason) for row in rows]


def _order(run: TroubledRun) -> tuple[int, float, str]:
    return TROUBLES.index(run.state), -run.since.timestamp() if run.since else 0.0, run.run_id


def _with_row(run: TroubledRun, row: Run | None) -> TroubledRun:
    """Add what people call it, and since when a snapshot saw it in this state where the facts don't tell."""
    if row is None:
        return run
    since = run.since or (row.state_since if row.state == run.state else None)
    return replace(run, name=row.name, since=since)
