"""What workers say goes on right now, for the step clock. Pure; instants are unix seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from telemetry_app import step_clock
from telemetry_app.health import Health
from telemetry_app.run_activity import Life, part_of
from telemetry_app.run_state import WorkerFact
from telemetry_app.wrong_clocks import correction_of_records
from workers_client import wire
from workers_client.wire_worker import WorkerRecord

SERVING = "trainer"
NOISE_SECONDS = 0.05  # an offset is measured in a round trip to Redis: one so small is what that took on a busy machine
API_SERVER = "api_server"
_HEARD = (Health.ALIVE, Health.LATE)


@dataclass(slots=True)
class OpenActivity:
    """What goes on of one run: claims (part, start, end) on Redis's clock, and turns on their workers' clocks."""

    claims: list[tuple[str, float, float]] = field(default_factory=list)
    turns: list[wire.TurnRecord] = field(default_factory=list)


def open_activity(
    run_id: str, workers: Iterable[WorkerFact], *, enqueued: Sequence[float], is_waiting: bool
) -> OpenActivity:
    """Return what is open of a run, up to the instant up to which all that work for it have told what they did.

    What a lost worker held is open until the client sent something again: `enqueued` says when that was, oldest first.
    `is_waiting` tells whether the ledger has requests without an answer: an API server also names what was answered
    and not fetched.
    """
    found = OpenActivity()
    facts = list(workers)
    heard = [_seen(fact.record) for fact in facts if fact.health is Health.ALIVE and run_id in fact.record.runs]
    until = min(heard, default=0.0)
    for fact in facts:
        found.claims += _claims(run_id, fact.record, is_waiting=is_waiting)
        if fact.health not in _HEARD:
            found.claims += _orphaned(run_id, fact.record, enqueued, until)
        elif fact.record.turn is not None:
            found.turns.append(_turn_until(fact.record, fact.record.at))
    found.claims = [(part, start, min(end, until)) for part, start, end in found.claims if start < until]
    return found


def life_of(fact: WorkerFact) -> Life:
    """Return when a worker lived, on Redis's clock; one that was not heard of for long lived to its last heartbeat."""
    record, offset = fact.record, correction(fact.record.clock_offset_seconds)
    started_at = None if record.started_at is None else record.started_at - offset
    if record.exited_at is not None:
        return Life(record.worker, started_at, record.exited_at - offset)
    return Life(record.worker, started_at, None if fact.health in _HEARD else _seen(record))


def offsets_of(workers: Iterable[WorkerRecord]) -> dict[str, float]:
    """Return by how many seconds the records of each worker are ahead of Redis's clock, where they are."""
    found = {record.worker: correction_of_records(correction(record.clock_offset_seconds)) for record in workers}
    return {worker: offset for worker, offset in found.items() if offset}


def correction(offset_seconds: float | None) -> float:
    """Return what to take off a clock that was measured to be so far ahead: nothing of what is noise."""
    return offset_seconds if offset_seconds is not None and abs(offset_seconds) > NOISE_SECONDS else 0.0


def _seen(record: WorkerRecord) -> float:
    return record.at - correction(record.clock_offset_seconds)


def _claims(run_id: str, record: WorkerRecord, *, is_waiting: bool) -> Iterator[tuple[str, float, float]]:
    offset, seen = correction(record.clock_offset_seconds), _seen(record)
    current = record.current
    if current is not None and current.run_id == run_id and current.started_at is not None:
        yield part_of(current.operation), current.started_at - offset, seen
    for work in record.outstanding:
        if work.run_id != run_id or work.oldest_at is None or (record.role == API_SERVER and not is_waiting):
            continue
        part = step_clock.SAMPLING if part_of(work.operation) == step_clock.SAMPLING else step_clock.QUEUE
        yield part, work.oldest_at - offset, seen


def _orphaned(
    run_id: str, record: WorkerRecord, enqueued: Sequence[float], until: float
) -> Iterator[tuple[str, float, float]]:
    seen = _seen(record)
    if record.role != API_SERVER and any(work.run_id == run_id for work in record.outstanding):
        yield step_clock.NO_WORKER, seen, next((at for at in enqueued if at > seen), max(until, seen))


def turns_now(workers: Iterable[WorkerFact], clock: float) -> list[wire.TurnRecord]:
    """Return the turns that workers hold or wait for now, as if they ended now."""
    return [_turn_until(fact.record, clock) for fact in workers if fact.record.turn and fact.health in _HEARD]


def _turn_until(record: WorkerRecord, at: float) -> wire.TurnRecord:
    """Return the turn that a worker waits for or holds, as if it ended at an instant."""
    turn, current = record.turn, record.current
    assert turn is not None  # the caller looked
    runs = dict.fromkeys(work.run_id for work in record.outstanding)
    ops = [wire.TurnOp("", at, at, run_id=run_id) for run_id in runs]  # no time, but whom it works for
    if turn.started_at is not None and current is not None and current.started_at is not None:
        ops.append(wire.TurnOp(current.operation, current.started_at, at, run_id=current.run_id))
    return wire.TurnRecord(
        turn.workload,
        at if turn.started_at is None else min(turn.started_at, at),
        at,
        id=f"{record.worker}:now",
        worker=record.worker,
        node=record.node,
        requested_at=turn.requested_at,
        ops=tuple(ops),
    )
