"""What is wrong with a run beside its state: each finding with its evidence. Pure, and told from the newest records.

A finding holds while the records that show it are among the newest; none is told of counts that two processes may still
write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from telemetry_app.expectations import STUCK_FLOOR_SECONDS, limit_seconds
from telemetry_app.plain_words import counted, span_words
from telemetry_app.queue_wait import waiting_count, waiting_since
from telemetry_app.rates import percentile_95
from telemetry_app.run_facts import RunFacts, WorkerFact, own_workers
from telemetry_app.run_state import Evidence
from workers_client import wire

STEADY_OPS = 5  # newest ops whose metric has to say the same: one zero is chance
GRADIENT = "grad"
VANISHED = 1e-8  # a gradient norm of a network that learns is never so small
VANISHED_SHARE = 1e-4  # … nor is it so small a part of what this run's own was
TWICE_SECONDS = 3_600.0  # a request that ran twice longer ago is history
SHOWN = 10  # records or requests that one finding names


class Code(StrEnum):
    EXECUTED_TWICE = "executed_twice"
    ANSWERED_NOT_DELIVERED = "answered_not_delivered"
    ENQUEUED_BESIDE_IDLE_WORKER = "enqueued_beside_idle_worker"
    LOSS_IS_ZERO = "loss_is_zero"
    GRADIENT_VANISHED = "gradient_vanished"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, since when, and the fact that says so; `count` ops or requests show it."""

    code: Code
    since: float
    count: int
    evidence: Evidence


def findings_of(facts: RunFacts) -> list[Finding]:
    """Return what is wrong beside the state, one of each kind at most."""
    return [finding for rule in _RULES for finding in rule(facts)]


# --- One rule a finding ---------------------------------------------------------------------------------------
def _executed_twice(facts: RunFacts) -> Iterator[Finding]:
    """Requests whose op ran twice to its end: one that was answered without running has no elapsed time."""
    ran: dict[tuple[str, str], dict[str, wire.OpRecord]] = {}
    for record in facts.operations:
        if record.request_id and record.elapsed_seconds is not None and record.status != wire.Status.CANCELLED.value:
            ran.setdefault((record.request_id, record.operation), {})[record.identity] = record
    twice = [sorted(found.values(), key=lambda record: record.at) for found in ran.values() if len(found) > 1]
    twice = [records for records in twice if facts.now - records[1].at <= TWICE_SECONDS]
    if not twice:
        return
    first, second = twice[0][0], twice[0][1]
    text = (
        f"{first.operation} of request {first.request_id} ran {len(twice[0])} times: "
        f"{_by(first)} and, {span_words(max(0.0, second.at - first.at))} later, {_by(second)}"
    )
    if len(twice) > 1:
        text += f"; {counted(len(twice) - 1, 'more request', 'more requests')} did too"
    ids = tuple(record.identity for records in twice for record in records)
    requests = tuple(str(records[0].request_id) for records in twice)
    evidence = Evidence(text, ids[: 2 * SHOWN], requests[:SHOWN], second.worker, second.operation)
    yield Finding(Code.EXECUTED_TWICE, min(records[1].at for records in twice), len(twice), evidence)


def _answered_not_delivered(facts: RunFacts) -> Iterator[Finding]:
    """Requests that a living API server holds for its client though their answers have been there for a minute."""
    done = {record.request_id: record.at for record in facts.operations if record.request_id}
    is_all_answered = not facts.ledger.outstanding_count
    waiting: dict[str, float] = {}
    for server in own_workers(facts):
        if not server.is_api_server or not server.is_living:
            continue
        for work in server.record.outstanding:
            if work.run_id != facts.run_id or work.operation == wire.SAMPLE:
                continue
            for request_id in work.request_ids:
                answered_at = done.get(request_id) or (facts.ledger.last_answered_at if is_all_answered else None)
                if answered_at and facts.now - answered_at > STUCK_FLOOR_SECONDS:
                    waiting[request_id] = answered_at
    if waiting:
        since = min(waiting.values())
        text = (
            f"{counted(len(waiting), 'answer is', 'answers are')} ready and fetched by no client, the oldest for "
            f"{span_words(facts.now - since)} ({facts.ledger.answered} answered, {facts.ledger.delivered} delivered)"
        )
        evidence = Evidence(text, (), tuple(waiting)[:SHOWN])
        yield Finding(Code.ANSWERED_NOT_DELIVERED, since + STUCK_FLOOR_SECONDS, len(waiting), evidence)


def _enqueued_beside_idle_worker(facts: RunFacts) -> Iterator[Finding]:
    """Requests that nobody pops though a worker of the run is alive and has nothing to do."""
    count, since = waiting_count(facts), waiting_since(facts)
    idle = [worker for worker in own_workers(facts) if _is_idle(worker)]
    if not count or since is None or not idle:
        return
    longest = min(idle, key=_idle_since)
    both_since = max(since, _idle_since(longest))
    queue_seconds = [record.queue_seconds for record in facts.operations if record.queue_seconds is not None]
    limit = limit_seconds(percentile_95(queue_seconds))
    if facts.now - both_since > limit:
        text = (
            f"{counted(count, 'request waits', 'requests wait')} for {span_words(facts.now - since)}, "
            f"and {longest.name} is alive and idle for {span_words(facts.now - _idle_since(longest))}: it takes none"
        )
        servers = [worker for worker in own_workers(facts) if worker.is_api_server]
        ids = [
            each
            for server in servers
            for work in server.record.outstanding
            if work.run_id == facts.run_id
            for each in work.request_ids
        ]
        evidence = Evidence(text, (), tuple(ids)[:SHOWN], longest.name)
        yield Finding(Code.ENQUEUED_BESIDE_IDLE_WORKER, both_since + limit, count, evidence)


def _loss_is_zero(facts: RunFacts) -> Iterator[Finding]:
    def is_zero(value: float, before: list[float]) -> bool:
        return value == 0.0

    for records, name in _steady(facts, "loss", is_zero):
        text = f"{name} of the newest {len(records)} {records[0].operation} is exactly 0.0, and all of them succeeded"
        yield _of_metric(Code.LOSS_IS_ZERO, text, records)
        return


def _gradient_vanished(facts: RunFacts) -> Iterator[Finding]:
    def is_vanished(value: float, before: list[float]) -> bool:
        usual = median(before) if len(before) >= STEADY_OPS else 0.0
        return abs(value) <= max(VANISHED, VANISHED_SHARE * usual)

    for records, name in _steady(facts, GRADIENT, is_vanished):
        value = records[-1].metrics[name]
        text = f"{name} of the newest {len(records)} {records[0].operation} is {value:.3g}: the gradient vanished"
        yield _of_metric(Code.GRADIENT_VANISHED, text, records)
        return


_RULES = (
    _executed_twice, _answered_not_delivered, _enqueued_beside_idle_worker, _loss_is_zero, _gradient_vanished,
)  # fmt: skip


# --- Metrics --------------------------------------------------------------------------------------------------
def _steady(
    facts: RunFacts, word: str, holds: Callable[[float, list[float]], bool]
) -> Iterator[tuple[list[wire.OpRecord], str]]:
    """Yield the newest ops of one name of which something holds for all metrics with a word; `before` is what one was.

    For all: a part of a loss that is switched off is 0.0 for good (`kl_loss`), as is the count of clipped gradients.
    """
    by_operation: dict[str, list[wire.OpRecord]] = {}
    for record in sorted(facts.operations, key=lambda record: record.at):
        if record.status == wire.Status.SUCCEEDED.value and not record.nonfinite and _named(record, word):
            by_operation.setdefault(record.operation, []).append(record)
    for _, records in sorted(by_operation.items()):
        newest, earlier = records[-STEADY_OPS:], records[:-STEADY_OPS]
        names = sorted({name for record in newest for name in _named(record, word)})
        if len(newest) == STEADY_OPS and all(_holds_of(name, newest, earlier, holds) for name in names):
            yield newest, names[0]


def _named(record: wire.OpRecord, word: str) -> list[str]:
    names = [name for name in record.metrics if word in name.lower()]
    norms = [name for name in names if "norm" in name.lower()] if word == GRADIENT else []
    return norms or names  # a loss scale (`grad_scale`) says nothing of the gradient


def _holds_of(
    name: str, newest: list[wire.OpRecord], earlier: list[wire.OpRecord], holds: Callable[[float, list[float]], bool]
) -> bool:
    before = [abs(record.metrics[name]) for record in earlier if name in record.metrics]
    return all(name in record.metrics and holds(record.metrics[name], before) for record in newest)


def _of_metric(code: Code, text: str, records: list[wire.OpRecord]) -> Finding:
    ids = tuple(record.identity for record in records)
    requests = tuple(record.request_id for record in records if record.request_id)
    evidence = Evidence(text, ids[:SHOWN], requests[:SHOWN], records[-1].worker, records[0].operation)
    return Finding(code, records[0].at, len(records), evidence)


# --- Workers --------------------------------------------------------------------------------------------------
def _is_idle(worker: WorkerFact) -> bool:
    record = worker.record
    works = record.current is not None or record.turn is not None or bool(record.outstanding)
    return (
        record.role == wire.Role.TRAINER.value
        and worker.is_living
        and not works
        and record.phase in (None, wire.Phase.IDLE.value)
    )


def _idle_since(worker: WorkerFact) -> float:
    record = worker.record
    instants = (record.phase_since, record.last_progress_at, record.started_at)
    return worker.on_redis_clock(max((at for at in instants if at is not None), default=record.at))


def _by(record: wire.OpRecord) -> str:
    return f"by {record.worker}" if record.worker else "by a worker that gives no name"
