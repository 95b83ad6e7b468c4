"""What a run is doing, from facts kept apart. Pure: facts in, one state with its evidence out.

One rule a state, in order of precedence; the first that holds is the run's state.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from telemetry_app.expectations import (
    EXPECTATION_RECORDS as EXPECTATION_RECORDS,
)
from telemetry_app.expectations import (
    STUCK_FACTOR,
    STUCK_FLOOR_SECONDS,
)
from telemetry_app.expectations import (
    Expectation as Expectation,
)
from telemetry_app.expectations import (
    expectation as expectation,
)
from telemetry_app.expectations import (
    overdue_seconds as overdue_seconds,
)
from telemetry_app.health import Health
from telemetry_app.holder_chain import Link, follow, link_to
from telemetry_app.overdue import Overdue, limit_of_current, overdue
from telemetry_app.plain_words import counted, span_words
from telemetry_app.queue_wait import BURST_SECONDS, waiting_count, waiting_since
from telemetry_app.rates import percentile_95
from telemetry_app.run_facts import (
    RunFacts as RunFacts,
)
from telemetry_app.run_facts import (
    WorkerFact as WorkerFact,
)
from telemetry_app.run_facts import (
    held_work,
    is_forgotten,
    is_held_by_the_living,
    is_open,
    is_outlived,
    last_finish_at,
    newest_by_operation,
    of_newest_records,
    own_workers,
    why_ended,
)
from workers_client import wire
from workers_client.wire_worker import OutstandingWork

PROGRESS_FLOOR_SECONDS = 30.0  # a finish so recent is progress whatever the run's pace
IDLE_SECONDS = 900.0
COUNT_SKEW_SECONDS = 2 * wire.HEARTBEAT_INTERVAL_SECONDS  # counts of two processes are one flush apart, or two
FAILING_OPS = 3  # newest ops of a kind that failed
PAST_SECONDS = IDLE_SECONDS  # so long ago, and longer than they took to come, ops are of the past
DIVERGING_OPS = 3  # newest ops of a kind among which one non-finite loss or gradient counts
DIVERGING_METRICS = ("loss", "grad")
_NOTHING_KNOWN = "nothing is known of it but its name"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact in words, with the records, requests and worker that it speaks of."""

    text: str
    record_ids: tuple[str, ...] = ()
    request_ids: tuple[str, ...] = ()
    worker: str | None = None
    operation: str | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A state that holds, since when (None: not known), the facts that say so, and what is waited for."""

    state: str
    since: float | None
    evidence: tuple[Evidence, ...]
    chain: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """All conditions that hold, by precedence and each state once; the first is what the run is doing."""

    conditions: tuple[Condition, ...]

    @property
    def state(self) -> str:
        """The state that goes first."""
        return self.conditions[0].state

    @property
    def since(self) -> float | None:
        """Since when it holds."""
        return self.conditions[0].since

    @property
    def evidence(self) -> tuple[str, ...]:
        """The facts that say so, in words."""
        return tuple(fact.text for fact in self.conditions[0].evidence)

    @property
    def also(self) -> tuple[str, ...]:
        """The other states that hold."""
        return tuple(condition.state for condition in self.conditions[1:])


def run_state(facts: RunFacts) -> RunVerdict:
    """Return what the run is doing: lost, stuck, failing, diverging, waiting_for_gpu, queued, sampling, progressing,
    waiting_for_client, idle or finished, the first that holds."""
    facts = of_newest_records(facts)
    found: dict[str, Condition] = {}
    for rule in _RULES:
        for condition in rule(facts):
            known = found.get(condition.state)
            found[condition.state] = condition if known is None else _both(known, condition)
    if not found:
        nothing = Condition("idle", facts.last_activity_at, (Evidence(_NOTHING_KNOWN),))
        return RunVerdict((_at_work(facts) or nothing,))
    return RunVerdict(tuple(found.values()))


def _both(first: Condition, second: Condition) -> Condition:
    since = min((at for at in (first.since, second.since) if at is not None), default=None)
    return Condition(first.state, since, (*first.evidence, *second.evidence), first.chain or second.chain)


# --- One rule a state, in order of precedence -----------------------------------------------------------------
def _lost(facts: RunFacts) -> Iterator[Condition]:
    for worker, work in held_work(facts):
        if worker.health is Health.LOST and not worker.is_api_server and not is_outlived(facts, worker):
            age = facts.now - worker.heard_at
            text = f"{worker.name} stopped {span_words(age)} ago holding {work.count} {work.operation}"
            fact = Evidence(text, (), work.request_ids, worker.name, work.operation)
            yield Condition("lost", worker.heard_at, (fact,))


def _stuck(facts: RunFacts) -> Iterator[Condition]:
    popped = {
        request_id for worker, work in held_work(facts) if not worker.is_api_server for request_id in work.request_ids
    }
    for worker, work in held_work(facts):
        if worker.is_api_server and work.request_ids and popped.issuperset(work.request_ids):
            continue  # told by who popped them, or as lost with it
        late = overdue(facts, worker, work)
        if late is None or _is_left_behind(facts, worker, work, late):
            continue
        what = work.operation if late.what == work.operation else f"{work.operation}, behind {late.what},"
        text = (
            f"{what} held by {worker.name} is {span_words(late.age_seconds)} old, expected within "
            f"{span_words(late.limit_seconds)} ({late.expected.known_from})"
        )
        chain = follow(worker, facts, lambda current: limit_of_current(facts, current))
        text = "; ".join([text, *(link.text for link in chain)])
        fact = Evidence(text, (), work.request_ids, worker.name, work.operation)
        yield Condition("stuck", late.since, (fact,), tuple(chain))


def _is_left_behind(facts: RunFacts, server: WorkerFact, work: OutstandingWork, late: Overdue) -> bool:
    """Return whether the client went on after what an API server lists was overdue and was answered since, or goes on.

    What is answered and never fetched stays in that list, as do requests of a trainer that is gone: the run waits for
    neither, and both are told elsewhere.
    """
    if not server.is_api_server or work.operation == wire.SAMPLE:
        return False
    fresh, later = facts.now - PROGRESS_FLOOR_SECONDS, late.waits_since + BURST_SECONDS
    asked = [(record.enqueued_at, record.at) for record in facts.operations if record.enqueued_at is not None]
    return any(asked_at > late.since or (ended_at > fresh and asked_at > later) for asked_at, ended_at in asked)


def _open_without_a_holder(facts: RunFacts) -> Iterator[Condition]:
    """Requests that the ledger counts and no worker that lives lists: popped by one that is gone."""
    newest = facts.last_activity_at
    told = [  # as lost, or left behind by the run
        work
        for worker, work in held_work(facts)
        if worker.is_in_ledger
        and not worker.is_api_server
        and (worker.health is Health.LOST or is_outlived(facts, worker))
    ]
    count = facts.ledger.outstanding_count - sum(work.count for work in told)
    unheld = count > 0 and not is_held_by_the_living(facts) and not is_forgotten(facts)
    if unheld and newest is not None and facts.now - newest > STUCK_FLOOR_SECONDS:
        one, many = "request is unanswered and no worker holds it", "requests are unanswered and no worker holds them"
        text = counted(count, one, many)
        yield Condition("stuck", newest, (Evidence(text),))


def _failing(facts: RunFacts) -> Iterator[Condition]:
    for operation, newest in newest_by_operation(facts, FAILING_OPS).items():
        failed = [record for record in newest if record.status == wire.Status.FAILED.value]
        if len(failed) == FAILING_OPS and not _is_past(failed, facts.now):
            kinds = ", ".join(sorted({record.error_type or "unknown error" for record in newest}))
            text = f"the newest {FAILING_OPS} {operation} failed: {kinds}"
            yield Condition("failing", newest[0].at, (_of_records(text, *newest),))


def _is_past(records: list[wire.OpRecord], now: float) -> bool:
    """Return whether these, oldest first, are no news: an op that comes once an hour is, for longer than others."""
    return now - records[-1].at >= max(PAST_SECONDS, records[-1].at - records[0].at)


def _diverging(facts: RunFacts) -> Iterator[Condition]:
    for operation, newest in newest_by_operation(facts, DIVERGING_OPS).items():
        for record in newest if not _is_past(newest, facts.now) else ():
            names = [name for name in record.nonfinite if any(word in name.lower() for word in DIVERGING_METRICS)]
            if names:
                step = "" if record.step is None else f" at step {record.step}"
                text = f"{names[0]} of {operation} was {record.nonfinite[names[0]]}{step}"
                yield Condition("diverging", record.at, (_of_records(text, record),))
                break


def _waiting_for_gpu(facts: RunFacts) -> Iterator[Condition]:
    waiting = {worker.name for worker, _ in held_work(facts)}
    for worker in facts.workers:
        turn = worker.record.turn
        if worker.name not in waiting or turn is None or not worker.waits_for_turn or not worker.is_living:
            continue
        chain = follow(worker, facts, lambda current: limit_of_current(facts, current))
        holder = "; ".join(link.text for link in chain) or "no holder is known"
        text = f"{worker.name} waits for a GPU turn of {turn.workload}; {holder}"
        since = None if turn.requested_at is None else worker.on_redis_clock(turn.requested_at)
        fact = Evidence(text, (), _ids_held(facts, worker), worker.name)
        yield Condition("waiting_for_gpu", since, (fact,), tuple(chain))


def _queued(facts: RunFacts) -> Iterator[Condition]:
    """Requests that nobody popped, and that are older than the counts of two processes can be apart."""
    waiting, since = waiting_count(facts), waiting_since(facts)
    if not waiting or since is None or facts.now - since <= COUNT_SKEW_SECONDS:
        return
    busy = [worker for worker in own_workers(facts) if worker.record.current and worker.health is Health.ALIVE]
    waits = [worker for worker in own_workers(facts) if worker.waits_for_turn and worker.is_living]
    doing, chain = "", list[Link]()
    if busy and busy[0].record.current:
        doing = f"; {busy[0].name} is busy with {busy[0].record.current.operation}"
    if busy or waits:
        first = (busy or waits)[0]
        chain = [link_to("works_on_others", first, facts.now, lambda op: limit_of_current(facts, op))]
        chain += follow(first, facts, lambda op: limit_of_current(facts, op))
    if waits and not busy:
        doing = f"; {waits[0].name} waits for a GPU turn"
    text = f"{counted(waiting, 'request waits and none popped it', 'requests wait and none popped them')}{doing}"
    yield Condition("queued", since, (Evidence(text, (), _ids_at_servers(facts)),), tuple(chain))


def _sampling(facts: RunFacts) -> Iterator[Condition]:
    for worker, work in held_work(facts):
        if work.operation == wire.SAMPLE and worker.is_living:
            text = f"{counted(work.count, 'sampling request is', 'sampling requests are')} open at {worker.name}"
            since = None if work.oldest_at is None else worker.on_redis_clock(work.oldest_at)
            yield Condition("sampling", since, (Evidence(text, (), work.request_ids, worker.name, work.operation),))


def _progressing(facts: RunFacts) -> Iterator[Condition]:
    newest = last_finish_at(facts)
    if newest is None or why_ended(facts):
        return
    ended = sorted(record.at for record in facts.operations)
    pace = percentile_95([after - before for before, after in itertools.pairwise(ended)])
    age = facts.now - newest
    if age <= max(PROGRESS_FLOOR_SECONDS, STUCK_FACTOR * min(pace or 0.0, IDLE_SECONDS / STUCK_FACTOR)):
        text = f"the newest op or sample finished {span_words(max(0.0, age))} ago"
        ids = [record for record in facts.operations if record.at == newest][:1]
        yield Condition("progressing", None, (_of_records(text, *ids),))


def _waiting_for_client(facts: RunFacts) -> Iterator[Condition]:
    newest = facts.last_activity_at
    if is_open(facts) or why_ended(facts) or newest is None or facts.now - newest >= IDLE_SECONDS:
        return
    text = f"all {facts.ledger.answered} requests are answered"
    if facts.ledger.outstanding_count:
        text = "all requests are answered but those of a worker that is gone, since which the run went on"
    yield Condition("waiting_for_client", last_finish_at(facts) or newest, (Evidence(text),))


def _finished(facts: RunFacts) -> Iterator[Condition]:
    reason = why_ended(facts)
    if reason and not is_open(facts):
        yield Condition("finished", facts.last_activity_at, (Evidence(reason),))


def _idle(facts: RunFacts) -> Iterator[Condition]:
    newest = facts.last_activity_at
    if newest is not None and facts.now - newest >= IDLE_SECONDS and not is_open(facts) and not why_ended(facts):
        text = f"no activity for {(facts.now - newest) / 60:.0f} min and nothing open"
        yield Condition("idle", newest, (Evidence(text),))


def _at_work(facts: RunFacts) -> Condition | None:
    """Return the state of a run whose open requests are not overdue, though nothing of it finished lately."""
    newest = facts.last_activity_at
    is_fresh = newest is not None and facts.now - newest <= STUCK_FLOOR_SECONDS
    if not is_held_by_the_living(facts) and not (facts.ledger.outstanding_count and is_fresh):
        return None
    held = [
        Evidence(f"{work.count} {work.operation} held by {worker.name}", (), work.request_ids, worker.name)
        for worker, work in held_work(facts)
    ]
    return Condition("progressing", None, (Evidence("its open requests are not overdue"), *held))


# --- Ids ------------------------------------------------------------------------------------------------------
def _of_records(text: str, *records: wire.OpRecord) -> Evidence:
    return Evidence(
        text,
        tuple(record.identity for record in records),
        tuple(record.request_id for record in records if record.request_id),
        records[0].worker if records else None,
        records[0].operation if records else None,
    )


def _ids_held(facts: RunFacts, worker: WorkerFact) -> tuple[str, ...]:
    held = [work.request_ids for work in worker.record.outstanding if work.run_id == facts.run_id]
    return tuple(request_id for ids in held for request_id in ids)[: wire.OUTSTANDING_LIMIT]


def _ids_at_servers(facts: RunFacts) -> tuple[str, ...]:
    servers = [worker for worker in own_workers(facts) if worker.is_api_server]
    return tuple(each for server in servers for each in _ids_held(facts, server))[: wire.OUTSTANDING_LIMIT]


_RULES = (
    _lost, _stuck, _open_without_a_holder, _failing, _diverging, _waiting_for_gpu, _queued, _sampling, _progressing,
    _waiting_for_client, _idle, _finished,
)  # fmt: skip
