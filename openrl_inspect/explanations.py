"""What one looks at first when a run is in trouble, gathered from the endpoints that the site has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from openrl_inspect.cells import TROUBLE
from openrl_inspect.site import Answer, Site, results_of, run_path

NEWEST_STEPS = 5
NEWEST_FAILURES = 3
STUCK_REQUESTS = 5
STEP_CLOCK, OP_RECORDS = "step_clock", "op_records"


async def explain(site: Site, run_id: str, *, last: int = NEWEST_STEPS) -> Answer:
    """Return what the site says about a run: `run`, `verdict`, `time`, `steps`, `stuck` and `failures`.

    `verdict` and `time` are null at a site that has no such endpoints.

    Raises:
        InspectError: as `Site.get`.
    """
    names = ("run", "verdict", "time", "steps", "stuck", "failures")
    answers = await asyncio.gather(
        site.get(run_path(run_id)),
        site.get_if_there(run_path(run_id, "/verdict")),
        site.get_if_there(run_path(run_id, "/time"), last=last),
        site.get(run_path(run_id, "/steps"), last=last),
        site.get(run_path(run_id, "/requests"), stuck=True, page_size=STUCK_REQUESTS),
        site.get(run_path(run_id, "/failures"), page_size=NEWEST_FAILURES),
    )
    return dict(zip(names, answers, strict=True))


async def in_trouble(site: Site, *, limit: int) -> Answer:
    """Return the runs in trouble as a list: the states in their order, in each the newest activity first."""
    found = await asyncio.gather(*(site.get("/runs", state=state, page_size=limit) for state in TROUBLE))
    results = [run for answer in found for run in results_of(answer)]
    return {
        **found[0],
        "count": min(len(results), limit),
        "total_matching": sum(int(answer.get("total_matching") or 0) for answer in found),
        "next": None,
        "results": results[:limit],
    }


def where_time_went(explanation: Answer) -> Answer:
    """Return what the newest completed steps took, by part, largest first.

    By the site's step clock where it has one; else by the op records, which tell `ops`, the seconds that ops ran (more
    than the wall time where several ran at once), and `between_ops`, the rest. `queue_seconds` is what ops waited
    before they ran, summed: requests that wait at once count each.
    """
    clock = [step for step in results_of(explanation.get("time") or {}) if _number(step.get("wall_seconds"))]
    if clock:
        return _summed(clock, [_parts(step) for step in clock], STEP_CLOCK)
    steps = [
        step
        for step in results_of(explanation.get("steps") or {})
        if step.get("completed") and _number(step.get("wall_seconds"))
    ]
    queued = sum(_number(op.get("queue_seconds")) for step in steps for op in _ops(step))
    return {**_summed(steps, [_op_parts(step) for step in steps], OP_RECORDS), "queue_seconds": queued}


def run_is_in_trouble(run: Answer) -> bool:
    """Return whether a run's state, or one that holds as well, is trouble."""
    also = run.get("also")
    return run.get("state") in TROUBLE or any(state in TROUBLE for state in (also if isinstance(also, list) else ()))


def _summed(steps: list[Answer], parts: list[dict[str, float]], source: str) -> Answer:
    wall = sum(float(step["wall_seconds"]) for step in steps)
    sums: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            sums[name] = sums.get(name, 0.0) + value
    ordered = sorted(((value, name) for name, value in sums.items() if value > 0), reverse=True)
    return {
        "source": source,
        "steps_count": len(steps),
        "wall_seconds": wall,
        "parts": [{"part": name, "seconds": value, "share": value / wall if wall else None} for value, name in ordered],
        "gpu_wait_by": _holders(steps),
    }


def _parts(step: Answer) -> dict[str, float]:
    parts = step.get("parts")
    found = {name: _number(value) for name, value in parts.items()} if isinstance(parts, dict) else {}
    if "untracked" not in found:
        found["untracked"] = _number(step.get("untracked_seconds"))
    return found


def _op_parts(step: Answer) -> dict[str, float]:
    ops = _ops(step)
    ran = sum(_number(op.get("seconds")) for op in ops)
    return {"ops": ran, "between_ops": max(0.0, float(step["wall_seconds"]) - ran)}


def _holders(steps: Iterable[Answer]) -> list[Answer]:
    """Return the seconds of GPU waits by who held the device, longest first."""
    sums: dict[tuple[Any, Any, Any], float] = {}
    for step in steps:
        for holder in step.get("gpu_wait_by") or ():
            key = (holder.get("workload"), holder.get("run_id"), holder.get("operation"))
            sums[key] = sums.get(key, 0.0) + _number(holder.get("seconds"))
    ordered = sorted(sums.items(), key=lambda one: -one[1])
    return [
        {"workload": workload, "run_id": run_id, "operation": operation, "seconds": value}
        for (workload, run_id, operation), value in ordered
    ]


def _ops(step: Answer) -> list[Answer]:
    operations = step.get("operations")
    return [op for op in operations.values() if isinstance(op, dict)] if isinstance(operations, dict) else []


def _number(value: Any) -> float:
    """Return a number; of an object such as `{"seconds": …}` that, of anything else 0."""
    if isinstance(value, dict):
        value = value.get("seconds")
    return float(value) if isinstance(value, (int, float)) else 0.0
