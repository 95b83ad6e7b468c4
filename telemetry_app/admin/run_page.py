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
from telemetry_app.inspection.records import run_failures
from telemetry_app.inspection.requests import run_requests
from telemetry_app.inspection.runs import detail_fields
from telemetry_app.inspection.sources import or_none_where_live_is_out, run_sources
from telemetry_app.inspection.steps import answer_steps, step_fields
from telemetry_app.inspection.verdict import run_verdict
from telemetry_app.readers import read_workers

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
    return {
        "run": detail_fields(sources, workers, now=now),
        "steps": [_step_row(step) for step in shown],
        "failures": failures.results,
        "failures_total": failures.total_matching,
        "coverage": steps.coverage,
        "described": sources.row,
        "describe_url": _page_of(sources.run_id, "describe/") if sources.row else None,
        **_open_requests(sources.run_id, now),
        "verdict": _verdict(sources.run_id, now),
        **_incidents(sources.run_id),
        "plot_base": _page_of(sources.run_id),
        "compare_url": compare_url([sources.run_id]),
    }


def _page_of(run_id: str, ending: str = "") -> str:
    return reverse("admin:telemetry_app_run_change", args=[quote(run_id)]).removesuffix("change/") + ending


def _open_requests(run_id: str, now: float) -> dict[str, Any]:
    """Return the oldest open requests; where they can't be read, the sentence that says so."""
    try:
        page, _, _ = run_requests(run_id, stuck=None, after=None, size=SHOWN_REQUESTS, now=now)
    except (LiveDataUnavailableError, HistoryUnavailableError, NotFoundError) as error:
        return {"requests_unknown": str(error)}
    return {"requests": page.results, "requests_total": page.total_matching}


def _verdict(run_id: str, now: float) -> dict[str, Any] | None:
    """Return the verdict; None where it can't be told any more, and the state from sources read before stands."""
    try:
        return run_verdict(run_id, now=now)
    except (LiveDataUnavailableError, HistoryUnavailableError, NotFoundError):
        return None


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
