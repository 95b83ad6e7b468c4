"""Since when requests that a worker holds are overdue. Pure.

What waits is not what hangs. A request that a worker popped and does not run yet is behind the op that runs; one in the
queue is behind what its worker does; one whose worker waits for a GPU turn is behind the holder. Such a request is
overdue when that which it waits for does not move; only what nobody works at is told by its own age. Time in which a
worker was not heard is not counted: a process that was stopped did nothing, and of one that is late nobody knows.
"""

from __future__ import annotations

from dataclasses import dataclass

from telemetry_app.expectations import STUCK_FLOOR_SECONDS, Expectation, expectation, limit_seconds
from telemetry_app.health import Health
from telemetry_app.holder_chain import condition_of, holder_of
from telemetry_app.run_facts import RunFacts, WorkerFact, asked_at, is_outlived, own_workers
from workers_client import wire
from workers_client.wire_worker import CurrentOp, OutstandingWork


@dataclass(frozen=True, slots=True)
class Overdue:
    """Requests that are overdue `since` an instant: nothing moved for `age_seconds`, expected within the limit.

    `waits_since` is from when on their age counts.
    """

    since: float
    waits_since: float
    age_seconds: float
    expected: Expectation
    what: str  # the op that does not move

    @property
    def limit_seconds(self) -> float:
        """The age at which it was overdue."""
        return self.expected.limit_seconds


def overdue(facts: RunFacts, worker: WorkerFact, work: OutstandingWork) -> Overdue | None:
    """Return since when these requests are overdue; None where they are not, or where their age is not known.

    A worker that is gone answers nothing: what it holds is lost, not overdue.
    """
    since = asked_at(facts, worker, work) if worker.is_living else None
    if since is None or facts.now - since <= STUCK_FLOOR_SECONDS:
        return None
    if worker.is_api_server and work.operation != wire.SAMPLE:
        return _in_queue(facts, worker, work, since)
    return _popped(facts, worker, work.operation, since)


def limit_of_current(facts: RunFacts, current: CurrentOp) -> float:
    """Return the age at which an op that runs is overdue, of whichever run it is."""
    return _of_current(facts, current).limit_seconds


def _of_current(facts: RunFacts, current: CurrentOp) -> Expectation:
    operation = current.operation
    if current.run_id == facts.run_id:
        return expectation(operation, facts)
    seconds = facts.expected_seconds.get(operation)
    return Expectation(seconds, facts.expected_from.get(operation, 0), "anywhere", limit_seconds(seconds))


# --- Where the request is -------------------------------------------------------------------------------------
def _in_queue(facts: RunFacts, server: WorkerFact, work: OutstandingWork, since_asked: float) -> Overdue | None:
    """Judge a request that only the API server is known to hold: by the worker of the run that moved last."""
    trainers = [worker for worker in own_workers(facts) if worker.is_living and _may_pop(worker)]
    if not trainers and any(_lost_with_work(facts, worker) for worker in own_workers(facts)):
        return None  # the run is lost, and this waits for what was lost
    if not trainers or (_was_overtaken(facts, since_asked) and not _is_popped(facts, work)):
        return _of_age(facts, server, since_asked, work.operation)
    found = [_popped(facts, worker, work.operation, since_asked) for worker in trainers]
    return None if None in found else max((each for each in found if each), key=lambda each: each.since)


def _popped(facts: RunFacts, worker: WorkerFact, operation: str, since_asked: float) -> Overdue | None:
    """Judge a request that a worker holds: by the op that runs, else by the GPU it waits for, else by its last move."""
    record = worker.record
    if not worker.is_in_ledger:  # samples are answered side by side: each one's age counts
        return _of_age(facts, worker, since_asked, operation)
    if record.current is not None and record.current.started_at is not None:
        started_at = worker.on_redis_clock(record.current.started_at)
        expected = _of_current(facts, record.current)
        return _if_past(facts.now, worker, max(started_at, since_asked), expected, record.current.operation)
    if worker.waits_for_turn and record.turn is not None:
        holder = holder_of(worker, facts.workers)
        moves = holder is not None and not condition_of(holder, facts.now, lambda op: limit_of_current(facts, op))
        waits_since = worker.on_redis_clock(record.turn.requested_at or 0.0)
        return None if moves else _of_age(facts, worker, max(since_asked, waits_since), operation)
    moved_at = worker.on_redis_clock(record.last_progress_at or 0.0)
    return _of_age(facts, worker, max(since_asked, moved_at), operation)


def _lost_with_work(facts: RunFacts, worker: WorkerFact) -> bool:
    holds = any(work.run_id == facts.run_id for work in worker.record.outstanding)
    return _may_pop(worker) and worker.health is Health.LOST and holds and not is_outlived(facts, worker)


def _may_pop(worker: WorkerFact) -> bool:
    """Return whether a worker runs ops: a trainer, or an API server that trains too."""
    return worker.is_in_ledger and (not worker.is_api_server or worker.record.current is not None)


def _is_popped(facts: RunFacts, work: OutstandingWork) -> bool:
    """Return whether the oldest request is held by who popped it, too: then it is in no queue that could pass it by."""
    popped = (held for worker in facts.workers if not worker.is_api_server for held in worker.record.outstanding)
    return any(request_id in held.request_ids for held in popped for request_id in work.request_ids[:1])


def _was_overtaken(facts: RunFacts, since_asked: float) -> bool:
    """Return whether an op of the run that was asked for later has finished: the queue passed this one by."""
    return any(record.enqueued_at is not None and record.enqueued_at > since_asked + 1.0 for record in facts.operations)


def _of_age(facts: RunFacts, worker: WorkerFact, since: float, operation: str) -> Overdue | None:
    return _if_past(facts.now, worker, since, expectation(operation, facts), operation)


def _if_past(now: float, worker: WorkerFact, since: float, expected: Expectation, what: str) -> Overdue | None:
    silent, limit = worker.silent_seconds(since, now), expected.limit_seconds
    age = worker.watched_until(now) - since - silent
    return Overdue(since + limit + silent, since, age, expected, what) if age > limit else None
