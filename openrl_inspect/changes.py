"""What changed since somebody asked last: runs that came into trouble or left it, workers lost, new failures.

The cursor holds the instant and, in a few letters each, the site, the runs in trouble and the lost workers that were
told, so that the site keeps nothing for anybody. Steps and other progress are no change: a run that trains would always
have some.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from datetime import UTC, datetime, timedelta

from openrl_inspect.agent_answers import coverage_of, failure_of, fitting, run_of, worker_of
from openrl_inspect.cells import TROUBLE
from openrl_inspect.exceptions import RefusedError
from openrl_inspect.explanations import in_trouble
from openrl_inspect.instants import parse
from openrl_inspect.site import Answer, Site, results_of

MOST_TOLD = 40  # runs in trouble, and lost workers, that a cursor knows
MOST_FAILURES = 10
FAILURES_LOOKED_AT = 50
FIRST_LOOK = timedelta(hours=1)  # failures told to who brings no cursor
SETTLED = timedelta(seconds=15)  # records come in flushes of 5 s: of a younger instant some may still be on their way
RUNS_BYTES, WORKERS_BYTES, FAILURES_BYTES = 12_000, 6_500, 4_000  # of one answer; what has no room is told next time
_CURSOR = re.compile(r"(\d{10,13})~([0-9a-f]{6})~((?:[0-9a-f]{6}[0-3])*)~((?:[0-9a-f]{6})*)")


async def changes(site: Site, cursor: str | None) -> Answer:
    """Return what changed since a cursor, and the next one; without a cursor what is wrong now.

    Where nothing changed the answer is `{"changed": false}`, and the cursor that was sent stays the one to send.
    Failures are told once they are 15 s old, each once.

    Raises:
        RefusedError: the cursor is none.
        InspectError: as `Site.get`.
    """
    since, known_runs, known_workers = _read(cursor, site.address.url)
    runs, lost, failures = await asyncio.gather(
        in_trouble(site, limit=MOST_TOLD),
        site.get("/workers", health="lost", page_size=MOST_TOLD),
        site.get("/failures", since=since.isoformat(), page_size=FAILURES_LOOKED_AT),
    )
    now_runs = {_short(run["run_id"]): TROUBLE.index(run["state"]) for run in results_of(runs)}
    now_workers = {_short(worker["worker"]) for worker in results_of(lost)}
    new_runs = fitting(
        (run_of(run) for run in results_of(runs) if known_runs.get(name := _short(run["run_id"])) != now_runs[name]),
        RUNS_BYTES,
    )
    new_workers = fitting(
        (worker_of(worker) for worker in results_of(lost) if _short(worker["worker"]) not in known_workers),
        WORKERS_BYTES,
    )
    told_runs = known_runs | {name: now_runs[name] for name in (_short(run["run_id"]) for run in new_runs)}
    told_workers = known_workers | {_short(worker["worker"]) for worker in new_workers}
    # More than fit into a cursor: who moved out of it may only have moved behind the page.
    is_whole = (runs["total_matching"] or 0) <= MOST_TOLD
    recovered = len(known_runs.keys() - now_runs.keys()) if is_whole else 0
    until = (parse(runs.get("as_of")) or datetime.now(UTC)) - SETTLED
    settled = [failure for failure in results_of(failures) if (parse(failure.get("at")) or until) < until]
    failed = int(failures.get("total_matching") or 0) - len(results_of(failures)) + len(settled)
    if cursor and not (new_runs or new_workers or recovered or failed):
        return {"changed": False}
    return {
        "changed": True,
        "as_of": runs.get("as_of"),
        "cursor": _written(
            until,
            site.address.url,
            {name: state for name, state in told_runs.items() if name in now_runs},
            told_workers & now_workers,
        ),
        "runs_newly_in_trouble": new_runs,
        "runs_out_of_trouble_count": recovered,
        "runs_in_trouble_total": runs.get("total_matching"),
        "workers_newly_lost": new_workers,
        "failures_since_count": failed,
        "newest_failures": fitting(map(failure_of, settled[:MOST_FAILURES]), FAILURES_BYTES),
    } | ({"coverage": coverage_of(runs)} if coverage_of(runs) else {})


def _read(cursor: str | None, url: str) -> tuple[datetime, dict[str, int], set[str]]:
    if not cursor:
        return datetime.now(UTC) - FIRST_LOOK, {}, set()
    found = _CURSOR.fullmatch(cursor.strip())
    if found is None:
        raise RefusedError(f"cursor={cursor[:40]!r} is none: send the one of an earlier answer as it is, or none.")
    at, place, runs, workers = found.groups()
    if place != _short(url):
        raise RefusedError(f"The cursor is of another site than {url}: send one of this site, or none.")
    return (
        datetime.fromtimestamp(int(at) / 1e3, UTC),
        {runs[start : start + 6]: int(runs[start + 6]) for start in range(0, len(runs), 7)},
        {workers[start : start + 6] for start in range(0, len(workers), 6)},
    )


def _written(at: datetime, url: str, runs: dict[str, int], workers: set[str]) -> str:
    return "~".join(
        [
            str(int(at.timestamp() * 1e3)),
            _short(url),
            "".join(f"{name}{state}" for name, state in runs.items()),
            "".join(sorted(workers)),
        ]
    )


def _short(name: str) -> str:
    """Return six letters that stand for an id: of 40 runs two share them once in 20,000 times."""
    return hashlib.blake2b(name.encode(), digest_size=3).hexdigest()
