"""What agents are told: the API's answers with the fields that matter, within stated bounds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from openrl_inspect.cells import value_at
from openrl_inspect.explanations import where_time_went
from openrl_inspect.site import Answer, results_of

ANSWER_BYTES = 24_000  # some 8,000 tokens
TEXT_CHARACTERS = 300
FACTS = 5
IDS = 3  # of records and requests, told of each fact or entry
WORKERS_OF_A_RUN = 10
_RUN = (
    "run_id",
    "state",
    "state_since",
    "also",
    "steps_completed",
    "steps_per_hour",
    "failures_count",
    "last_activity_at",
)
_FAILURE = (
    "id", "run_id", "kind", "operation", "step", "error_type", "error_category", "source", "worker", "request_id", "at",
    "elapsed_seconds",
)  # fmt: skip
_REQUEST = (
    "run_id", "operation", "count", "oldest_at", "oldest_age_seconds", "worker", "role", "health", "orphaned", "stuck",
    "why",
)  # fmt: skip
_WORKER = (
    "worker", "role", "health", "phase", "phase_since", "last_heartbeat_at", "last_progress_at", "current", "turn",
    "outstanding_count", "node", "exited_at", "exit_reason",
)  # fmt: skip
_FACTS = ("evidence", "chain", "findings", "counter_evidence", "next")  # of a verdict
_COVERAGE = ("live", "history", "complete", "missing_records", "malformed", "last_snapshot_at")


def encoded(answer: Answer) -> str:
    """Return an answer as JSON of at most 24,000 bytes: results past that are left out from the end, and counted."""
    answer, left_out = _rounded(answer), 0
    while len(text := _json(answer)) > ANSWER_BYTES and (longest := _longest_list(answer)):
        longest.pop()
        left_out += 1
        answer["left_out_for_length"] = left_out
    return text if len(text) <= ANSWER_BYTES else _json({"error": "This answer is too long. Ask for less."})


def listed(answer: Answer, results: Iterable[Answer]) -> Answer:
    """Return a list's results with what tells how whole they are."""
    shown = list(results)
    found: Answer = {"as_of": answer.get("as_of"), "total_matching": answer.get("total_matching"), "results": shown}
    if coverage := coverage_of(answer):
        found["coverage"] = coverage
    return found


def fitting(rows: Iterable[Answer], size_bytes: int) -> list[Answer]:
    """Return the first rows that have room in so many bytes of JSON; one at least."""
    found: list[Answer] = []
    for row in rows:
        size_bytes -= len(_json(row)) + 1
        if found and size_bytes < 0:
            break
        found.append(row)
    return found


def coverage_of(answer: Answer) -> Answer:
    """Return what an answer could not see; empty where it saw all there is."""
    coverage = picked(answer.get("coverage"), _COVERAGE)
    is_whole = coverage.get("live") is not False and coverage.get("history") is not False
    if is_whole and coverage.get("complete") is not False and not coverage.get("malformed"):
        return {}
    return coverage


def run_of(run: Answer) -> Answer:
    """Return a run of a list."""
    return picked(run, _RUN) | {"evidence": facts(run.get("evidence"))}


def failure_of(failure: Answer) -> Answer:
    """Return a failed op or sampling answer."""
    return picked(failure, _FAILURE)


def request_of(request: Answer) -> Answer:
    """Return an entry of open requests."""
    found = picked(request, _REQUEST)
    return found | {
        "expected_within_seconds": value_at(request, "expectation.limit_seconds"),
        "request_ids": list(request.get("request_ids") or ())[:IDS],
    }


def worker_of(worker: Answer) -> Answer:
    """Return a worker of a list."""
    runs = list(worker.get("runs") or ())
    return picked(worker, _WORKER) | {"runs": runs[:FACTS], "runs_count": len(runs)}


def step_of(step: Answer, metrics: Iterable[str]) -> Answer:
    """Return a step: seconds by op, and the mean (or that it was not finite) of the metrics that are asked for."""
    operations = step.get("operations")
    ops = {name: op for name, op in operations.items() if isinstance(op, dict)} if isinstance(operations, dict) else {}
    found = picked(step, ("step", "completed", "finished_at", "wall_seconds", "failures"))
    found["operations"] = {
        name: picked(op, ("count", "failures", "seconds", "queue_seconds")) for name, op in ops.items()
    }
    values: Answer = {}
    for name in metrics:
        for op in ops.values():
            if (op.get("nonfinite") or {}).get(name):
                values[name] = "not finite"
            elif value_at(op.get("metrics"), name) is not None:
                values.setdefault(name, op["metrics"][name].get("mean"))
    return found | ({"metrics": values} if values else {})


def metric_names(steps: Iterable[Answer]) -> list[str]:
    """Return the names of all metrics that steps have, in their order."""
    names: dict[str, None] = {}
    for step in steps:
        operations = step.get("operations")
        for op in operations.values() if isinstance(operations, dict) else ():
            names |= dict.fromkeys(op.get("metrics") or ()) | dict.fromkeys(op.get("nonfinite") or ())
    return list(names)


def explanation_of(explanation: Answer) -> Answer:
    """Return what is known of a run, what matters most first."""
    run, verdict = explanation["run"], explanation["verdict"] or {}
    found = run_of(run) | picked(run, ("outstanding_count", "queue_depth", "samples"))
    found["as_of"] = run.get("as_of")
    found["steps_per_hour"] = value_at(run, "rates.steps_per_hour")
    found |= {name: facts(verdict[name]) for name in _FACTS if verdict.get(name)}
    found |= picked(verdict, ("expectation",))
    found["time"] = _time(where_time_went(explanation))
    found["newest_steps"] = [step_of(step, ()) for step in results_of(explanation["steps"])]
    found["stuck_requests"] = [request_of(one) for one in results_of(explanation["stuck"])]
    found["stuck_requests_total"] = explanation["stuck"].get("requests_count")
    found["newest_failures"] = [failure_of(one) for one in results_of(explanation["failures"])]
    workers = [one for one in run.get("workers") or () if isinstance(one, dict)]
    shown = sorted(workers, key=lambda worker: worker.get("health") in ("alive", "exited"))[:WORKERS_OF_A_RUN]
    found["workers"] = [picked(one, ("worker", "role", "health", "phase", "last_heartbeat_at")) for one in shown]
    found["workers_count"] = len(workers)
    return found | {"coverage": picked(run.get("coverage"), _COVERAGE)}


def picked(row: Any, names: Iterable[str]) -> Answer:
    """Return the named fields that there are and that say something, long texts cut."""
    fields = row if isinstance(row, dict) else {}
    return {name: _short(fields[name]) for name in names if fields.get(name) not in (None, [], {})}


def facts(values: Any) -> list[Any]:
    """Return the first facts of a list of them: texts, or objects with the first ids of what they speak of."""
    return [_fact(value) for value in values[:FACTS]] if isinstance(values, list) else []


def _fact(value: Any) -> Any:
    if not isinstance(value, dict):
        return _short(value)
    ids = {name: value[name][:IDS] for name in ("record_ids", "request_ids") if isinstance(value.get(name), list)}
    return picked(value | ids, value)


def _time(time: Answer) -> Answer:
    return {
        **picked(time, ("source", "steps_count", "wall_seconds", "queue_seconds")),
        "seconds_by_part": {part["part"]: part["seconds"] for part in time["parts"]},
        "gpu_wait_by": [picked(one, one) for one in time["gpu_wait_by"][:FACTS]],
    }


def _rounded(value: Any) -> Any:
    """Return a value with its floats in six digits."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > TEXT_CHARACTERS:
        return value[: TEXT_CHARACTERS - 1] + "…"
    return value


def _longest_list(answer: Answer) -> list[Any]:
    lists = [value for value in answer.values() if isinstance(value, list) and value]
    return max(lists, key=lambda found: len(_json(found)), default=[])


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
