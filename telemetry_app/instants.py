"""Unix seconds of the wire to aware datetimes (UTC) of rows and answers, and back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload

__all__ = ["from_unix", "rfc3339", "to_unix"]


@overload
def from_unix(seconds: float) -> datetime: ...
@overload
def from_unix(seconds: None) -> None: ...
def from_unix(seconds: float | None) -> datetime | None:
    """Return the aware datetime (UTC, microseconds) of unix seconds."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


@overload
def to_unix(instant: datetime) -> float: ...
@overload
def to_unix(instant: None) -> None: ...
def to_unix(instant: datetime | None) -> float | None:
    """Return the unix seconds of an aware datetime."""
    return None if instant is None else instant.timestamp()


def rfc3339(instant: datetime | float | None) -> str | None:
    """Return RFC 3339 in UTC with milliseconds (`2026-11-30T02:40:12.120Z`), of a datetime or of unix seconds."""
    if instant is None:
        return None
    moment = instant if isinstance(instant, datetime) else datetime.fromtimestamp(instant, UTC)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
