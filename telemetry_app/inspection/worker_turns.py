"""The GPU turns of one worker, with what ran inside: of both sources."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError
from telemetry_app.inspection.sources import history
from telemetry_app.inspection.turn_sources import new_turns
from telemetry_app.instants import from_unix, rfc3339
from telemetry_app.models import Turn
from telemetry_app.rows import turn_of
from workers_client import wire

MOST_TURNS = 1_000


@dataclass(slots=True)
class WorkerTurns:
    """The newest turns of a worker, oldest first; `is_cut`: there are older ones in the time that was asked for."""

    turns: list[dict[str, Any]]
    is_cut: bool
    live: bool
    has_history: bool


def worker_turns(worker: str, since: datetime, until: datetime) -> WorkerTurns:
    """Return the turns of a worker that ended in `[since, until)`, the newest 1,000 of them.

    Raises:
        LiveDataUnavailableError: neither source can be asked.
    """
    live = new_turns()
    fresh = [turn for turn in live.records if turn.worker == worker and since <= from_unix(turn.at) < until]
    rows = Turn.objects.filter(worker=worker, at__gte=since, at__lt=until).order_by("-at", "-id")[: MOST_TURNS + 1]
    has_history = live.has_history
    try:
        stored = history(lambda: [turn_of(row) for row in rows])
    except HistoryUnavailableError:
        if not live.is_live:
            raise LiveDataUnavailableError("Neither Redis nor PostgreSQL can be read.") from None
        stored, has_history = [], False
    found = {(turn.at, turn.identity): turn for turn in [*stored, *fresh]}
    newest = sorted(found)[-MOST_TURNS:]
    return WorkerTurns([_fields(found[key]) for key in newest], len(found) > MOST_TURNS, live.is_live, has_history)


def _fields(turn: wire.TurnRecord) -> dict[str, Any]:
    return {
        "id": turn.identity,
        "workload": turn.workload,
        "requested_at": rfc3339(turn.requested_at),
        "started_at": rfc3339(turn.started_at),
        "ended_at": rfc3339(turn.at),
        "operations": [
            {
                "operation": op.name,
                "run_id": op.run_id,
                "count": op.count,
                "status": op.status,
                "seconds": max(0.0, op.end - op.start),
            }
            for op in turn.ops
        ],
    }
