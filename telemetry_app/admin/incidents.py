"""Incidents: the list over all runs, and the few that the fleet's page and a run's page show."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.contrib.filters.admin import RangeDateTimeFilter
from unfold.decorators import display

from telemetry_app.admin.choice_filters import WordsFilter
from telemetry_app.admin.incident_page import incident_page
from telemetry_app.admin.read_only import PageAdmin
from telemetry_app.alerts import heartbeat
from telemetry_app.inspection.incidents import IncidentFilter, list_incidents
from telemetry_app.models import Incident, IncidentCode, VerdictPass
from telemetry_app.templatetags.telemetry import ago, badge, duration, short

SHOWN_OPEN = len(IncidentCode)  # all that one run can have
SHOWN_ENDED = 10
_OF_RUNS_LEFT_OUT = ("run__ledger_seen", "run__notes")  # as large as runs are old


def incidents_shown(*, run: str | None = None, since: datetime | None = None) -> dict[str, Any]:
    """Return the newest open incidents, then the newest that ended (of those that held since an instant).

    Raises:
        HistoryUnavailableError: PostgreSQL can't be asked.
    """
    held = list_incidents(IncidentFilter(run=run, is_open=True), None, SHOWN_OPEN)
    ended = list_incidents(IncidentFilter(run=run, is_open=False, since=since), None, SHOWN_ENDED)
    return {
        "incidents": [*held.results, *ended.results],
        "incidents_open": held.total_matching,
        "incidents_total": held.total_matching + ended.total_matching,
        "is_incidents_total_capped": held.is_total_capped or ended.is_total_capped,
        "last_pass_at": held.last_pass_at,
    }


class OpenFilter(admin.SimpleListFilter):
    """Incidents that hold, or that ended."""

    title = "open"
    parameter_name = "open"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the choices."""
        return [("yes", "still open"), ("no", "ended")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Incident]) -> QuerySet[Incident]:
        """Return the open, or the ended ones."""
        wanted = {"yes": Q(ended_at=None), "no": Q(ended_at__isnull=False)}
        return queryset.filter(wanted.get(self.value() or "", Q()))


@admin.register(Incident)
class IncidentAdmin(PageAdmin):
    """Incidents, newest first, and the page of one."""

    list_display = ("shown_code", "shown_run", "shown_cause", "shown_since", "shown_length", "shown_end")
    list_filter = (OpenFilter, ("code", WordsFilter), ("started_at", RangeDateTimeFilter))
    list_filter_submit = True
    list_before_template = "telemetry_app/incidents_before.html"
    empty_help = "What goes wrong with a run appears here within seconds, and stays when it has ended."
    search_fields = ("run__run_id", "run__name")
    search_help_text = "Any part of a run's id or name"
    ordering = ("-started_at", "-id")
    page_template = "telemetry_app/incident.html"

    def page_context(self, key: str) -> dict[str, Any]:
        """Return what the page shows."""
        return incident_page(key)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """A run's page links to its own, besides the filters."""
        return lookup == "run_id__exact" or super().lookup_allowed(lookup, value, request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show the list with when somebody looked last."""
        last_pass_at = VerdictPass.objects.values_list("ended_at", flat=True).first()
        is_late = last_pass_at is not None and timezone.now() - last_pass_at > heartbeat.LIMIT
        told = {"last_pass_at": last_pass_at, "is_pass_late": is_late}
        return super().changelist_view(request, {**(extra_context or {}), **told})

    def get_queryset(self, request: HttpRequest) -> QuerySet[Incident]:
        """All incidents, with what people call their runs."""
        return super().get_queryset(request).select_related("run").defer(*_OF_RUNS_LEFT_OUT)

    @display(description="What", ordering="code")
    def shown_code(self, incident: Incident) -> SafeString:
        """What went wrong."""
        return badge(incident.code)

    @display(description="Run", ordering="run")
    def shown_run(self, incident: Incident) -> SafeString:
        """The run, with a link to its page."""
        url = reverse("admin:telemetry_app_run_change", args=[admin.utils.quote(incident.run_id)])
        return format_html('<a class="t-link" href="{}">{}</a>', url, incident.run.name or short(incident.run_id, 28))

    @display(description="Cause, as it began")
    def shown_cause(self, incident: Incident) -> SafeString:
        """The facts in words, ages among them, as they were when it began."""
        return format_html('<span class="t-reason" title="{}">{}</span>', incident.cause, incident.cause)

    @display(description="Since", ordering="started_at")
    def shown_since(self, incident: Incident) -> SafeString:
        """The age of its start."""
        return ago(incident.started_at)

    @display(description="For")
    def shown_length(self, incident: Incident) -> str:
        """How long it held; an open one, until now."""
        end = incident.ended_at or timezone.now()
        return duration((end - incident.started_at).total_seconds(), whole=True)

    @display(description="Ended", ordering="ended_at")
    def shown_end(self, incident: Incident) -> SafeString:
        """The age of its end."""
        return ago(incident.ended_at) if incident.ended_at else badge("open")
