"""The admin's index: what the fleet is doing at a glance."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Count
from django.http import HttpRequest
from django.utils import timezone

from telemetry_app.admin.freshness import history_freshness
from telemetry_app.health import Health
from telemetry_app.models import Operation, Run, RunState, Sample, Worker

SHOWN_RUNS = 10
WORKERS_SEEN = timedelta(days=1)

admin.site.index_template = "telemetry_app/dashboard.html"


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add what the index shows (the theme's `DASHBOARD_CALLBACK`)."""
    now = timezone.now()
    states = dict(Run.objects.order_by().values_list("state").annotate(count=Count("pk")))
    seen = Worker.objects.filter(last_heartbeat_at__gte=now - WORKERS_SEEN).with_health(now)
    healths = dict(seen.order_by().values_list("health").annotate(count=Count("pk")))  # type: ignore[misc] # annotated
    hour = now - timedelta(hours=1)
    context.update(
        run_states=[(state, states[state]) for state in RunState.values if state in states],
        worker_healths=[(health.value, healths[health.value]) for health in Health if health.value in healths],
        failures_last_hour=Operation.objects.failed().filter(at__gte=hour).count()
        + Sample.objects.failed().filter(at__gte=hour).count(),
        newest_runs=Run.objects.defer("ledger_seen")[:SHOWN_RUNS],
        freshness=history_freshness(),
    )
    return context
