"""Runs: the list, and the page of one run with its newest steps, failures and workers."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import RangeDateTimeFilter
from unfold.decorators import display

from telemetry_app.admin.read_only import PageAdmin
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError, NotFoundError
from telemetry_app.inspection.records import run_failures
from telemetry_app.inspection.runs import detail_fields
from telemetry_app.inspection.sources import or_none_where_live_is_out, run_sources
from telemetry_app.inspection.steps import answer_steps, step_fields
from telemetry_app.models import Run
from telemetry_app.readers import read_workers
from telemetry_app.templatetags.telemetry import ago, badge, figure, short

SHOWN_STEPS = 20
SHOWN_FAILURES = 10


@admin.register(Run)
class RunAdmin(PageAdmin):
    """Runs, newest activity first."""

    list_display = (
        "shown_id", "shown_state", "shown_steps", "shown_rate", "shown_activity", "shown_failures", "shown_missing",
    )  # fmt: skip
    list_display_links = ("shown_id",)
    list_filter = ("state", "pinned", ("last_activity_at", RangeDateTimeFilter))
    actions = ("pin", "unpin")
    list_filter_submit = True
    search_fields = ("run_id",)
    search_help_text = "Any part of a run's id"
    ordering = ("-last_activity_at", "run_id")
    page_template = "telemetry_app/run.html"

    @display(description="Run", ordering="run_id")
    def shown_id(self, run: Run) -> SafeString:
        """The id, with its middle left out where it is long, and whether retention keeps it whole."""
        return format_html("{} {}", short(run.run_id), badge("pinned")) if run.pinned else short(run.run_id)

    @display(description="State", ordering="state")
    def shown_state(self, run: Run) -> SafeString:
        """The state as a coloured word."""
        return badge(run.state)

    @display(description="Steps", ordering="steps_completed")
    def shown_steps(self, run: Run) -> str:
        """Successful optim_steps."""
        return figure(run.steps_completed)

    @display(description="Steps/h", ordering="steps_per_hour")
    def shown_rate(self, run: Run) -> str:
        """The newest steps' rate, a dash where it has none now."""
        return figure(None if run.steps_per_hour is None else round(run.steps_per_hour))

    @display(description="Last activity", ordering="last_activity_at")
    def shown_activity(self, run: Run) -> SafeString:
        """The age of the newest recorded activity."""
        return ago(run.last_activity_at)

    @display(description="Failures", ordering="failures_count")
    def shown_failures(self, run: Run) -> str:
        """Failed ops and failed sampling answers."""
        return figure(run.failures_count)

    @display(description="Missing", ordering="missing_records")
    def shown_missing(self, run: Run) -> str:
        """Records that are known to exist and were never seen."""
        return figure(run.missing_records)

    def has_pin_permission(self, request: HttpRequest) -> bool:
        """Who may change runs may pin them, though the form of a run is nobody's."""
        return request.user.has_perm("telemetry_app.change_run")

    @admin.action(description="Pin: keep whole, whatever the retention policies say", permissions=["pin"])
    def pin(self, request: HttpRequest, runs: QuerySet[Run]) -> None:
        """Keep the chosen runs whole."""
        self.message_user(request, f"Runs pinned: {runs.update(pinned=True)}.")

    @admin.action(description="Unpin: the retention policies apply", permissions=["pin"])
    def unpin(self, request: HttpRequest, runs: QuerySet[Run]) -> None:
        """Leave the chosen runs to the policies."""
        self.message_user(request, f"Runs no longer pinned: {runs.update(pinned=False)}.")

    def page_context(self, key: str) -> dict[str, Any]:
        """Return what the page shows."""
        return run_page(key)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Run]:
        """All runs, without the columns that the list does not show."""
        return super().get_queryset(request).defer("ledger_seen")


def run_page(run_id: str) -> dict[str, Any]:
    """Return what the page of one run shows, each source read once.

    Raises:
        Http404: there is no such run.
    """
    try:
        sources = run_sources(run_id)
    except NotFoundError as error:
        raise Http404(str(error)) from error
    except (LiveDataUnavailableError, HistoryUnavailableError) as error:
        return {"outage": str(error)}
    workers = or_none_where_live_is_out(read_workers) if sources.live else None
    steps = answer_steps(sources, workers, last=SHOWN_STEPS)
    shown = [step_fields(group) for group in reversed(steps.groups)]
    failures = run_failures(sources, None, SHOWN_FAILURES)
    return {
        "run": detail_fields(sources, workers, now=timezone.now().timestamp()),
        "steps": [_step_row(step) for step in shown],
        "failures": failures.results,
        "failures_total": failures.total_matching,
        "coverage": steps.coverage,
        "is_pinned": bool(sources.row and sources.row.pinned),
    }


def _step_row(step: dict[str, Any]) -> dict[str, Any]:
    """Return a step with one line an op: seconds, queue, and each metric's newest value or what it was instead."""
    operations = [
        {
            "name": name,
            **{key: group[key] for key in ("count", "failures", "seconds", "queue_seconds")},
            "metrics": [
                {"name": metric, "value": spread.get("last"), "nonfinite": group["nonfinite"].get(metric, 0)}
                for metric, spread in sorted(group["metrics"].items())
            ],
        }
        for name, group in step["operations"].items()
    ]
    return {**step, "operations": operations}
