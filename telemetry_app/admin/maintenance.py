"""What the site did itself: executions of snapshot and retention, and starting one by hand."""

from __future__ import annotations

import time
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.template.defaultfilters import filesizeformat
from django.urls import URLPattern, path, reverse
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from unfold.decorators import display

from telemetry_app.admin.read_only import ReadOnlyAdmin
from telemetry_app.admin.upkeep import START_PERMISSION, upkeep_view
from telemetry_app.exceptions import QueueUnavailableError
from telemetry_app.models import Execution
from telemetry_app.retention_policies import EXECUTIONS, HOLDINGS, REDIS
from telemetry_app.schedule import RETENTION_TASK, SNAPSHOT_TASK
from telemetry_app.task_queue import queue_task
from telemetry_app.templatetags.telemetry import ago, badge, duration, figure, words

TASKS = {Execution.Task.SNAPSHOT.value: SNAPSHOT_TASK, Execution.Task.RETENTION.value: RETENTION_TASK}
_OUTCOMES = {
    "succeeded": Q(error="", finished_at__isnull=False),
    "failed": ~Q(error=""),
    "unfinished": Q(error="", finished_at__isnull=True),
}


class OutcomeFilter(admin.SimpleListFilter):
    """How it ended."""

    title = "outcome"
    parameter_name = "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        return [(word, word) for word in _OUTCOMES]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        """Return the executions that ended so."""
        return queryset.filter(_OUTCOMES.get(self.value() or "", Q()))


class PolicyFilter(admin.SimpleListFilter):
    """Which policy a retention applied."""

    title = "policy"
    parameter_name = "policy"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        return [(policy, words(policy)) for policy in (*HOLDINGS, REDIS, EXECUTIONS)]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        """Return the executions of that policy."""
        return queryset.filter(policy=self.value()) if self.value() else queryset


@admin.register(Execution)
class ExecutionAdmin(ReadOnlyAdmin):
    """Executions, newest first, with buttons that queue one."""

    list_display = (
        "task", "policy", "shown_outcome", "shown_started", "shown_seconds", "shown_runs", "shown_written",
        "shown_lag", "shown_missing", "shown_removed", "shown_cutoff", "error",
    )  # fmt: skip
    list_filter = ("task", PolicyFilter, OutcomeFilter)
    list_before_template = "telemetry_app/executions_before.html"
    ordering = ("-started_at", "-id")
    empty_help = "The first snapshot comes within seconds of a Celery worker and beat."

    @display(description="Outcome")
    def shown_outcome(self, execution: Execution) -> SafeString:
        """Whether it succeeded; one that never finished was killed, or is under way."""
        if execution.error:
            return badge("failed")
        return badge("succeeded" if execution.finished_at else None)

    @display(description="Started", ordering="started_at")
    def shown_started(self, execution: Execution) -> SafeString:
        """The age of its start."""
        return ago(execution.started_at)

    @display(description="Took")
    def shown_seconds(self, execution: Execution) -> str:
        """How long it took."""
        return duration(execution.seconds)

    @display(description="Runs", ordering="runs_count")
    def shown_runs(self, execution: Execution) -> str:
        """Of a snapshot: the runs that had something new."""
        return figure(execution.runs_count)

    @display(description="Rows", ordering="rows_written")
    def shown_written(self, execution: Execution) -> str:
        """Of a snapshot: the rows it wrote."""
        return figure(execution.rows_written)

    @display(description="Not seen", ordering="missing_records")
    def shown_missing(self, execution: Execution) -> str:
        """Records that a snapshot knows to exist and never saw, and those that it could not read."""
        malformed = f", {figure(execution.malformed_count)} malformed" if execution.malformed_count else ""
        return f"{figure(execution.missing_records)}{malformed}"

    @display(description="Lag", ordering="lag_seconds")
    def shown_lag(self, execution: Execution) -> str:
        """Of a snapshot: how long the oldest record it took had waited in Redis."""
        return duration(execution.lag_seconds)

    @display(description="Removed", ordering="rows_removed")
    def shown_removed(self, execution: Execution) -> str:
        """What a retention removed: rows, or keys of Redis, with their bytes."""
        if execution.task != Execution.Task.RETENTION:
            return figure(None)
        keys = execution.policy == REDIS
        what = f"{figure(execution.keys_removed)} keys" if keys else f"{figure(execution.rows_removed)} rows"
        return f"{what}, {filesizeformat(execution.bytes_removed)}" if execution.bytes_removed else what

    @display(description="Kept since")
    def shown_cutoff(self, execution: Execution) -> SafeString:
        """The first instant that a retention kept."""
        return ago(execution.cutoff_at)

    def get_urls(self) -> list[URLPattern]:
        """Add where the buttons lead to."""
        start = path(
            "start/<slug:task>/", self.admin_site.admin_view(self.start_view), name="telemetry_app_execution_start"
        )
        upkeep = path("upkeep/", self.admin_site.admin_view(upkeep_view), name="telemetry_upkeep")
        return [start, upkeep, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show the list, with buttons for those who may use them."""
        tasks = list(TASKS) if request.user.has_perm(START_PERMISSION) else []
        return super().changelist_view(request, {**(extra_context or {}), "startable_tasks": tasks})

    def start_view(self, request: HttpRequest, task: str) -> HttpResponse:
        """Queue a task, and go where its progress is seen."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not request.user.has_perm(START_PERMISSION):
            raise PermissionDenied
        if task not in TASKS:
            raise Http404
        try:
            queue_task(TASKS[task])
        except QueueUnavailableError as error:
            messages.error(request, f"The {task} was not queued. {error}.")
            return HttpResponseRedirect(reverse("admin:telemetry_upkeep"))
        asked = urlencode({"task": task, "asked": str(int(time.time()))})
        return HttpResponseRedirect(f"{reverse('admin:telemetry_upkeep')}?{asked}")
