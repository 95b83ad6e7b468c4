"""Failures over all runs: failed ops, and failed sampling answers."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import FieldTextFilter, RangeDateTimeFilter
from unfold.decorators import display

from telemetry_app.admin.failure_groups import failures_view
from telemetry_app.admin.read_only import ReadOnlyAdmin
from telemetry_app.models import FailedOperation, FailedSample
from telemetry_app.templatetags.telemetry import ago, duration, short


class _FailureAdmin(ReadOnlyAdmin):
    """What both kinds of failures show alike."""

    # Texts to type: a list of all values there are would be read from the whole table.
    list_filter = (("error_type", FieldTextFilter), ("at", RangeDateTimeFilter))
    list_filter_submit = True
    empty_help = "Failed ops and failed sampling answers appear here with the next snapshot."
    group_lookups = ("run_id__exact", "error_type__exact", "operation__exact", "source__exact")
    search_fields = ("run__run_id", "request_id")
    search_help_text = "Any part of a run's id or a request's id"
    ordering = ("-at", "-id")
    list_display_links = ("shown_error",)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """What a group of failures links to, besides the filters."""
        return lookup in self.group_lookups or super().lookup_allowed(lookup, value, request)

    @display(description="When", ordering="at")
    def shown_at(self, failure: FailedOperation) -> SafeString:
        """The age of the failure."""
        return ago(failure.at)

    @display(description="Error", ordering="error_type")
    def shown_error(self, failure: FailedOperation) -> str:
        """The class of the error; its message is never recorded."""
        return failure.error_type or "unknown"

    @display(description="Run", ordering="run")
    def shown_run(self, failure: FailedOperation) -> SafeString:
        """The run, with a link to its page."""
        url = reverse("admin:telemetry_app_run_change", args=[admin.utils.quote(failure.run_id)])
        return format_html('<a class="t-link" href="{}">{}</a>', url, short(failure.run_id))

    @display(description="Request")
    def shown_request(self, failure: FailedOperation) -> SafeString:
        """The request that failed."""
        return short(failure.request_id, 24)

    @display(description="Worker")
    def shown_worker(self, failure: FailedOperation) -> SafeString:
        """The worker that answered."""
        return short(failure.worker, 28)


@admin.register(FailedOperation)
class FailedOperationAdmin(_FailureAdmin):
    """Failed ops, newest first."""

    list_display = (
        "shown_error", "shown_run", "operation", "step", "shown_at", "shown_elapsed", "error_category",
        "shown_request", "shown_worker",
    )  # fmt: skip

    def get_urls(self) -> list[URLPattern]:
        """Add the page of the groups."""
        groups = path("groups/", self.admin_site.admin_view(failures_view), name="telemetry_failures")
        return [groups, *super().get_urls()]

    @display(description="Ran for", ordering="elapsed_seconds")
    def shown_elapsed(self, failure: FailedOperation) -> str:
        """How long it ran; a dash where it failed before it could."""
        return duration(failure.elapsed_seconds)


@admin.register(FailedSample)
class FailedSampleAdmin(_FailureAdmin):
    """Failed sampling answers, newest first."""

    list_display = ("shown_error", "shown_run", "source", "shown_at", "shown_request", "shown_worker")
