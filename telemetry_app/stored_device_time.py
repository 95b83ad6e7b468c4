"""Stored turns as the time of devices needs them: marks of parts of a stretch, and the turns of those that are read.

Instants are unix microseconds. However many turns there are, few are in memory at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from django.db import connection, transaction

from telemetry_app.device_parts import Mark
from telemetry_app.device_turns import DeviceOp, DeviceTurn, device_turn_of
from telemetry_app.spans import Span
from telemetry_app.stored_activity import TURN_SPAN

ROWS_AT_ONCE = 2_000

# No id comes twice and no turn is written anew: as many with the same sum of ids are the same.
_MARKS = """
SELECT date_bin('1 hour', at, 'epoch'), count(*), sum(id)
FROM telemetry_app_turn WHERE at >= %s AND at < %s GROUP BY 1
"""
# As text, with instants in unix seconds: see `stored_activity.py`.
_COLUMNS = """workload, extract(epoch FROM started_at)::float8, extract(epoch FROM at)::float8, record_id, node,
    extract(epoch FROM requested_at)::float8, ops::text"""
_LATER = f"""
SELECT {_COLUMNS} FROM telemetry_app_turn
WHERE at >= %(end)s AND at < %(last)s AND least(started_at, requested_at) < %(end)s
"""
_ENDED = f"SELECT {_COLUMNS} FROM telemetry_app_turn WHERE {{spans}} ORDER BY at DESC"
_ops = msgspec.json.Decoder(tuple[DeviceOp, ...])
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def marks_of(spans: Sequence[Span]) -> dict[Span, Mark]:
    """Return the marks of adjoining spans, newest first, each within an hour or of whole ones; of those with turns."""
    found: dict[Span, Mark] = {}
    if not spans:
        return found
    remaining = list(spans)
    with connection.cursor() as cursor:
        cursor.execute(_MARKS, (_instant(spans[-1][0]), _instant(spans[0][1])))
        hours = sorted(cursor.fetchall())
    for hour, count, ids_sum in hours:
        while _instant(remaining[-1][1]) <= hour:
            remaining.pop()
        before = found.get(remaining[-1], Mark(0, 0))
        found[remaining[-1]] = Mark(before.turns_count + count, before.ids_sum + int(ids_sum))
    return found


def turns_that_end_later(end: int) -> list[DeviceTurn]:
    """Return the turns that were asked for before an instant, and ended at it or later, within a day."""
    with connection.cursor() as cursor:
        cursor.execute(_LATER, {"end": _instant(end), "last": _instant(end) + TURN_SPAN})
        return [_turn(*row) for row in cursor.fetchall()]


def turns_ended_in(spans: Sequence[Span]) -> Iterator[DeviceTurn]:
    """Yield the turns that ended in disjoint spans, the newest first."""
    if not spans:
        return
    instants = [_instant(at) for span in spans for at in span]
    statement = _ENDED.format(spans=" OR ".join(["at >= %s AND at < %s"] * len(spans)))
    for row in _streamed(statement, instants):
        yield _turn(*row)


def _streamed(statement: str, parameters: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    # In a transaction: outside of one PostgreSQL would copy all rows before it gives the first.
    with transaction.atomic(), connection.chunked_cursor() as cursor:
        cursor.execute(statement, list(parameters))
        while rows := cursor.fetchmany(ROWS_AT_ONCE):
            yield from rows


def _turn(
    workload: str, started_at: float, at: float, record_id: str, node: str, requested_at: float | None, ops: str
) -> DeviceTurn:
    return device_turn_of(workload, started_at, at, record_id, node, requested_at, _ops.decode(ops))


def _instant(at: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at)
