"""Pages of lists: the cursor of a request, and that of the page behind an answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rest_framework.request import Request

from telemetry_app.api.cursors import decode_cursor, encode_cursor
from telemetry_app.inspection.records import Position

Types = tuple[type | tuple[type, ...], ...]
NUMBER = (int, float)
LAST_INSTANT = 253_402_300_799_000_000  # microseconds: the end of the year 9999


def position(request: Request, types: Types) -> list[Any] | None:
    """Return where the page before ended, each value of its type; None without a cursor.

    Raises:
        InvalidQueryError: the cursor is none, or belongs to another query.
    """
    raw = request.query_params.get("cursor")
    return decode_cursor(raw, path=request.path, query=request.query_params, types=types) if raw else None


def next_cursor(request: Request, mark: list[Any] | None) -> str | None:
    """Return the cursor of the page behind `mark`, None on the last page."""
    return None if mark is None else encode_cursor(mark, path=request.path, query=request.query_params)


def record_position(request: Request) -> Position | None:
    """Return where the page of records before ended."""
    found = position(request, (NUMBER, str, str))
    return Position(from_microseconds(found[0]), found[1], found[2]) if found else None


def record_mark(found: Position | None) -> list[Any] | None:
    """Return the mark of a page of records."""
    return [microseconds(found.at), found.record_id, found.run_id] if found else None


def from_microseconds(value: float) -> datetime:
    """Return the instant of microseconds since 1970; one beyond what a datetime holds is its end."""
    return datetime.fromtimestamp(min(max(value, 0), LAST_INSTANT) / 1e6, UTC)


def microseconds(at: datetime) -> int:
    """Return the microseconds since 1970, which is how exact history is."""
    return round(at.timestamp() * 1e6)
