"""What a row of the runs list shows of a run's newest steps: how long they took, the newest loss and reward."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from telemetry_app.inspection.sources import history
from telemetry_app.step_aggregates import newest_values

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
SELECT wanted.run_id, newest.metric_names, newest.metric_numbers, newest.nonfinite
FROM unnest(%(runs)s::text[]) AS wanted (run_id) CROSS JOIN LATERAL (
    SELECT metric_names, metric_numbers, nonfinite, step FROM telemetry_app_stepaggregate
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
    for run_id, names, numbers, nonfinite_text in _rows(_METRICS, run_ids, NEWEST_ROWS):
        metrics, nonfinite = newest_values(names, numbers), json.loads(nonfinite_text)
        preview = found[run_id]
        preview.loss = preview.loss or newest_reading(metrics, nonfinite, LOSS)
        preview.reward = preview.reward or newest_reading(metrics, nonfinite, REWARD)
    return found


def newest_reading(newest: Mapping[str, float], nonfinite: Mapping[str, Any], word: str) -> Reading | None:
    """Return the metric that a word means best: its mean before its sum, the shortest name before longer ones.

    `newest` are the values of a step aggregate's metrics.
    """
    names = [name for name in {*newest, *nonfinite} if word in name.lower()]
    if not names:
        return None
    name = min(names, key=lambda name: (not name.lower().startswith(word), name.endswith(":sum"), len(name), name))
    return Reading(name, None if name in nonfinite else newest[name])


def _rows(statement: str, run_ids: Iterable[str], limit: int) -> list[tuple[Any, ...]]:
    def query() -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(statement, {"runs": list(run_ids), "limit": limit})
            return cursor.fetchall()

    return history(query)
