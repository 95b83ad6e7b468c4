"""The parameters of each list, declared once: read and checked by it, and described from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import django_filters
from django.http import QueryDict

from telemetry_app.api.parameters import CURSOR_LIMIT, LARGEST_NUMBER, MOST_PAGE_SIZE, PAGE_SIZE, TEXT_LIMIT, Parameters


class DeclaredFilter(django_filters.Filter):
    """One parameter: how its text is read, and what its schema is.

    Rows are filtered where live and stored ones are joined, so no filter is applied to a query here.
    """

    def read(self, given: Parameters, name: str) -> Any:
        """Return the checked value, None (or the default) where it is missing.

        Raises:
            InvalidQueryError: the text breaks the rule.
        """
        raise NotImplementedError

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the text."""
        raise NotImplementedError


class TextFilter(DeclaredFilter):
    """A text; an empty one counts as missing."""

    def read(self, given: Parameters, name: str) -> str | None:
        """Return the text."""
        return given.text(name)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the text."""
        return {"type": "string", "maxLength": TEXT_LIMIT}


class CursorFilter(TextFilter):
    """Where a page ended."""

    def read(self, given: Parameters, name: str) -> str | None:
        """Return the text."""
        return given.text(name, most=CURSOR_LIMIT)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the text."""
        return {"type": "string", "maxLength": CURSOR_LIMIT}


class InstantFilter(DeclaredFilter):
    """An instant with its offset."""

    def read(self, given: Parameters, name: str) -> Any:
        """Return the aware instant."""
        return given.instant(name)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the text."""
        return {"type": "string", "format": "date-time"}


class WordFilter(DeclaredFilter):
    """One of some words."""

    def __init__(self, words: Iterable[str], *, default: str | None = None, **fields: Any) -> None:
        super().__init__(**fields)
        self.words = list(words)
        self.default = default

    def read(self, given: Parameters, name: str) -> str | None:
        """Return the word."""
        return given.choice(name, self.words, self.default)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the text."""
        found: dict[str, Any] = {"type": "string", "enum": self.words}
        return found if self.default is None else {**found, "default": self.default}


class OrderingFilter(WordFilter):
    """The field that a list is ordered by, `-` before it for descending."""

    def __init__(self, names: Iterable[str], *, default: str, **fields: Any) -> None:
        super().__init__([sign + name for name in names for sign in ("", "-")], default=default, **fields)


class NumberFilter(DeclaredFilter):
    """A whole number."""

    def __init__(
        self, *, default: int | None = None, least: int = 0, most: int = LARGEST_NUMBER, **fields: Any
    ) -> None:
        super().__init__(**fields)
        self.default, self.least, self.most = default, least, most

    def read(self, given: Parameters, name: str) -> int | None:
        """Return the number."""
        return given.number(name, self.default, least=self.least, most=self.most)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the text."""
        found: dict[str, Any] = {"type": "integer", "minimum": self.least, "maximum": self.most}
        return found if self.default is None else {**found, "default": self.default}


class Filters(django_filters.FilterSet):
    """The parameters of one endpoint; any other is refused with the names of these."""

    base_filters: ClassVar[dict[str, DeclaredFilter]]

    @classmethod
    def read(cls, query: QueryDict) -> dict[str, Any]:
        """Return the checked value of each parameter.

        Raises:
            InvalidQueryError: one is unknown, or breaks its rule.
        """
        given = Parameters(query, cls.base_filters)
        return {name: declared.read(given, name) for name, declared in cls.base_filters.items()}


class NoFilters(Filters):
    """An endpoint without parameters."""


class PagedFilters(Filters):
    """What each list takes."""

    cursor = CursorFilter(help_text="Where to go on: `next` of the page before, with the same filters.")
    page_size = NumberFilter(
        default=PAGE_SIZE, least=1, most=MOST_PAGE_SIZE, help_text="How many results a page holds at most."
    )
