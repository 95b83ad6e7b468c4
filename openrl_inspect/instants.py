"""Instants and spans as people write and read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d)")
_UNIT_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}


def parse(text: Any) -> datetime | None:
    """Return an instant of the API; None where there is none."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo else None


def unix_seconds(text: Any) -> float | None:
    """Return an instant of the API in unix seconds."""
    found = parse(text)
    return None if found is None else found.timestamp()


def from_option(text: str, *, now: datetime) -> str:
    """Return an instant for the API: of a span such as `90s`, `15m`, `2h` or `3d` that long ago, else of ISO 8601.

    Raises:
        ValueError: it is neither, or an instant without its offset.
    """
    if span := _SPAN.fullmatch(text.strip()):
        return (now - timedelta(seconds=float(span[1]) * _UNIT_SECONDS[span[2]])).isoformat()
    found = parse(text)
    if found is None:
        raise ValueError(
            f"{text!r} must be a span such as 15m, 2h or 3d, or an instant with its offset such as "
            f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}."
        )
    return found.isoformat()
