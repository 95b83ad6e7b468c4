"""GPU turns of both sources: those that no snapshot took yet come from Redis, all others from PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import connection

from telemetry_app import readers
from telemetry_app.checked_records import Checked
from telemetry_app.exceptions import HistoryUnavailableError
from telemetry_app.inspection.sources import history, or_none_where_live_is_out
from telemetry_app.instants import from_unix
from telemetry_app.models import Turn
from telemetry_app.rows import turn_of
from workers_client import wire

WORKLOADS = 500  # most recently used workloads whose lists are looked at
FIRST_TURNS = 64  # newest of each workload: more than come between two snapshots. Where it is less, all are read
REDELIVERY_SPAN = timedelta(days=1)  # as in `bulk.py`: within it a record is stored once
# As text: nearly each answer asks both, and to compile them anew takes longer than PostgreSQL does.
_NEWEST_TAKEN = "SELECT list_key, newest_record_id FROM telemetry_app_listcursor WHERE list_key = ANY(%s)"
_STORED = """
SELECT workload, record_id FROM telemetry_app_turn
WHERE workload = ANY(%s) AND record_id = ANY(%s) AND at BETWEEN %s AND %s
"""


@dataclass(slots=True)
class LiveTurns:
    """Turns in Redis that no snapshot took. `is_live` and `has_history` tell which source could be asked."""

    records: list[wire.TurnRecord] = field(default_factory=list)
    workloads: tuple[str, ...] = ()
    malformed_count: int = 0
    is_live: bool = True
    has_history: bool = True


def new_turns() -> LiveTurns:
    """Return the turns that only Redis has; with PostgreSQL out all that Redis has."""
    index = or_none_where_live_is_out(readers.read_workload_index)
    if index is None:
        return LiveTurns(is_live=False)
    found = LiveTurns(workloads=tuple(list(index)[:WORKLOADS]))
    try:
        # Before the lists: behind a cursor that a snapshot moves meanwhile, everything would look new.
        cursors = _cursors(found.workloads)
    except HistoryUnavailableError:
        found.has_history, cursors = False, {}
    lists = or_none_where_live_is_out(lambda: _lists_behind(found.workloads, cursors))
    if lists is None:
        return LiveTurns(is_live=False, has_history=found.has_history)
    for workload, checked in lists.items():
        found.malformed_count += checked.malformed_count
        found.records += _behind(checked, cursors.get(workload))
    if found.has_history and found.records:
        found.records = _not_stored(found)
    return found


def stored_turns_between(
    start: float, end: float, *, limit: int, workloads: Sequence[str] = ()
) -> list[wire.TurnRecord]:
    """Return the newest stored turns that ended after `start` and began before `end` (unix seconds).

    Where the workloads are known an index serves each of them; else the days are read.
    """
    rows = Turn.objects.filter(at__gt=from_unix(start), started_at__lt=from_unix(end))
    rows = rows.filter(workload__in=workloads) if workloads else rows
    return history(lambda: [turn_of(row) for row in rows.order_by("-at")[:limit]])


def _cursors(workloads: Sequence[str]) -> dict[str, str]:
    keys = {wire.turns_key(workload): workload for workload in workloads}
    return {keys[key]: newest for key, newest in history(lambda: _rows(_NEWEST_TAKEN, (list(keys),))) if newest}


def _lists_behind(workloads: Sequence[str], cursors: dict[str, str]) -> dict[str, Checked[wire.TurnRecord]]:
    """Return the newest turns of each workload; all of one whose newest 64 do not reach back to its cursor."""
    lists = readers.read_turns(workloads, newest=FIRST_TURNS)
    short = [
        workload
        for workload, checked in lists.items()
        if checked.length > FIRST_TURNS and not _has(checked.records, cursors.get(workload))
    ]
    return lists | readers.read_turns(short) if short else lists


def _has(records: Iterable[wire.TurnRecord], newest_record_id: str | None) -> bool:
    return newest_record_id is not None and any(record.identity == newest_record_id for record in records)


def _behind(checked: Checked[wire.TurnRecord], newest_record_id: str | None) -> list[wire.TurnRecord]:
    for index in range(len(checked.records) - 1, -1, -1):
        if checked.records[index].identity == newest_record_id:
            return checked.records[index + 1 :]
    return checked.records


def _rows(statement: str, parameters: Sequence[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall()


def _not_stored(found: LiveTurns) -> list[wire.TurnRecord]:
    """Leave out what is stored: a record told again, or one whose list came back without its cursor's record."""
    ends = [from_unix(record.at) for record in found.records]
    asked = (
        list({record.workload for record in found.records}),
        [record.identity for record in found.records],
        min(ends) - REDELIVERY_SPAN,
        max(ends) + REDELIVERY_SPAN,
    )
    try:
        known = set(history(lambda: _rows(_STORED, asked)))
    except HistoryUnavailableError:
        found.has_history = False
        return found.records
    return [record for record in found.records if (record.workload, record.identity) not in known]
