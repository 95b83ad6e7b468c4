"""Filters by a field's values, which name them as the pages do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib.admin import AllValuesFieldListFilter, ChoicesFieldListFilter
from django.utils.text import capfirst

from telemetry_app.templatetags.telemetry import words


class WordsFilter(ChoicesFieldListFilter):
    """All values of a field by their words: `waiting_for_gpu` is "Waiting for GPU"."""

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Yield the choices of the theme's filter, "All" first."""
        found = list(super().choices(changelist))
        names = [None, *(value for value, _ in self.field.flatchoices)]
        for choice, name in zip(found, names, strict=False):
            yield choice if name is None else {**choice, "display": capfirst(words(name))}


class ValuesInWordsFilter(AllValuesFieldListFilter):
    """All values that rows have, by their words: `api_server` is "API server"."""

    def choices(self, changelist: Any) -> Iterator[Any]:
        """Yield the choices of the theme's filter, "All" first."""
        for choice in super().choices(changelist):
            yield {**choice, "display": capfirst(words(choice["display"]))}
