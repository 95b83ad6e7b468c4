"""A run and a time range as a trace: who waited for what, on the same time line as the neighbours' turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import IO, Any

from openrl_inspect.exceptions import InspectError, NotFoundError
from openrl_inspect.export.trace_events import Slice, trace_events
from openrl_inspect.instants import unix_seconds
from openrl_inspect.site import Answer, Site, results_of, run_path

MOST_RECORDS = 20_000  # op records, and turns of each run: a page of the viewer that still moves
MOST_NEIGHBOURS = 10
Opener = Callable[[], AbstractContextManager[IO[bytes]]]


async def write_trace(site: Site, run_id: str, span: dict[str, Any], opener: Opener) -> str:
    """Write a trace of what ended within `span` (`since`, `until`); returns how much that was, in words.

    Raises:
        InspectError: as `Site.get`, or nothing happened in that time.
    """
    operations, turns = await asyncio.gather(
        _records(site, run_path(run_id, "/operations"), span), _records(site, run_path(run_id, "/turns"), span)
    )
    others, told = await _neighbours_turns(site, run_id, turns, span)
    slices = [
        *_operations(run_id, operations),
        *(one for turn in turns for one in _turn(f"GPU turns of {run_id}", turn)),
        *(one for process, turn in others for one in _turn(process, turn)),
    ]
    if not slices:
        raise InspectError(f"Nothing of {run_id} ended between {span['since']} and {span['until'] or 'now'}.")
    events = trace_events(slices)
    with opener() as output:
        output.write(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, ensure_ascii=False).encode())
        output.flush()
    cut = ", the newest" if max(len(operations), len(turns)) >= MOST_RECORDS else ""
    return f"{len(operations):,} ops and {len(turns):,} turns{cut}, {told}"


async def _records(site: Site, path: str, span: dict[str, Any]) -> list[Answer]:
    return [record async for page in site.pages(path, limit=MOST_RECORDS, **span) for record in results_of(page)]


# --- Neighbours -----------------------------------------------------------------------------------------------
async def _neighbours_turns(
    site: Site, run_id: str, turns: list[Answer], span: dict[str, Any]
) -> tuple[list[tuple[str, Answer]], str]:
    """Return the turns of others on the run's devices, each with the process it is drawn in, and what they are."""
    try:
        every = await _records(site, "/turns", span)
    except NotFoundError:
        return await _turns_of_holders(site, run_id, turns, span)
    nodes = {turn.get("node") for turn in turns}
    others = [turn for turn in every if run_id not in (turn.get("run_ids") or ())]
    found = [turn for turn in others if _shares_a_device(turn, nodes)]
    cut = ", of the newest of all" if len(every) >= MOST_RECORDS else ""
    return [(_process_of(turn), turn) for turn in found], f"{len(found):,} turns of neighbours{cut}"


async def _turns_of_holders(
    site: Site, run_id: str, turns: list[Answer], span: dict[str, Any]
) -> tuple[list[tuple[str, Answer]], str]:
    """Do the same at a site that does not list the turns of all: of the runs that this one waited for."""

    async def turns_of(neighbour: str) -> list[Answer]:
        try:
            return await _records(site, run_path(neighbour, "/turns"), span)
        except NotFoundError:  # removed meanwhile
            return []

    neighbours = _holders(turns, run_id)
    others = await asyncio.gather(*map(turns_of, neighbours))
    found = [
        (f"GPU turns of neighbour {neighbour}", turn)
        for neighbour, theirs in zip(neighbours, others, strict=True)
        for turn in theirs
    ]
    told = f"{len(found):,} turns of the {len(neighbours)} runs it waited for longest"
    return found, f"{told} (the site is older and does not list turns in which no op of a run ran)"


def _shares_a_device(turn: Answer, nodes: set[Any]) -> bool:
    """Return whether a turn is on one of these nodes; turns that name none may be, and so may all of a run without."""
    return not nodes or None in nodes or turn.get("node") in (None, *nodes)


def _process_of(turn: Answer) -> str:
    runs = turn.get("run_ids") or []
    return f"GPU turns of neighbour {runs[0] if len(runs) == 1 else turn.get('workload')}"


def _holders(turns: Iterable[Answer], run_id: str) -> list[str]:
    """Return the runs whose turns this run waited for, the longest waits first."""
    waited: dict[str, float] = {}
    for turn in turns:
        for holder in turn.get("waited_for") or ():
            for neighbour in holder.get("run_ids") or ():
                waited[neighbour] = waited.get(neighbour, 0.0) + float(holder.get("seconds") or 0)
    waited.pop(run_id, None)
    return sorted(waited, key=lambda neighbour: (-waited[neighbour], neighbour))[:MOST_NEIGHBOURS]


# --- Slices ---------------------------------------------------------------------------------------------------
def _operations(run_id: str, records: Iterable[Answer]) -> Iterable[Slice]:
    for record in records:
        enqueued, started, ended = (unix_seconds(record.get(name)) for name in ("enqueued_at", "started_at", "at"))
        told = {
            name: record[name]
            for name in ("id", "request_id", "step", "status", "error_type", "tokens", "metrics", "trace_id")
            if record.get(name) not in (None, {})
        }
        name, process = str(record.get("operation")), f"Ops of {run_id}"
        if enqueued is not None and started is not None and started > enqueued:
            yield Slice(process, "in the queue", name, enqueued, started, "queue", told)
        if started is not None and ended is not None:
            shown = f"{name} ({record['status']})" if record.get("status") not in (None, "succeeded") else name
            yield Slice(process, str(record.get("worker") or "ops"), shown, started, ended, "op", told)


def _turn(process: str, turn: Answer) -> Iterable[Slice]:
    workload = str(turn.get("workload"))
    asked, started, ended = (unix_seconds(turn.get(name)) for name in ("requested_at", "started_at", "ended_at"))
    if started is None or ended is None:
        return
    told = {"id": turn.get("id"), "worker": turn.get("worker"), "switch_seconds": turn.get("switch_seconds")}
    if asked is not None and started > asked:
        waited = turn.get("waited_for") or []
        holder = waited[0].get("workload") if waited else None
        name = f"waits for {holder}" if holder else "waits"
        yield Slice(process, f"{workload}: waits", name, asked, started, "wait", {**told, "waited_for": waited})
    yield Slice(process, f"{workload}: turns", "turn", started, ended, "turn", told)
    for op in turn.get("operations") or ():
        begun, over = unix_seconds(op.get("started_at")), unix_seconds(op.get("ended_at"))
        if begun is not None and over is not None:
            inside = {name: op[name] for name in ("run_id", "count", "status", "request_id") if name in op}
            yield Slice(process, f"{workload}: ops in turns", str(op.get("operation")), begun, over, "op", inside)
