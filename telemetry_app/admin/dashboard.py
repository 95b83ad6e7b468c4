"""The admin's index: what the fleet is doing at a glance, told live where Redis answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import capfirst

from telemetry_app.admin.gpu_bar import gpu_bar
from telemetry_app.admin.incidents import incidents_shown
from telemetry_app.admin.run_names import run_names
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError
from telemetry_app.health import Health
from telemetry_app.incident_changes import TROUBLES, WAITS
from telemetry_app.inspection.every_run import EveryRun, every_run
from telemetry_app.inspection.fleet import fleet_as_told
from telemetry_app.inspection.known_runs import stored_or
from telemetry_app.inspection.run_previews import RunPreview, run_previews
from telemetry_app.inspection.run_trouble import runs_in_trouble
from telemetry_app.instants import from_unix
from telemetry_app.models import Run, RunState

SHOWN_RUNS = 10
SHOWN_TROUBLE = 8
INCIDENTS_SPAN = timedelta(days=1)  # incidents that ended so lately are shown beside the open ones

# What the page shows, and the permission without which its part is left out: that of the list behind it.
_VIEWS = {
    "runs, their requests and GPUs": "view_run",
    "failures": "view_failedoperation",
    "workers": "view_worker",
    "incidents": "view_incident",
}

admin.site.index_template = "telemetry_app/dashboard.html"


def dashboard(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Add what the index shows (the theme's `DASHBOARD_CALLBACK`)."""
    context["title"] = "Fleet"
    context["hidden"] = [words for words, name in _VIEWS.items() if not request.user.has_perm(f"telemetry_app.{name}")]
    try:
        context |= _fleet(timezone.now().timestamp())
    except (LiveDataUnavailableError, HistoryUnavailableError) as error:
        context["outage"] = str(error)
    return context


def _fleet(now: float) -> dict[str, Any]:
    told = every_run(now=now)
    found = fleet_as_told(told)
    states = found["runs"]["by_state"]
    trouble = runs_in_trouble(told, SHOWN_TROUBLE)
    bar = gpu_bar(found["gpu"])
    newest = stored_or([], told.fleet, _newest_runs)
    held = stored_or({}, told.fleet, lambda: incidents_shown(since=from_unix(now) - INCIDENTS_SPAN))
    _tell_states_now(held.get("incidents", ()), told)
    named = {part.run_id for part in bar} | {
        entry["run_id"] for entry in [*_shown_entries(found), *held.get("incidents", ())]
    }
    names = run_names(named) if told.fleet.has_history else {}
    return {
        "fleet": found,
        "run_states": [(state, states[state]) for state in RunState.values if states.get(state)],
        "trouble_count": sum(states.get(state, 0) for state in TROUBLES),
        "trouble": trouble,
        "gpu_bar": bar,
        "healths": [health.value for health in Health],
        "worker_rows": _worker_rows(found["workers"]["by_role"]),
        "checks": [{"name": name, **check} for name, check in found["site"]["checks"].items()],
        "warnings": _warnings(found, fault=told.fleet.history_fault),
        "newest_runs": newest,
        **held,
        "names": names,
        "history_fault": told.fleet.history_fault,
    }


def _tell_states_now(incidents: Iterable[dict[str, Any]], told: EveryRun) -> None:
    """Add what the run is now to each open incident that tells another state, with the cause that it began with."""
    states = (*TROUBLES, *WAITS)
    for incident in incidents:
        verdict = told.verdicts.get(incident["run_id"]) if incident["is_open"] else None
        if verdict and verdict.state in states and incident["code"] in states and verdict.state != incident["code"]:
            incident["state_now"] = verdict.state


def _newest_runs() -> list[tuple[Run, RunPreview]]:
    runs = list(Run.objects.defer("ledger_seen", "notes")[:SHOWN_RUNS])
    previews = run_previews([run.pk for run in runs])
    return [(run, previews[run.pk]) for run in runs]


def _shown_entries(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*found["stuck_requests"]["oldest"], *found["failures"]["newest"]]


def _worker_rows(by_role: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """Return a line for each role that has workers, with the count of each health."""
    return [
        {"role": role, "count": sum(healths.values()), "healths": list(healths.items())}
        for role, healths in by_role.items()
        if sum(healths.values())
    ]


def _warnings(found: Mapping[str, Any], *, fault: str) -> list[str]:
    """Return what is wrong with the site, in sentences; that Redis or PostgreSQL is out stands over them."""
    wrong = {name: check.get("detail", "") for name, check in found["site"]["checks"].items() if not check["ok"]}
    if not found["coverage"]["live"]:
        wrong.pop("redis", None)
    if fault:
        wrong.pop("postgres", None)
    if "snapshot" in wrong:
        wrong["snapshot"] += ". Is the Celery worker up?"
    partitions = wrong.get("partitions")
    if partitions:
        wrong["partitions"] = f"Partitions are {partitions}"
    return [detail if detail.endswith((".", "?")) else f"{detail}." for detail in map(capfirst, wrong.values())]
