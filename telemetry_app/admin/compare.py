"""Up to six runs side by side, by step: which ones stand in the page's address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from telemetry_app.exceptions import HistoryUnavailableError
from telemetry_app.inspection.sources import history
from telemetry_app.models import Run
from workers_client import wire

MOST_RUNS = 6
OFFERED_RUNS = 100  # most recently active ones, to choose from
_UNKNOWN = {"name": "", "state": ""}


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run as the page names it; name and state are from history, empty where it has no such run."""

    run_id: str
    name: str
    state: str
    page_url: str
    plot_base: str
    without_url: str


def compare_page(request: HttpRequest) -> HttpResponse:
    """Show the runs that the address names, the first six of them."""
    if not request.user.has_perm("telemetry_app.view_run"):
        raise PermissionDenied
    given = dict.fromkeys(run_id for run_id in request.GET.getlist("run") if wire.is_run_id(run_id))
    chosen = list(given)[:MOST_RUNS]
    stored, offered = _stored(chosen)
    opts = Run._meta
    context = {
        **admin.site.each_context(request),
        "title": "Compare runs",
        "opts": opts,
        "list_url": reverse("admin:telemetry_app_run_changelist"),
        "runs": [_compared(run_id, chosen, stored.get(run_id, _UNKNOWN)) for run_id in chosen],
        "offered": [(run_id, name) for run_id, name in offered if run_id not in given],
        "most_runs": MOST_RUNS,
        "left_out_count": len(given) - len(chosen),
    }
    return TemplateResponse(request, "telemetry_app/compare.html", context)


def compare_url(run_ids: list[str]) -> str:
    """Return the address of the page with these runs."""
    return f"{reverse('admin:telemetry_app_run_compare')}?{urlencode([('run', run_id) for run_id in run_ids])}"


def _stored(chosen: list[str]) -> tuple[dict[str, dict[str, str]], list[tuple[str, str]]]:
    """Return name and state of the chosen runs, and id and name of those that are offered."""
    runs = Run.objects.order_by("-last_activity_at", "run_id").values_list("run_id", "name")
    named: Any = Run.objects.filter(run_id__in=chosen).values("run_id", "name", "state")
    try:
        return history(lambda: {row["run_id"]: row for row in named}), history(lambda: list(runs[:OFFERED_RUNS]))
    except HistoryUnavailableError:
        return {}, []


def _compared(run_id: str, chosen: list[str], stored: dict[str, str]) -> ComparedRun:
    page_url = reverse("admin:telemetry_app_run_change", args=[quote(run_id)])
    return ComparedRun(
        run_id=run_id,
        name=stored["name"],
        state=stored["state"],
        page_url=page_url,
        plot_base=page_url.removesuffix("change/"),
        without_url=compare_url([other for other in chosen if other != run_id]),
    )
