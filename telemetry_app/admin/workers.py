"""Workers: the list with their health."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from telemetry_app.admin.choice_filters import ValuesInWordsFilter
from telemetry_app.admin.read_only import PageAdmin
from telemetry_app.admin.worker_page import worker_page, worker_plot_urls
from telemetry_app.health import Health
from telemetry_app.models import Worker
from telemetry_app.templatetags.telemetry import ago, badge, figure, short, words


class HealthFilter(admin.SimpleListFilter):
    """Workers by their health now."""

    title = "health"
    parameter_name = "health"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The four healths."""
        return [(health.value, health.value) for health in Health]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Worker]) -> QuerySet[Worker]:
        """Those of the chosen health."""
        chosen = self.value()
        return queryset.filter(health=chosen) if chosen else queryset  # type: ignore[misc] # annotated


@admin.register(Worker)
class WorkerAdmin(PageAdmin):
    """Workers, newest heartbeat first."""

    list_display = (
        "shown_worker", "shown_role", "shown_health", "shown_phase", "shown_heartbeat", "shown_progress",
        "shown_outstanding", "node",
    )  # fmt: skip
    list_display_links = ("shown_worker",)
    list_filter = (("role", ValuesInWordsFilter), HealthFilter)
    search_fields = ("worker", "pod", "node", "host")
    search_help_text = "Any part of a worker's id, pod, node or host"
    ordering = ("-last_heartbeat_at", "worker")
    page_template = "telemetry_app/worker.html"
    empty_help = "A worker shows with the first thing it records, within seconds."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        """All workers, with their health now."""
        return super().get_queryset(request).with_health(timezone.now())

    @display(description="Worker", ordering="worker")
    def shown_worker(self, worker: Worker) -> SafeString:
        """The id, with its middle left out where it is long."""
        return short(worker.worker)

    @display(description="Role", ordering="role")
    def shown_role(self, worker: Worker) -> str:
        """The role as words."""
        return words(worker.role)

    @display(description="Health", ordering="health")
    def shown_health(self, worker: Any) -> SafeString:
        """The health as a coloured word."""
        return badge(worker.health)

    @display(description="Phase", ordering="phase")
    def shown_phase(self, worker: Worker) -> SafeString:
        """What it did when it was heard last, and what it runs."""
        current = worker.record.get("current") or {}
        doing = words(worker.phase or "–")
        return format_html('{} <span class="t-muted">{}</span>', doing, current.get("operation", ""))

    @display(description="Last heartbeat", ordering="last_heartbeat_at")
    def shown_heartbeat(self, worker: Worker) -> SafeString:
        """The age of its newest heartbeat."""
        return ago(worker.last_heartbeat_at)

    @display(description="Last progress", ordering="last_progress_at")
    def shown_progress(self, worker: Worker) -> SafeString:
        """The age of its newest finished op or answer."""
        return ago(worker.last_progress_at)

    @display(description="Open requests")
    def shown_outstanding(self, worker: Worker) -> str:
        """Requests it holds unanswered."""
        return figure(sum(work["count"] for work in worker.record.get("outstanding", ())))

    def page_context(self, key: str) -> dict[str, Any]:
        """Return what the page shows."""
        return worker_page(key)

    def get_urls(self) -> list[URLPattern]:
        """The pages, and what the plots of one read."""
        return [*worker_plot_urls(), *super().get_urls()]
