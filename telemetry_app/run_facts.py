"""The facts that the state of one run is told from, kept apart. Pure.

Facts are: the newest ops, the ledger, what each worker holds unanswered and its health. A heartbeat is no progress, a
late one alone is no death, and a poll counts as nothing. Instants are unix seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from telemetry_app.health import Health
from workers_client import wire
from workers_client.wire_values import LAST_INSTANT
from workers_client.wire_worker import Ledger, OutstandingWork, WorkerRecord

STAMP_SECONDS = 0.001  # between the stamp of a request and the ledger's, of one call
PASSED_BY_SECONDS = 60.0  # a client that asked on for so long does not wait for what it asked before
NEWEST_RECORDS = 64  # op records that a state is told from
LIVING = (Health.ALIVE, Health.LATE)
GONE = (Health.LOST, Health.EXITED)
DELETING_OPERATIONS = frozenset({"unload_model", "delete_model"})  # the last op of a run, where its client says goodbye
# Roles whose requests the ledger does not count: it counts what trainers pop, not what is sampled.
SAMPLING_ROLES = (wire.Role.SAMPLER.value, wire.Role.DISPATCHER.value)


@dataclass(frozen=True, slots=True)
class WorkerFact:
    """One worker that has to do with the run: its record and its health now.

    `silences` are the spans (from, to; Redis's clock) in which it was not heard and after which it came back: a process
    that was stopped and went on did nothing meanwhile.
    """

    record: WorkerRecord
    health: Health
    silences: tuple[tuple[float, float], ...] = ()

    @property
    def name(self) -> str:
        """The worker's id."""
        return self.record.worker

    @property
    def is_api_server(self) -> bool:
        """Whether it is an API server, which holds a request until its client has the answer."""
        return self.record.role == wire.Role.API_SERVER.value

    @property
    def is_in_ledger(self) -> bool:
        """Whether the ledger counts what it holds."""
        return self.record.role not in SAMPLING_ROLES

    @property
    def is_living(self) -> bool:
        """Whether it is alive, or late at worst."""
        return self.health in LIVING

    @property
    def waits_for_turn(self) -> bool:
        """Whether it asked for a GPU turn and has not got it."""
        return self.record.turn is not None and self.record.turn.started_at is None

    @property
    def heard_at(self) -> float:
        """When its record was written, by Redis's clock."""
        return self.on_redis_clock(self.record.at)

    def on_redis_clock(self, at: float) -> float:
        """Bring an instant of the worker to Redis's clock, within what can be written as a time."""
        return min(max(0.0, at - (self.record.clock_offset_seconds or 0.0)), LAST_INSTANT)

    def watched_until(self, now: float) -> float:
        """Return until when one knows what it did: of one that is late, until it was heard last."""
        return now if self.health is Health.ALIVE else min(now, self.heard_at)

    def silent_seconds(self, since: float, until: float) -> float:
        """Return how long it was not heard between two instants of Redis's clock."""
        return sum(max(0.0, min(end, until) - max(start, since)) for start, end in self.silences)


@dataclass(frozen=True, slots=True)
class Learned:
    """What stored records of a run say of one op: the 95th percentile of its seconds, and of how many records.

    Where records say how much work they were, `limit_percentile_seconds` is that of the slowest size of which there are
    enough: a batch that is rare and large is normal too, and how large an open request is nobody says.
    """

    percentile_95_seconds: float
    records_count: int
    limit_percentile_seconds: float


@dataclass(frozen=True, slots=True)
class RunFacts:
    """All that the state of one run is told from. Instants are unix seconds by Redis's clock.

    `operations` are the newest op records, `workers` all workers known (holders of the GPU among them),
    `expected_seconds` the 95th percentile of each op's seconds over all runs, `expected_from` of how many records,
    `expected_of_model` the same over runs of this one's base model, `learned` what stored records of this run say,
    `sample_seconds` the longest of each newest group of samples.
    """

    run_id: str
    now: float
    last_activity_at: float | None
    ledger: Ledger
    operations: Sequence[wire.OpRecord] = ()
    last_sample_at: float | None = None
    workers: Sequence[WorkerFact] = ()
    expected_seconds: Mapping[str, float] = field(default_factory=dict)
    expected_from: Mapping[str, int] = field(default_factory=dict)
    expected_of_model: Mapping[str, Learned] = field(default_factory=dict)
    learned: Mapping[str, Learned] = field(default_factory=dict)
    sample_seconds: Sequence[float] = ()


def of_newest_records(facts: RunFacts) -> RunFacts:
    """Return the same facts with the newest 64 op records alone: as many as lists of runs read, so that one run has one
    state wherever it is shown."""
    if len(facts.operations) <= NEWEST_RECORDS:
        return facts
    return replace(facts, operations=sorted(facts.operations, key=lambda record: record.at)[-NEWEST_RECORDS:])


def own_workers(facts: RunFacts) -> list[WorkerFact]:
    """Return the workers that name the run."""
    return [worker for worker in facts.workers if facts.run_id in worker.record.runs]


def held_work(facts: RunFacts) -> Iterator[tuple[WorkerFact, OutstandingWork]]:
    """Yield unanswered work of the run with the worker that holds it.

    An API server holds a request until its client has the answer, so its own list speaks of the run's open requests
    only while the ledger has some.
    """
    for worker in facts.workers:
        if worker.is_api_server and not facts.ledger.outstanding_count:
            continue
        for work in worker.record.outstanding:
            if work.run_id == facts.run_id:
                yield worker, work


def asked_at(facts: RunFacts, worker: WorkerFact, work: OutstandingWork) -> float | None:
    """Return when the oldest of these requests was asked for that still waits here; None where none does, or none says
    when.

    An API server also holds requests of workers that are gone, whose own lists tell of them, and answered ones that no
    client has fetched: where its oldest is one of these, no more is known than when the newest request came.
    """
    if work.oldest_at is None:
        return None
    oldest_at = worker.on_redis_clock(work.oldest_at)
    if not worker.is_api_server:
        return oldest_at
    told = {record.request_id for record in facts.operations}
    for other in facts.workers:
        if not other.is_api_server and other.health in GONE:
            told.update(each for held in other.record.outstanding for each in held.request_ids)
    if not work.request_ids or work.request_ids[0] not in told:
        return oldest_at
    if told.issuperset(work.request_ids) and work.count <= len(work.request_ids):
        return None
    return max(oldest_at, facts.ledger.last_enqueued_at or 0.0)


def is_open(facts: RunFacts) -> bool:
    """Return whether a request of the run is open that the run can still wait for."""
    lost = {worker.name for worker in facts.workers if is_outlived(facts, worker)}
    orphans = sum(work.count for worker, work in held_work(facts) if worker.name in lost and worker.is_in_ledger)
    others = any(not worker.is_api_server and worker.name not in lost for worker, _ in held_work(facts))
    counted = facts.ledger.outstanding_count > orphans
    return (counted and not is_forgotten(facts) and not _is_passed_by(facts)) or others


def newest_asked_that_ran(facts: RunFacts) -> float | None:
    """Return when the newest request was asked for whose op has ended."""
    return max((record.enqueued_at for record in facts.operations if record.enqueued_at is not None), default=None)


def is_caught_up(facts: RunFacts) -> bool:
    """Return whether the newest request of the run has run: of a queue that is first in, first out nothing is left."""
    newest, ran = facts.ledger.last_enqueued_at, newest_asked_that_ran(facts)
    return newest is not None and ran is not None and ran > newest - STAMP_SECONDS


def _is_passed_by(facts: RunFacts) -> bool:
    """Return whether the client went on, for a minute at least, after all that API servers still list.

    Requests that a killed worker had popped, or that never got into the queue, stay in these lists and in the ledger.
    """
    if not is_caught_up(facts):
        return False
    newest = facts.ledger.last_enqueued_at or 0.0
    listed = [
        asked_at(facts, server, work)
        for server, work in held_work(facts)
        if server.is_api_server and server.is_living and work.operation != wire.SAMPLE
    ]
    return bool(listed) and all(at is None or at < newest - PASSED_BY_SECONDS for at in listed)


def is_forgotten(facts: RunFacts) -> bool:
    """Return whether what the ledger still counts as open is of the past: no client waits for any of it.

    A living API server of the run lists whatever a client waits for; where none lists anything and the newest request
    was answered, the rest was orphaned so long ago that nobody remembers who held it.
    """
    servers = [worker for worker in own_workers(facts) if worker.is_api_server and worker.is_living]
    ledger = facts.ledger
    if not servers or ledger.last_enqueued_at is None or ledger.last_answered_at is None:
        return False
    is_listed = any(work.run_id == facts.run_id for server in servers for work in server.record.outstanding)
    return not is_listed and ledger.last_answered_at >= ledger.last_enqueued_at


def is_outlived(facts: RunFacts, worker: WorkerFact) -> bool:
    """Return whether a worker is gone, and another has done the same work of the run since: the run went on.

    What it held stays orphaned in the lists of requests; the run does not wait for it.
    """
    if worker.health not in GONE:
        return False
    if not worker.is_in_ledger:
        return facts.last_sample_at is not None and facts.last_sample_at > worker.heard_at
    return any(
        record.status == wire.Status.SUCCEEDED.value
        and record.worker not in (None, worker.name)
        and record.role in (None, worker.record.role)
        and (record.started_at or record.at) > worker.heard_at
        for record in facts.operations
    )


def last_finish_at(facts: RunFacts) -> float | None:
    """Return when an op of the run finished last, or a sample was answered."""
    return max([record.at for record in facts.operations] + [facts.last_sample_at or 0.0]) or None


def is_held_by_the_living(facts: RunFacts) -> bool:
    """Return whether a worker that lives holds a request of the run."""
    return any(worker.is_living for worker, _ in held_work(facts))


def why_ended(facts: RunFacts) -> str | None:
    """Return why nothing more is to come: the model was deleted, or all workers but API servers exited cleanly."""
    newest = max(facts.operations, key=lambda record: record.at, default=None)
    if newest and newest.operation in DELETING_OPERATIONS and newest.status == wire.Status.SUCCEEDED.value:
        return f"its model was deleted ({newest.operation}), with nothing open"
    own = [worker for worker in own_workers(facts) if not worker.is_api_server]
    if own and all(worker.health is Health.EXITED for worker in own):
        return "all its workers exited, with nothing open"
    return None


def newest_by_operation(facts: RunFacts, count: int) -> dict[str, list[wire.OpRecord]]:
    """Return the newest `count` records of each op, oldest first."""
    by_operation: dict[str, list[wire.OpRecord]] = {}
    for record in sorted(facts.operations, key=lambda record: record.at):
        by_operation.setdefault(record.operation, []).append(record)
    return {operation: records[-count:] for operation, records in by_operation.items()}
