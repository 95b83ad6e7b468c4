"""The fleet on one page: runs, workers, stuck requests, failures, the GPU, and what the site itself can see."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from django.db.models import Count, Sum
from django.utils import timezone

from telemetry_app.gpu_share import GpuShare, gpu_share
from telemetry_app.gpu_turns import first_instant
from telemetry_app.health import Health
from telemetry_app.inspection.coverage import source_word
from telemetry_app.inspection.every_run import EveryRun, every_run
from telemetry_app.inspection.known_runs import FleetWorkers, stored_or
from telemetry_app.inspection.records import FailureFilter, all_failures
from telemetry_app.inspection.requests import request_fields
from telemetry_app.inspection.turn_sources import new_turns, stored_turns_between
from telemetry_app.instants import from_unix, rfc3339
from telemetry_app.models import Execution, Run, RunState, Turn, Worker
from telemetry_app.open_activity import turns_now
from telemetry_app.open_requests import order_of
from telemetry_app.readiness import check_all
from workers_client import wire

SPAN_SECONDS = 3_600.0  # failures and the GPU are looked at over so long
WORKERS_SPAN = timedelta(days=1)  # stored workers that were heard of so lately count, as long as Redis keeps them
FAILURES_SHOWN = 5
STUCK_SHOWN = 10
RUNS_SHOWN = 50  # runs with the most GPU time; the others are summed up
MOST_TURNS = 10_000  # newest turns that are looked at; with more the span is shorter


def fleet(*, now: float) -> dict[str, Any]:
    """Return the state of the fleet.

    Raises:
        LiveDataUnavailableError: neither source can be asked.
    """
    return fleet_as_told(every_run(now=now))


def fleet_as_told(told: EveryRun) -> dict[str, Any]:
    """Return the state of the fleet from what was told of all runs."""
    seen = told.fleet
    clock = seen.now
    is_live = seen.live is not None
    runs = _runs(told)
    workers = _workers(seen)
    lately = FailureFilter(since=from_unix(clock - SPAN_SECONDS))
    failures, _ = all_failures(lately, None, FAILURES_SHOWN, asks_live=is_live)
    if not failures.has_history:
        seen.has_history, seen.history_fault = False, failures.history_fault
    gpu = _gpu(seen, clock)
    site = _site(seen)
    return {
        "as_of": rfc3339(clock),
        "coverage": {
            "live": is_live,
            "history": seen.has_history,
            "source": "both" if is_live and seen.has_history else source_word(live=is_live, stored=not is_live),
            "malformed": seen.live.malformed_count if seen.live else 0,
            "last_snapshot_at": rfc3339(told.snapshot_at),
        },
        "runs": runs,
        "workers": workers,
        "stuck_requests": _stuck(told),
        "failures": {
            "since": rfc3339(clock - SPAN_SECONDS),
            "total_matching": failures.total_matching,
            "is_total_capped": failures.is_count_capped,
            "newest": failures.results,
        },
        "gpu": gpu,
        "site": site,
    }


# --- Runs and workers -----------------------------------------------------------------------------------------
def _runs(told: EveryRun) -> dict[str, Any]:
    """Count runs by state: told live of those that were looked at, by the newest snapshot of all others."""
    states = {run_id: verdict.state for run_id, verdict in told.verdicts.items()}
    counts = Counter(states.values())
    others = Run.objects.exclude(run_id__in=states).order_by().values_list("state").annotate(count=Count("run_id"))
    counts.update(dict(stored_or([], told.fleet, lambda: list(others))))
    return {
        "count": counts.total(),
        "told_live_count": len(states),
        "by_state": {state: counts[state] for state in RunState.values},
    }


def _workers(seen: FleetWorkers) -> dict[str, Any]:
    """Count workers by role and health: those that Redis knows, and stored ones that were heard of within a day."""
    counts: Counter[tuple[str, str]] = Counter(
        (fact.record.role, fact.health.value) for fact in seen.workers if fact.record.worker not in seen.stored_ids
    )
    known = [fact.record.worker for fact in seen.workers if fact.record.worker not in seen.stored_ids]
    clock = from_unix(seen.now)
    stored = Worker.objects.filter(last_heartbeat_at__gte=clock - WORKERS_SPAN).exclude(worker__in=known)
    of_role: Any = stored.with_health(clock).order_by()  # the plugin knows no annotation of a queryset's method
    rows = of_role.values_list("role", "health").annotate(count=Count("worker"))
    for role, health, count in stored_or([], seen, lambda: list(rows)):
        counts[role, health] += count
    roles = [role.value for role in wire.Role]
    others = sorted({role for role, _ in counts} - set(roles))
    return {
        "count": counts.total(),
        "by_health": {health.value: sum(n for (_, told), n in counts.items() if told == health) for health in Health},
        "by_role": {role: {health.value: counts[role, health.value] for health in Health} for role in roles + others},
    }


def _stuck(told: EveryRun) -> dict[str, Any]:
    stuck = sorted((entry for entry in told.requests if entry.stuck), key=order_of)
    now = told.fleet.now
    return {
        "requests_count": sum(entry.unshared_count for entry in stuck),
        "orphaned_count": sum(entry.unshared_count for entry in stuck if entry.orphaned),
        "total_matching": len(stuck),
        "oldest": [request_fields(entry, now) for entry in stuck[:STUCK_SHOWN]],
    }


# --- The GPU --------------------------------------------------------------------------------------------------
def _gpu(seen: FleetWorkers, clock: float) -> dict[str, Any]:
    live = new_turns() if seen.live is not None else None
    start = clock - SPAN_SECONDS
    # Redis keeps the names of workloads for days: none that had a turn within the hour is missing.
    known = live.workloads if live else ()
    stored = stored_or([], seen, lambda: stored_turns_between(start, clock, limit=MOST_TURNS + 1, workloads=known))
    is_capped = len(stored) > MOST_TURNS
    if is_capped:  # all turns are known from the end of the oldest one on
        start = max(start, min(turn.at for turn in stored))
    turns = [*stored, *(live.records if live else ()), *turns_now(seen.workers, clock)]
    # Nobody knows what a GPU did before the first of all turns.
    if not stored_or(True, seen, lambda: _has_turn_before(start)):
        start = max(start, min((first_instant(turn) for turn in turns), default=start))
    share = gpu_share(turns, start=start, end=max(clock, start))
    return {"since": rfc3339(start), "until": rfc3339(clock), "is_span_shortened": is_capped, **_share_fields(share)}


def _has_turn_before(start: float) -> bool:
    return Turn.objects.filter(at__lte=from_unix(start)).exists()


def _share_fields(share: GpuShare) -> dict[str, Any]:
    total = share.total_seconds
    by_run = sorted(share.computing_seconds.items(), key=lambda item: (-item[1], item[0] or ""))
    rest = sum((seconds for _, seconds in by_run[RUNS_SHOWN:]), 0.0)

    def part(seconds: float) -> dict[str, float | None]:
        return {"seconds": seconds, "share": seconds / total if total else None}

    return {
        "devices": share.devices,
        "total_seconds": total,
        "computing": part(sum(share.computing_seconds.values(), 0.0)),
        "switching": part(share.switching_seconds),
        "idle_while_waited": part(share.idle_while_waited_seconds),
        "idle": part(share.idle_seconds),
        "overlap_seconds": share.overlap_seconds,
        "by_run": [{"run_id": run_id, **part(seconds)} for run_id, seconds in by_run[:RUNS_SHOWN]],
        "other_runs": part(rest),
    }


# --- The site -------------------------------------------------------------------------------------------------
def _site(seen: FleetWorkers) -> dict[str, Any]:
    checks = check_all(now=timezone.now(), is_redis_out=seen.live is None)
    missing = stored_or({}, seen, _missing)
    newest = Execution.objects.filter(task=Execution.Task.SNAPSHOT, finished_at__isnull=False)
    lag = newest.order_by("-started_at").values_list("lag_seconds", flat=True)
    return {
        "is_ready": all(check.is_ok for check in checks),
        "checks": {check.name: check.as_dict() for check in checks},
        "snapshot_lag_seconds": stored_or(None, seen, lag.first),
        "missing_records": missing.get("records"),
        "runs_with_missing_records": missing.get("runs"),
    }


def _missing() -> dict[str, int]:
    found = Run.objects.filter(missing_records__gt=0).aggregate(records=Sum("missing_records"), runs=Count("run_id"))
    return {"records": int(found["records"] or 0), "runs": found["runs"]}
