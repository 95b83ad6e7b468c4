"""What a run is doing, from facts kept apart. Pure: facts in, one state with its evidence out.

Facts are: the newest ops, the ledger, what each worker holds unanswered and its health. A heartbeat is no progress, a
late one alone is no death, and a poll counts as nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from telemetry_app.health import Health
from telemetry_app.rates import percentile_95
from workers_client import wire
from workers_client.wire_worker import Ledger, OutstandingWork, WorkerRecord

STUCK_FLOOR_SECONDS = 60.0  # no request is overdue before
STUCK_FACTOR = 5.0  # times the 95th percentile of the op's seconds
EXPECTATION_RECORDS = 20  # fewer of an op in this run: the op's seconds anywhere count
PROGRESS_FLOOR_SECONDS = 30.0  # a finish so recent is progress whatever the run's pace
IDLE_SECONDS = 900.0
COUNT_SKEW_SECONDS = 2 * wire.HEARTBEAT_INTERVAL_SECONDS  # counts of two processes are one flush apart, or two
FAILING_OPS = 3  # newest ops of a kind that failed
DIVERGING_OPS = 3  # newest ops of a kind among which one non-finite loss or gradient counts
DIVERGING_METRICS = ("loss", "grad")
_NOTHING_KNOWN = "nothing is known of it but its name"


@dataclass(frozen=True, slots=True)
class WorkerFact:
    """One worker that has to do with the run: its record and its health now."""

    record: WorkerRecord
    health: Health


@dataclass(frozen=True, slots=True)
class RunFacts:
    """All that the state of one run is told from. Instants are unix seconds.

    `operations` are the newest op records, `workers` all workers known (holders of the GPU among them),
    `expected_seconds` the 95th percentile of each op's seconds over all runs, `expected_from` of how many records.
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


@dataclass(frozen=True, slots=True)
class Expectation:
    """What an op is expected to take: the 95th percentile of so many records, of this `run` or of runs `anywhere`.

    An open request of it is overdue when it is older than `limit_seconds`.
    """

    percentile_95_seconds: float | None
    records_count: int
    basis: str
    limit_seconds: float


@dataclass(frozen=True, slots=True)
class Condition:
    """A state that holds, since when (None: not known) and the facts that say so."""

    state: str
    since: float | None
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The first condition by precedence; `also` are the other states that hold."""

    state: str
    since: float | None
    evidence: tuple[str, ...]
    also: tuple[str, ...]


def run_state(facts: RunFacts) -> RunVerdict:
    """Return what the run is doing: lost, stuck, failing, diverging, waiting_for_gpu, queued, sampling, progressing,
    waiting_for_client, idle or finished, the first that holds."""
    conditions = [condition for rule in _RULES for condition in rule(facts)]
    if not conditions:
        conditions = [_at_work(facts) or Condition("idle", facts.last_activity_at, (_NOTHING_KNOWN,))]
    first = conditions[0]
    also = dict.fromkeys(condition.state for condition in conditions[1:] if condition.state != first.state)
    evidence = tuple(text for condition in conditions if condition.state == first.state for text in condition.evidence)
    return RunVerdict(first.state, first.since, evidence, tuple(also))


def overdue_seconds(operation: str, facts: RunFacts) -> float:
    """Return the age at which an open request of this op is overdue: max(60 s, 5 × the 95th percentile)."""
    return expectation(operation, facts).limit_seconds


def expectation(operation: str, facts: RunFacts) -> Expectation:
    """Return what this op is expected to take, and from what that is known."""
    own = [r.elapsed_seconds for r in facts.operations if r.operation == operation and r.elapsed_seconds is not None]
    seconds, count, basis = percentile_95(own), len(own), "run"
    if len(own) < EXPECTATION_RECORDS and facts.expected_seconds.get(operation):
        seconds, basis = facts.expected_seconds[operation], "anywhere"
        count = facts.expected_from.get(operation, 0)
    return Expectation(seconds, count, basis, max(STUCK_FLOOR_SECONDS, STUCK_FACTOR * (seconds or 0.0)))


# --- Facts about the run's workers ----------------------------------------------------------------------------
def _own_workers(facts: RunFacts) -> list[WorkerFact]:
    return [worker for worker in facts.workers if facts.run_id in worker.record.runs]


def _held_work(facts: RunFacts) -> Iterator[tuple[WorkerFact, OutstandingWork]]:
    """Yield unanswered work of the run with the worker that holds it.

    An API server holds a request until its client has the answer, so its own list speaks of the run's open requests
    only while the ledger has some.
    """
    for worker in facts.workers:
        if worker.record.role == wire.Role.API_SERVER.value and not facts.ledger.outstanding_count:
            continue
        for work in worker.record.outstanding:
            if work.run_id == facts.run_id:
                yield worker, work


def _is_open(facts: RunFacts) -> bool:
    return facts.ledger.outstanding_count > 0 or any(True for _ in _held_work(facts))


def _last_finish_at(facts: RunFacts) -> float | None:
    finishes = [record.at for record in facts.operations] + [facts.last_sample_at or 0.0]
    return max(finishes) or None


def _is_held_by_the_living(facts: RunFacts) -> bool:
    return any(worker.health in (Health.ALIVE, Health.LATE) for worker, _ in _held_work(facts))


def _all_exited(facts: RunFacts) -> bool:
    own = [worker for worker in _own_workers(facts) if worker.record.role != wire.Role.API_SERVER.value]
    return bool(own) and all(worker.health is Health.EXITED for worker in own)


# --- One rule a state, in order of precedence -----------------------------------------------------------------
def _lost(facts: RunFacts) -> Iterator[Condition]:
    for worker, work in _held_work(facts):
        if worker.health is Health.LOST and worker.record.role != wire.Role.API_SERVER.value:
            age = facts.now - worker.record.at
            yield Condition(
                "lost",
                worker.record.at,
                (f"{worker.record.worker} stopped {age:.0f} s ago holding {work.count} {work.operation}",),
            )


def _stuck(facts: RunFacts) -> Iterator[Condition]:
    for worker, work in _held_work(facts):
        if work.oldest_at is None or worker.health in (Health.LOST, Health.EXITED):
            continue
        age, limit = facts.now - work.oldest_at, overdue_seconds(work.operation, facts)
        if age > limit:
            text = f"{work.operation} held by {worker.record.worker} is {age:.0f} s old, expected within {limit:.0f} s"
            yield Condition("stuck", work.oldest_at + limit, (text,))


def _failing(facts: RunFacts) -> Iterator[Condition]:
    for operation, newest in _newest_by_operation(facts, FAILING_OPS).items():
        if len(newest) == FAILING_OPS and all(record.status == wire.Status.FAILED.value for record in newest):
            kinds = ", ".join(sorted({record.error_type or "unknown error" for record in newest}))
            yield Condition("failing", newest[0].at, (f"the newest {FAILING_OPS} {operation} failed: {kinds}",))


def _diverging(facts: RunFacts) -> Iterator[Condition]:
    for operation, newest in _newest_by_operation(facts, DIVERGING_OPS).items():
        for record in newest:
            names = [name for name in record.nonfinite if any(word in name.lower() for word in DIVERGING_METRICS)]
            if names:
                step = "" if record.step is None else f" at step {record.step}"
                text = f"{names[0]} of {operation} was {record.nonfinite[names[0]]}{step}"
                yield Condition("diverging", record.at, (text,))
                break


def _waiting_for_gpu(facts: RunFacts) -> Iterator[Condition]:
    waiting = {worker.record.worker for worker, _ in _held_work(facts)}
    for worker in facts.workers:
        turn = worker.record.turn
        if worker.record.worker not in waiting or turn is None or turn.started_at is not None:
            continue
        if worker.health in (Health.ALIVE, Health.LATE):
            text = f"{worker.record.worker} waits for a GPU turn of {turn.workload}; {_holder(facts, worker)}"
            yield Condition("waiting_for_gpu", turn.requested_at, (text,))


def _holder(facts: RunFacts, waiting: WorkerFact) -> str:
    for worker in facts.workers:
        turn = worker.record.turn
        if turn is None or turn.started_at is None or worker.record.worker == waiting.record.worker:
            continue
        if worker.health in (Health.ALIVE, Health.LATE):
            current = worker.record.current
            doing = f" running {current.operation} of {current.run_id}" if current else ""
            return f"{turn.workload} holds it{doing} for {facts.now - turn.started_at:.0f} s"
    return "no holder is known"


def _queued(facts: RunFacts) -> Iterator[Condition]:
    """Requests that nobody popped, and that are older than the counts of two processes can be apart."""
    ledger = facts.ledger
    waiting = ledger.enqueued - max(ledger.popped, ledger.answered, ledger.delivered)
    since = _waiting_since(facts)
    if waiting <= 0 or since is None or facts.now - since <= COUNT_SKEW_SECONDS:
        return
    busy = [w.record for w in _own_workers(facts) if w.record.current and w.health is Health.ALIVE]
    doing = f"; {busy[0].worker} is busy with {busy[0].current.operation}" if busy and busy[0].current else ""
    yield Condition("queued", since, (f"{waiting} requests wait and none popped them{doing}",))


def _waiting_since(facts: RunFacts) -> float | None:
    """Return since when the oldest request waits, as the API servers that live say, else when the newest was enqueued.

    Requests of an API server that is gone wait for nobody: they stay in the ledger, and are no queue.
    """
    servers = [worker for worker in _own_workers(facts) if worker.record.role == wire.Role.API_SERVER.value]
    held = [
        work.oldest_at
        for worker in servers
        for work in worker.record.outstanding
        if worker.health in (Health.ALIVE, Health.LATE) and work.run_id == facts.run_id and work.oldest_at
    ]
    return min(held, default=None if servers else facts.ledger.last_enqueued_at)


def _sampling(facts: RunFacts) -> Iterator[Condition]:
    for worker, work in _held_work(facts):
        if work.operation == wire.SAMPLE and worker.health in (Health.ALIVE, Health.LATE):
            text = f"{work.count} sampling requests are open at {worker.record.worker}"
            yield Condition("sampling", work.oldest_at, (text,))


def _progressing(facts: RunFacts) -> Iterator[Condition]:
    newest = _last_finish_at(facts)
    if newest is None or _all_exited(facts):
        return
    ended = sorted(record.at for record in facts.operations)
    pace = percentile_95([after - before for before, after in itertools.pairwise(ended)])
    age = facts.now - newest
    if age <= max(PROGRESS_FLOOR_SECONDS, STUCK_FACTOR * min(pace or 0.0, IDLE_SECONDS / STUCK_FACTOR)):
        yield Condition("progressing", None, (f"the newest op or sample finished {max(0.0, age):.0f} s ago",))


def _waiting_for_client(facts: RunFacts) -> Iterator[Condition]:
    newest = facts.last_activity_at
    if _is_open(facts) or _all_exited(facts) or newest is None or facts.now - newest >= IDLE_SECONDS:
        return
    yield Condition(
        "waiting_for_client",
        _last_finish_at(facts) or newest,
        (f"all {facts.ledger.answered} requests are answered",),
    )


def _finished(facts: RunFacts) -> Iterator[Condition]:
    if _all_exited(facts) and not _is_open(facts):
        yield Condition("finished", facts.last_activity_at, ("all its workers exited, with nothing open",))


def _idle(facts: RunFacts) -> Iterator[Condition]:
    newest = facts.last_activity_at
    if newest is not None and facts.now - newest >= IDLE_SECONDS and not _is_open(facts) and not _all_exited(facts):
        yield Condition("idle", newest, (f"no activity for {(facts.now - newest) / 60:.0f} min and nothing open",))


def _at_work(facts: RunFacts) -> Condition | None:
    """Return the state of a run whose open requests are not overdue, though nothing of it finished lately."""
    newest = facts.last_activity_at
    is_fresh = newest is not None and facts.now - newest <= STUCK_FLOOR_SECONDS
    if not _is_held_by_the_living(facts) and not (facts.ledger.outstanding_count and is_fresh):
        return None
    held = [f"{work.count} {work.operation} held by {worker.record.worker}" for worker, work in _held_work(facts)]
    return Condition("progressing", None, ("its open requests are not overdue", *held))


def _open_without_a_holder(facts: RunFacts) -> Iterator[Condition]:
    """Requests that the ledger counts and no worker that lives lists: popped by one that is gone."""
    newest = facts.last_activity_at
    unheld = facts.ledger.outstanding_count and not _is_held_by_the_living(facts)
    if unheld and newest is not None and facts.now - newest > STUCK_FLOOR_SECONDS:
        text = f"{facts.ledger.outstanding_count} requests are unanswered and no worker holds them"
        yield Condition("stuck", newest, (text,))


def _newest_by_operation(facts: RunFacts, count: int) -> dict[str, list[wire.OpRecord]]:
    """Return the newest `count` records of each op, oldest first."""
    by_operation: dict[str, list[wire.OpRecord]] = {}
    for record in sorted(facts.operations, key=lambda record: record.at):
        by_operation.setdefault(record.operation, []).append(record)
    return {operation: records[-count:] for operation, records in by_operation.items()}


_RULES = (
    _lost, _stuck, _open_without_a_holder, _failing, _diverging, _waiting_for_gpu, _queued, _sampling, _progressing,
    _waiting_for_client, _idle, _finished,
)  # fmt: skip
