"""A caller's parameters: each is checked, and one that nobody knows is refused with the known ones."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from telemetry_app.exceptions import InvalidQueryError

PAGE_SIZE = 50
MOST_PAGE_SIZE = 500
TEXT_LIMIT = 1_000  # characters
CURSOR_LIMIT = 10_000  # a position holds a run's and a record's id, of up to 1,456 characters together
LARGEST_NUMBER = 2**53  # what every JSON reader can hold


class Parameters:
    """The query string of one request, of which only `known` names may stand."""

    def __init__(self, query: QueryDict, known: Iterable[str]) -> None:
        self._query = query
        names = sorted(known)
        for name in query:
            if name not in names:
                told = f"The known ones are {', '.join(names)}." if names else "There are none."
                raise InvalidQueryError(name, f"{name!r} is not a parameter of this endpoint. {told}")

    def text(self, name: str, *, most: int = TEXT_LIMIT) -> str | None:
        """Return a text of at most `most` characters, or None where it is missing or empty."""
        value: str | None = self._query.get(name)
        if value is not None and ("\x00" in value or len(value) > most):
            raise InvalidQueryError(name, f"{name} must have at most {most:,} characters and no NUL.")
        return value or None

    def number(
        self, name: str, default: int | None = None, *, least: int = 0, most: int = LARGEST_NUMBER
    ) -> int | None:
        """Return a whole number from `least` to `most`, or the default where it is missing."""
        raw = self._query.get(name)
        if raw is None:
            return default
        rule = "a whole number, 0 or more" if most == LARGEST_NUMBER else f"a whole number from {least:,} to {most:,}"
        if not raw.isdecimal() or not raw.isascii() or len(raw) > 16 or not least <= int(raw) <= most:
            raise InvalidQueryError(name, f"{name}={raw[:100]!r} must be {rule}.")
        return int(raw)

    def choice(self, name: str, allowed: Iterable[str], default: str | None = None) -> str | None:
        """Return one of the allowed words, or the default where it is missing."""
        raw = self._query.get(name)
        if raw is None:
            return default
        words = list(allowed)
        if raw not in words:
            raise InvalidQueryError(name, f"{name}={raw[:100]!r} must be one of {', '.join(words)}.")
        return str(raw)

    def instant(self, name: str) -> datetime | None:
        """Return an instant in UTC, or None where it is missing: PostgreSQL refuses offsets beyond 16 hours."""
        raw = self._query.get(name)
        if raw is None:
            return None
        try:
            # A "+" of an offset that was not percent-encoded arrives as a space.
            found = parse_datetime(raw.replace(" ", "+") if "T" in raw else raw)
            is_usable = found is not None and found.tzinfo is not None and bool(found.astimezone(UTC))
        except (ValueError, OverflowError):  # beyond the years that there are, once it is brought to UTC
            is_usable = False
        if not is_usable:
            rule = "must be RFC 3339 with its offset, as 2026-11-30T02:40:12Z"
            raise InvalidQueryError(name, f"{name}={raw[:100]!r} {rule}.")
        return found and found.astimezone(UTC)

    def page_size(self) -> int:
        """Return how many results a page holds."""
        return self.number("page_size", PAGE_SIZE, least=1, most=MOST_PAGE_SIZE) or PAGE_SIZE
