"""What a row of the runs list shows of a run's newest steps: how long they took, the newest loss and reward."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from telemetry_app.inspection.sources import history

SHOWN_STEPS = 30
NEWEST_ROWS = 8  # of a run's step aggregates in which a loss and a reward are looked for: two steps of most runs
LOSS, REWARD = "loss", "reward"

# Both walk the index of (run, step, operation) from its newest end, so many rows for each run and no more.
_ENDS = """
SELECT wanted.run_id, newest.step, extract(epoch FROM newest.finished_at)::float8
FROM unnest(%(runs)s::text[]) AS wanted (run_id) CROSS JOIN LATERAL (
    SELECT step, finished_at FROM telemetry_app_stepaggregate
    WHERE run_id = wanted.run_id AND operation = 'optim_step' ORDER BY step DESC LIMIT %(limit)s
) newest ORDER BY wanted.run_id, newest.step
"""
_METRICS = """
SELECT wanted.run_id, newest.metrics, newest.nonfinite
FROM unnest(%(runs)s::text[]) AS wanted (run_id) CROSS JOIN LATERAL (
    SELECT metrics, nonfinite, step FROM telemetry_app_stepaggregate
    WHERE run_id = wanted.run_id ORDER BY step DESC LIMIT %(limit)s
) newest ORDER BY wanted.run_id, newest.step DESC
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """The newest value of a metric; None where it was not finite."""

    name: str
    value: float | None


@dataclass(slots=True)
class RunPreview:
    """A run's newest steps: seconds from one step's end to the next one's, oldest first."""

    step_seconds: list[float] = field(default_factory=list)
    loss: Reading | None = None
    reward: Reading | None = None


def run_previews(run_ids: Sequence[str]) -> dict[str, RunPreview]:
    """Return what is known of each run's newest steps, in two queries.

    Raises:
        HistoryUnavailableError: PostgreSQL can't be asked.
    """
    found = {run_id: RunPreview() for run_id in run_ids}
    before: tuple[str, int, float] | None = None
    for run_id, step, at in _rows(_ENDS, run_ids, SHOWN_STEPS + 1):
        if before is not None and before[:2] == (run_id, step - 1):
            found[run_id].step_seconds.append(max(0.0, at - before[2]))
        before = (run_id, step, at)
    for run_id, *texts in _rows(_METRICS, run_ids, NEWEST_ROWS):
        metrics, nonfinite = map(json.loads, texts)
        preview = found[run_id]
        preview.loss = preview.loss or newest_reading(metrics, nonfinite, LOSS)
        preview.reward = preview.reward or newest_reading(metrics, nonfinite, REWARD)
    return found


def newest_reading(metrics: Mapping[str, Any], nonfinite: Mapping[str, Any], word: str) -> Reading | None:
    """Return the metric that a word means best: its mean before its sum, the shortest name before longer ones.

    `metrics` are a step aggregate's: a number, or a list of count, min, mean, max, last and last_at.
    """
    names = [name for name in {*metrics, *nonfinite} if word in name.lower()]
    if not names:
        return None
    name = min(names, key=lambda name: (not name.lower().startswith(word), name.endswith(":sum"), len(name), name))
    value = metrics.get(name)
    newest = value[4] if isinstance(value, list) and len(value) > 4 else value
    return Reading(name, float(newest) if isinstance(newest, (int, float)) and name not in nonfinite else None)


def _rows(statement: str, run_ids: Iterable[str], limit: int) -> list[tuple[Any, ...]]:
    def query() -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(statement, {"runs": list(run_ids), "limit": limit})
            return cursor.fetchall()

    return history(query)
