"""Which runs a list shows, and in which order: PostgreSQL joins its rows with Redis's index, filters, orders and cuts.

However many runs there are, one query answers a page, and no more of them than a page has leave the database. Of Redis
only the index is read, which has 10,000 entries at most.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from telemetry_app.inspection.sources import history

ORDERINGS = ("last_activity_at", "run_id", "steps_completed", "failures_count", "steps_per_hour")


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs a list shows, and in which order (a field of `ORDERINGS`, `-` before it for descending)."""

    state: str | None = None
    q: str | None = None
    tag: str | None = None
    worker: str | None = None
    active_since: datetime | None = None
    ordering: str = "-last_activity_at"


@dataclass(frozen=True, slots=True)
class RunPosition:
    """Where a page ended: the ordering value and id of its last run."""

    value: Any
    run_id: str


def position_types(ordering: str) -> tuple[type | tuple[type, ...], ...]:
    """Return the types of a position in a list of this ordering."""
    return (str if ordering.endswith("run_id") else (int, float), str)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run before its page is filled: from its row, from Redis's index, or from both.

    `state` is that of the newest snapshot; `steps_per_hour` is -1 where it is not known, so that it can be ordered by.
    """

    run_id: str
    last_activity_at: float = 0.0
    state: str = "idle"
    steps_completed: int = 0
    failures_count: int = 0
    steps_per_hour: float = -1.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The filters that can be told before a run's state is: None lets all through.

    `in_state` is a state with the runs whose state was told just now: those that are in it, and all.
    """

    q: str | None = None
    tag: str | None = None
    active_since: float | None = None
    of_worker: Collection[str] | None = None
    in_state: tuple[str, Collection[str], Collection[str]] | None = None

    def admits(self, run: Candidate) -> bool:
        """Return whether a run of Redis's index is shown; names and tags stand in PostgreSQL alone."""
        if self.tag is not None:
            return False
        if self.q is not None and self.q.lower() not in run.run_id.lower():
            return False
        if self.active_since is not None and run.last_activity_at < self.active_since:
            return False
        if self.of_worker is not None and run.run_id not in self.of_worker:
            return False
        if self.in_state is None:
            return True
        state, told_in_it, told = self.in_state
        return run.run_id in told_in_it or (run.run_id not in told and run.state == state)


@dataclass(frozen=True, slots=True)
class Cut:
    """One page of candidates and the count of all that match."""

    runs: list[Candidate]
    next_position: RunPosition | None
    total_matching: int


def stored_and_live(
    index: Mapping[str, float], wanted: Wanted, ordering: str, after: RunPosition | None, size: int
) -> Cut:
    """Return a page of the runs of both sources; `index` has the runs of Redis with their last activity.

    Raises:
        HistoryUnavailableError: PostgreSQL can't be asked.
    """
    conditions, parameters = _conditions(wanted)
    name, descending = _order(ordering)
    behind = f"({name}, run_id) {'<' if descending else '>'} (%(value)s, %(run_id)s)" if after else "TRUE"
    direction = "DESC" if descending else "ASC"
    statement = _STATEMENT.format(conditions=" AND ".join(conditions), behind=behind, name=name, direction=direction)
    parameters |= {"ids": list(index), "ats": list(index.values()), "size": size + 1}
    if after:
        parameters |= {"value": after.value, "run_id": after.run_id}
    found = history(lambda: _rows(statement, parameters))
    total = found[0][0]
    return _cut([Candidate(*values) for _, *values in found if values[0] is not None], name, size, total)


def live_alone(index: Mapping[str, float], wanted: Wanted, ordering: str, after: RunPosition | None, size: int) -> Cut:
    """Return the same of Redis's index alone, while PostgreSQL is out."""
    name, descending = _order(ordering)

    def key(run: Candidate) -> tuple[Any, str]:
        return getattr(run, name), run.run_id

    matching = [run for run in (Candidate(run_id, at) for run_id, at in index.items()) if wanted.admits(run)]
    total = len(matching)
    if after is not None:
        mark = (after.value, after.run_id)
        matching = [run for run in matching if (key(run) < mark if descending else key(run) > mark)]
    matching.sort(key=key, reverse=descending)
    return _cut(matching, name, size, total)


def _cut(runs: Sequence[Candidate], name: str, size: int, total: int) -> Cut:
    page = list(runs[:size])
    more = len(runs) > size
    return Cut(page, RunPosition(getattr(page[-1], name), page[-1].run_id) if more else None, total)


def _order(ordering: str) -> tuple[str, bool]:
    name = ordering.removeprefix("-")
    if name not in ORDERINGS:  # it becomes a part of the statement
        raise ValueError(f"ordering={ordering!r} must be one of {', '.join(ORDERINGS)}.")
    return name, ordering.startswith("-")


# --- The statement --------------------------------------------------------------------------------------------
# Collation "C" orders texts as Python does, whatever the database's own. The count stands beside the page, so that an
# empty page has it too.
_STATEMENT = """
WITH live AS (SELECT * FROM unnest(%(ids)s::text[], %(ats)s::float8[]) AS entry (run_id, at)),
joined AS (
    SELECT coalesce(run.run_id, live.run_id) COLLATE "C" AS run_id,
           greatest(extract(epoch FROM run.last_activity_at)::float8, live.at) AS last_activity_at,
           coalesce(run.state, 'idle') AS state,
           coalesce(run.steps_completed, 0) AS steps_completed,
           coalesce(run.failures_count, 0) AS failures_count,
           coalesce(run.steps_per_hour, -1) AS steps_per_hour,
           concat_ws(chr(10), coalesce(run.run_id, live.run_id), run.name, array_to_string(run.tags, chr(10))) AS words,
           run.tags
    FROM telemetry_app_run AS run FULL JOIN live ON live.run_id = run.run_id
),
matching AS (SELECT * FROM joined WHERE {conditions}),
page AS (
    SELECT run_id, last_activity_at, state, steps_completed, failures_count, steps_per_hour FROM matching
    WHERE {behind} ORDER BY {name} {direction}, run_id {direction} LIMIT %(size)s
)
SELECT total.runs, page.* FROM (SELECT count(*) AS runs FROM matching) AS total LEFT JOIN page ON TRUE
ORDER BY {name} {direction}, run_id {direction}
"""


def _conditions(wanted: Wanted) -> tuple[list[str], dict[str, Any]]:
    conditions, parameters = ["TRUE"], dict[str, Any]()
    if wanted.q is not None:
        conditions.append("strpos(lower(words), lower(%(q)s)) > 0")
        parameters["q"] = wanted.q
    if wanted.tag is not None:
        conditions.append("%(tag)s = ANY(tags)")
        parameters["tag"] = wanted.tag
    if wanted.active_since is not None:
        conditions.append("last_activity_at >= %(active_since)s")
        parameters["active_since"] = wanted.active_since
    if wanted.of_worker is not None:
        conditions.append("run_id = ANY(%(of_worker)s)")
        parameters["of_worker"] = list(wanted.of_worker)
    if wanted.in_state is not None:
        conditions.append("(run_id = ANY(%(told_in_it)s) OR (run_id <> ALL(%(told)s) AND state = %(state)s))")
        state, told_in_it, told = wanted.in_state
        parameters |= {"state": state, "told_in_it": list(told_in_it), "told": list(told)}
    return conditions, parameters


def _rows(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall()
