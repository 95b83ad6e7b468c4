"""Two runs side by side: what differs most stands first."""

from __future__ import annotations

import asyncio
from statistics import median
from typing import Any

from openrl_inspect.cells import value_at
from openrl_inspect.explanations import where_time_went
from openrl_inspect.site import Answer, Site, results_of, run_path

METRICS_COMPARED = 10


async def compare(site: Site, run_ids: tuple[str, str], *, last: int) -> Answer:
    """Return both runs' state and speed, what their newest completed steps took, and how the seconds a step differ.

    Raises:
        InspectError: as `Site.get`.
    """
    sides = await asyncio.gather(*(_side(site, run_id, last) for run_id in run_ids))
    return {
        "as_of": sides[0]["as_of"],
        "runs": sides,
        "differences": differences(sides[0]["seconds_per_step"], sides[1]["seconds_per_step"]),
    }


def differences(first: dict[str, float], second: dict[str, float]) -> list[Answer]:
    """Return by part of a step the seconds of the second run less those of the first, the largest change first."""
    parts = [{"part": name, "seconds": second.get(name, 0.0) - first.get(name, 0.0)} for name in {**first, **second}]
    return sorted(parts, key=lambda part: -abs(part["seconds"]))


async def _side(site: Site, run_id: str, last: int) -> Answer:
    run, time, steps = await asyncio.gather(
        site.get(run_path(run_id)),
        site.get_if_there(run_path(run_id, "/time"), last=last),
        site.get(run_path(run_id, "/steps"), last=last),
    )
    spent = where_time_went({"time": time, "steps": steps})
    count = spent["steps_count"]
    walls = [step["wall_seconds"] for step in results_of(steps) if step.get("completed") and step.get("wall_seconds")]
    return {
        "as_of": run.get("as_of"),
        "run_id": run_id,
        "state": run.get("state"),
        "steps_completed": run.get("steps_completed"),
        "steps_per_hour": value_at(run, "rates.steps_per_hour"),
        "tokens_per_second": value_at(run, "rates.tokens_per_second"),
        "failures_count": run.get("failures_count"),
        "steps_compared": count,
        "median_step_seconds": median(walls) if walls else None,
        "source": spent["source"],
        "seconds_per_step": {part["part"]: part["seconds"] / count for part in spent["parts"]},
        "newest_metrics": _newest_metrics(results_of(steps)),
    }


def _newest_metrics(steps: list[Answer]) -> dict[str, Any]:
    """Return the means of the newest step that has metrics."""
    for step in reversed(steps):
        operations = step.get("operations")
        ops = operations.values() if isinstance(operations, dict) else ()
        found = {
            name: spread["mean"]
            for op in ops
            for name, spread in (op.get("metrics") or {}).items()
            if isinstance(spread, dict) and spread.get("mean") is not None
        }
        if found:
            return dict(list(found.items())[:METRICS_COMPARED])
    return {}
