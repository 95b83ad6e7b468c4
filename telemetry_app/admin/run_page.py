"""The page of one run: its state with the evidence, plots, open requests, failures, workers and newest steps."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.utils import quote
from django.http import Http404
from django.urls import reverse
from django.utils import timezone

from telemetry_app.admin.compare import compare_url
from telemetry_app.admin.incidents import incidents_shown
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError, NotFoundError
from telemetry_app.inspection.known_runs import facts_of_run
from telemetry_app.inspection.records import run_failures
from telemetry_app.inspection.requests import oldest_requests
from telemetry_app.inspection.runs import detail_fields
from telemetry_app.inspection.sources import or_none_where_live_is_out, run_sources
from telemetry_app.inspection.steps import answer_steps, step_fields
from telemetry_app.inspection.verdict import verdict_fields
from telemetry_app.readers import read_workers
from telemetry_app.run_state import run_state

SHOWN_STEPS = 20
SHOWN_FAILURES = 10
SHOWN_REQUESTS = 20


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
    now = timezone.now().timestamp()
    steps = answer_steps(sources, workers, last=SHOWN_STEPS)
    shown = [step_fields(group) for group in reversed(steps.groups)]
    failures = run_failures(sources, None, SHOWN_FAILURES)
    facts, fleet = facts_of_run(sources, workers, now=now)
    requests = oldest_requests(sources, facts, SHOWN_REQUESTS)
    return {
        "title": (sources.row and sources.row.name) or sources.run_id,
        "run": detail_fields(sources, workers, now=now, verdict=run_state(facts), coverage=steps.coverage),
        "steps": [_step_row(step) for step in shown],
        "failures": failures.results,
        "failures_total": failures.total_matching,
        "coverage": steps.coverage,
        "described": sources.row,
        "describe_url": _page_of(sources.run_id, "describe/") if sources.row else None,
        "requests": requests.results,
        "requests_total": requests.total_matching,
        "verdict": verdict_fields(sources, facts, fleet, steps.coverage),
        **_incidents(sources.run_id),
        "plot_base": _page_of(sources.run_id),
        "compare_url": compare_url([sources.run_id]),
    }


def _page_of(run_id: str, ending: str = "") -> str:
    return reverse("admin:telemetry_app_run_change", args=[quote(run_id)]).removesuffix("change/") + ending


def _incidents(run_id: str) -> dict[str, Any]:
    """Return what went wrong with the run; where that can't be read, the sentence that says so."""
    try:
        return incidents_shown(run=run_id)
    except HistoryUnavailableError as error:
        return {"incidents_unknown": str(error)}


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
