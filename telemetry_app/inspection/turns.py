"""A run's GPU turns: how long each waited and held the device, what ran inside, and who held it meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from telemetry_app import readers
from telemetry_app.exceptions import HistoryUnavailableError
from telemetry_app.facts import known_workers
from telemetry_app.gpu_turns import SWITCHES, Holder, TurnsByEnd
from telemetry_app.health import Health
from telemetry_app.inspection.coverage import run_coverage, source_word
from telemetry_app.inspection.records import COUNT_LIMIT
from telemetry_app.inspection.sources import RunSources, history, or_none_where_live_is_out, run_sources
from telemetry_app.inspection.turn_pages import Position, TurnFilter, cut, key_of, op_fields, stored_page, times_of
from telemetry_app.inspection.turn_sources import LiveTurns, new_turns, stored_turns_between
from telemetry_app.instants import rfc3339
from telemetry_app.models import Turn, Worker
from telemetry_app.run_state import WorkerFact
from workers_client import wire
from workers_client.wire_worker import WorkerRecord

DEVICE_SETTING = "CUDA_VISIBLE_DEVICES"  # which of a node's devices a worker sees
HOLDING_SECONDS = 86_400.0  # of a longer wait the end is looked at: one from 1970 must not read all there is
HOLDING_TURNS = 5_000  # newest stored turns that are looked at for who held the device


@dataclass(slots=True)
class TurnsPage:
    """One page of a run's turns, newest first, and the turns that its workers wait for or hold right now."""

    run_id: str
    results: list[dict[str, Any]]
    current: list[dict[str, Any]]
    next_position: Position | None
    total_matching: int
    is_total_capped: bool
    coverage: dict[str, Any]


def run_turns(run_id: str, wanted: TurnFilter, after: Position | None, size: int, *, now: float) -> TurnsPage:
    """Return a page of the turns in which ops of a run ran.

    Raises:
        NotFoundError, LiveDataUnavailableError, HistoryUnavailableError: see `run_sources`.
    """
    sources = run_sources(run_id)
    live = new_turns() if sources.live is not None else LiveTurns(is_live=False, has_history=sources.has_history)
    live.has_history &= sources.has_history
    fresh = [turn for turn in live.records if _is_of(turn, sources.run_id) and wanted.admits(turn)]
    stored, stored_count = _stored(sources, live, wanted, after, size)
    page, following = cut(fresh, stored, after, size)
    total = stored_count + len(fresh)
    waited = TurnsByEnd(_others(page, live))
    workers = or_none_where_live_is_out(readers.read_workers) if sources.live is not None else None
    devices = _devices({turn.worker for turn in page if turn.worker}, workers, sources)
    shown = {key_of(turn) for turn in page}
    return TurnsPage(
        run_id=sources.run_id,
        results=[
            turn_fields(turn, sources.run_id, waited.holders(turn), devices.get(turn.worker or "")) for turn in page
        ],
        current=_current(sources.run_id, workers, now) if workers else [],
        next_position=following,
        total_matching=min(total, COUNT_LIMIT),
        is_total_capped=total > COUNT_LIMIT,
        coverage={
            **run_coverage(
                sources,
                workers.records.values() if workers else (),
                source=source_word(
                    live=live.is_live and (not shown or any(key_of(turn) in shown for turn in fresh)),
                    stored=any(key_of(turn) in shown for turn in stored) or not live.is_live,
                ),
            ),
            "malformed_turns": live.malformed_count,
        },
    )


def _devices(names: set[str], workers: readers.LiveWorkers | None, sources: RunSources) -> dict[str, str]:
    """Return what the settings of these workers say of their device, from Redis, and from history of those gone."""
    live = workers.records if workers else {}
    found: dict[str, Any] = {name: _device_of(live[name]) for name in names & live.keys()}
    if names - live.keys() and sources.has_history:
        rows = Worker.objects.filter(worker__in=names - live.keys()).order_by()
        try:
            found |= history(lambda: dict(rows.values_list("worker", f"record__settings__{DEVICE_SETTING}")))
        except HistoryUnavailableError:
            sources.has_history = False
    return {name: device for name, device in found.items() if isinstance(device, str)}


def _is_of(turn: wire.TurnRecord, run_id: str) -> bool:
    return any(op.run_id == run_id for op in turn.ops)


def _stored(
    sources: RunSources, live: LiveTurns, wanted: TurnFilter, after: Position | None, size: int
) -> tuple[list[wire.TurnRecord], int]:
    """Return the stored turns of a page, one more where there are more, and how many match (up to the limit)."""
    if not live.has_history:
        sources.has_history = False
        return [], 0
    try:
        return stored_page(wanted.apply(Turn.objects.filter(runs__contains=[sources.run_id])), after, size)
    except HistoryUnavailableError:
        sources.has_history = live.has_history = False
        return [], 0


def _others(page: Sequence[wire.TurnRecord], live: LiveTurns) -> list[wire.TurnRecord]:
    """Return the turns that may have held the device while those of the page waited: of both sources."""
    waits = [(turn.requested_at, turn.started_at) for turn in page if turn.requested_at is not None]
    if not waits or not live.has_history:
        return live.records
    end = max(end for _, end in waits)
    start = max(min(start for start, _ in waits), min(end for _, end in waits) - HOLDING_SECONDS)
    try:
        return [*stored_turns_between(start, end, limit=HOLDING_TURNS), *live.records]
    except HistoryUnavailableError:
        return live.records


# --- What goes on now -----------------------------------------------------------------------------------------
def _current(run_id: str, workers: readers.LiveWorkers, now: float) -> list[dict[str, Any]]:
    """Return the turns that workers which hold requests of the run wait for or hold, longest asked for first."""
    clock = workers.redis_time or now
    facts = [fact for fact in known_workers(workers, clock) if fact.health in (Health.ALIVE, Health.LATE)]
    found = [_current_fields(fact, facts, clock) for fact in facts if fact.record.turn and _works_for(fact, run_id)]
    return sorted(found, key=lambda fields: (fields["requested_at"] or fields["started_at"] or "", fields["worker"]))


def _works_for(fact: WorkerFact, run_id: str) -> bool:
    current = fact.record.current
    return (current is not None and current.run_id == run_id) or any(
        work.run_id == run_id for work in fact.record.outstanding
    )


def _current_fields(fact: WorkerFact, facts: Iterable[WorkerFact], now: float) -> dict[str, Any]:
    turn = fact.record.turn
    assert turn is not None  # the caller looked
    end = now if turn.started_at is None else turn.started_at
    return {
        "workload": turn.workload,
        "worker": fact.record.worker,
        "device": _device_of(fact.record),
        "requested_at": rfc3339(turn.requested_at),
        "started_at": rfc3339(turn.started_at),
        "wait_seconds": None if turn.requested_at is None else max(0.0, end - turn.requested_at),
        "hold_seconds": None if turn.started_at is None else max(0.0, now - turn.started_at),
        "held_by": [] if turn.started_at is not None else _holding_now(fact, facts),
    }


def _device_of(record: WorkerRecord) -> str | None:
    device = record.settings.get(DEVICE_SETTING)
    return device if isinstance(device, str) else None


def _holding_now(waiting: WorkerFact, facts: Iterable[WorkerFact]) -> list[dict[str, Any]]:
    holders = []
    for fact in facts:
        turn, current = fact.record.turn, fact.record.current
        if turn is None or turn.started_at is None or fact is waiting:
            continue
        if fact.record.node and waiting.record.node and fact.record.node != waiting.record.node:
            continue
        holders.append(
            {
                "workload": turn.workload,
                "worker": fact.record.worker,
                "started_at": rfc3339(turn.started_at),
                "run_id": current.run_id if current else None,
                "operation": current.operation if current else None,
            }
        )
    return sorted(holders, key=lambda holder: (holder["started_at"] or "", holder["worker"] or ""))


# --- Fields of the answer -------------------------------------------------------------------------------------
def turn_fields(turn: wire.TurnRecord, run_id: str, holders: Iterable[Holder], device: str | None) -> dict[str, Any]:
    """Return one turn as lists show it; `device` is what its worker's settings say of it."""
    own = [op for op in turn.ops if op.run_id == run_id]
    others = [op for op in turn.ops if op.run_id != run_id and op.name not in SWITCHES]
    return {
        "id": turn.identity,
        "workload": turn.workload,
        "role": turn.role,
        "worker": turn.worker,
        "node": turn.node,
        "device": device,
        **times_of(turn),
        "operations": [op_fields(op) for op in own],
        "other_operations_count": sum(op.count for op in others),
        "waited_for": [_holder_fields(holder) for holder in holders],
    }


def _holder_fields(holder: Holder) -> dict[str, Any]:
    return {
        "workload": holder.workload,
        "worker": holder.worker,
        "seconds": holder.seconds,
        "run_ids": sorted(holder.run_ids),
        "operations": sorted(holder.operations),
    }
