"""What the site did itself: executions of snapshot and retention."""

from __future__ import annotations

from django.contrib import admin
from django.utils.safestring import SafeString
from unfold.decorators import display

from telemetry_app.admin.read_only import ReadOnlyAdmin
from telemetry_app.models import Execution
from telemetry_app.templatetags.telemetry import ago, badge, duration


@admin.register(Execution)
class ExecutionAdmin(ReadOnlyAdmin):
    """Executions, newest first."""

    list_display = (
        "task", "shown_outcome", "shown_started", "shown_seconds", "runs_count", "rows_written", "rows_removed",
        "malformed_count", "error",
    )  # fmt: skip
    list_filter = ("task",)
    ordering = ("-started_at", "-id")

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
        if execution.finished_at is None:
            return duration(None)
        return duration((execution.finished_at - execution.started_at).total_seconds())
