"""Which runs a list shows: the saved filters over it, and those in its drawer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from unfold.contrib.filters.admin import TextFilter

from telemetry_app.incident_changes import TROUBLES
from telemetry_app.models import Run

COUNT_LIMIT = 1_000  # more are not counted: the words beside the links stay cheap with any number of runs
ACTIVE_WITHIN = timedelta(minutes=15)  # as long as a run without anything open is not idle
SAVED_FILTER = "show"

# Word in the address: label, and the condition for a user at an instant.
_SAVED: dict[str, tuple[str, Callable[[Any, datetime], Q]]] = {
    "trouble": ("In trouble", lambda user, now: Q(state__in=TROUBLES)),
    "active": ("Active", lambda user, now: Q(last_activity_at__gte=now - ACTIVE_WITHIN)),
    "mine": ("Mine", lambda user, now: Q(owner=user)),
    "pinned": ("Pinned", lambda user, now: Q(pinned=True)),
}


class SavedFilter(admin.SimpleListFilter):
    """The links over the list; the drawer does not show it a second time."""

    title = "saved filter"
    parameter_name = SAVED_FILTER

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        return [(word, label) for word, (label, _) in _SAVED.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        """Return the runs of the chosen filter."""
        _, condition = _SAVED.get(self.value() or "", ("", lambda user, now: Q()))
        return queryset.filter(condition(request.user, timezone.now()))


class MissingFilter(admin.SimpleListFilter):
    """Runs of which records are known to be missing."""

    title = "missing records"
    parameter_name = "missing"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        return [("yes", "some are missing"), ("no", "none is missing")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        """Return the runs with, or without, missing records."""
        wanted = {"yes": Q(missing_records__gt=0), "no": Q(missing_records=0)}
        return queryset.filter(wanted.get(self.value() or "", Q()))


class TagFilter(TextFilter):
    """Runs that have a tag."""

    title = "tag"
    parameter_name = "tag"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Run]) -> QuerySet[Run]:
        """Return the runs with exactly this tag."""
        tag = self.value()
        return queryset.filter(tags__contains=[tag]) if tag and "\x00" not in tag else queryset


def saved_filters(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the links over the list, each with its count up to `COUNT_LIMIT`; an index serves each."""
    now = timezone.now()
    chosen = request.GET.get(SAVED_FILTER, "")
    choices = {"": ("All", Q())} | {word: (label, of(request.user, now)) for word, (label, of) in _SAVED.items()}
    return [
        {"word": word, "label": label, **_count(condition), "is_chosen": word == chosen}
        for word, (label, condition) in choices.items()
    ]


def _count(condition: Q) -> dict[str, Any]:
    found = Run.objects.filter(condition).order_by()[: COUNT_LIMIT + 1].count()
    return {"count": min(found, COUNT_LIMIT), "is_count_capped": found > COUNT_LIMIT}
