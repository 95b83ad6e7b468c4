"""The verdict on one run: its state with the chain of what it waits for, what was expected, what speaks against it,
what else is wrong, and what one can safely do. Pure: facts in, one verdict out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from telemetry_app.expectations import Expectation, expectation
from telemetry_app.findings import Code, Finding, findings_of
from telemetry_app.health import Health
from telemetry_app.holder_chain import Link, condition_of, running_seconds
from telemetry_app.next_steps import next_steps
from telemetry_app.overdue import limit_of_current
from telemetry_app.plain_words import counted, span_words
from telemetry_app.run_facts import RunFacts, WorkerFact, held_work, of_newest_records, own_workers
from telemetry_app.run_state import Evidence, RunVerdict, run_state
from workers_client import wire

FRESH_SECONDS = 60.0  # a finish so recent speaks against whatever says that nothing moves


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run is doing or waiting for, and how one knows. `expected` is of the op `operation`."""

    state: RunVerdict
    chain: tuple[Link, ...]
    operation: str | None
    expected: Expectation | None
    counter_evidence: tuple[Evidence, ...]
    findings: tuple[Finding, ...]
    next_steps: tuple[str, ...]


def verdict_of(facts: RunFacts) -> Verdict:
    """Return the verdict on a run."""
    facts = of_newest_records(facts)
    state = run_state(facts)
    chain = next((condition.chain for condition in state.conditions if condition.chain), ())
    operation = _operation(facts, state)
    findings = tuple(findings_of(facts))
    return Verdict(
        state=state,
        chain=chain,
        operation=operation,
        expected=None if operation is None else expectation(operation, facts),
        counter_evidence=tuple(_counter_evidence(facts, state, chain)),
        findings=findings,
        next_steps=tuple(next_steps(facts.run_id, state, chain, findings)),
    )


def _operation(facts: RunFacts, state: RunVerdict) -> str | None:
    """Return the op that the state is about: of its evidence, else the one that runs, is open, or finished last."""
    named = [fact.operation for fact in state.conditions[0].evidence if fact.operation]
    running = [worker.record.current.operation for worker in own_workers(facts) if worker.record.current]
    held = [work.operation for _, work in held_work(facts)]
    newest = max(facts.operations, key=lambda record: record.at, default=None)
    return next(iter([*named, *running, *held, *([newest.operation] if newest else [])]), None)


# --- What speaks against it -----------------------------------------------------------------------------------
def _counter_evidence(facts: RunFacts, state: RunVerdict, chain: tuple[Link, ...]) -> Iterator[Evidence]:
    if state.state in ("lost", "stuck"):
        yield from _signs_of_life(facts, state)
    if state.state in ("lost", "stuck", "failing", "queued"):
        yield from _fresh_successes(facts)
    if state.state == "diverging":
        yield from _finite_since(facts, state)
    if state.state in ("waiting_for_gpu", "queued"):
        yield from _moving(facts, chain)
    if state.state in ("progressing", "sampling", "waiting_for_client"):
        yield from _late_workers(facts)
    if state.state in ("waiting_for_client", "idle", "finished"):
        yield from _unfetched(facts)
    if state.state in ("idle", "finished"):
        yield from _living(facts)


def _signs_of_life(facts: RunFacts, state: RunVerdict) -> Iterator[Evidence]:
    named = {fact.worker for fact in state.conditions[0].evidence}
    for worker in own_workers(facts):
        if worker.name in named and worker.health is Health.ALIVE:
            yield Evidence(f"{worker.name} is alive: heard {_ago(facts, worker)}", worker=worker.name)
        elif worker.name not in named and worker.is_living and worker.record.role == wire.Role.TRAINER.value:
            yield Evidence(f"another trainer of the run, {worker.name}, is {worker.health.value}", worker=worker.name)


def _fresh_successes(facts: RunFacts) -> Iterator[Evidence]:
    fresh = [
        record
        for record in facts.operations
        if record.status == wire.Status.SUCCEEDED.value and facts.now - record.at <= FRESH_SECONDS
    ]
    if fresh:
        newest = max(fresh, key=lambda record: record.at)
        text = f"{counted(len(fresh), 'op', 'ops')} succeeded within the last minute, {newest.operation} the newest"
        yield Evidence(text, (newest.identity,), operation=newest.operation)


def _finite_since(facts: RunFacts, state: RunVerdict) -> Iterator[Evidence]:
    bad = [fact for fact in state.conditions[0].evidence if fact.record_ids]
    at = max(
        (record.at for record in facts.operations for fact in bad if record.identity in fact.record_ids), default=0
    )
    names = {fact.operation for fact in bad}
    later = [r for r in facts.operations if r.at > at and r.operation in names and r.metrics and not r.nonfinite]
    if later:
        text = f"{len(later)} {later[0].operation} since have finite metrics alone"
        yield Evidence(text, tuple(record.identity for record in later[:10]), operation=later[0].operation)


def _moving(facts: RunFacts, chain: tuple[Link, ...]) -> Iterator[Evidence]:
    names = [link.worker for link in chain if link.condition is None]
    for worker in facts.workers:
        current, seconds = worker.record.current, running_seconds(worker, facts.now)
        if worker.name not in names or current is None or seconds is None:
            continue
        if condition_of(worker, facts.now, lambda op: limit_of_current(facts, op)) is None:
            limit = limit_of_current(facts, current)
            text = (
                f"{worker.name} moves: its {current.operation} is {span_words(seconds)} old, "
                f"expected within {span_words(limit)}"
            )
            yield Evidence(text, (), (current.request_id,) if current.request_id else (), worker.name)


def _late_workers(facts: RunFacts) -> Iterator[Evidence]:
    for worker in own_workers(facts):
        if worker.health in (Health.LATE, Health.LOST):
            yield Evidence(f"{worker.name} is {worker.health.value}: heard {_ago(facts, worker)}", worker=worker.name)


def _unfetched(facts: RunFacts) -> Iterator[Evidence]:
    count = facts.ledger.answered - facts.ledger.delivered
    if count > 0 and facts.ledger.delivered:
        yield Evidence(f"{counted(count, 'answer was', 'answers were')} never fetched")


def _living(facts: RunFacts) -> Iterator[Evidence]:
    living = [worker.name for worker in own_workers(facts) if worker.health is Health.ALIVE]
    if living:
        one, many = f"of its workers is alive, {living[0]}", f"of its workers are alive, {living[0]} among them"
        yield Evidence(counted(len(living), one, many), worker=living[0])


def _ago(facts: RunFacts, worker: WorkerFact) -> str:
    return f"{span_words(max(0.0, facts.now - worker.heard_at))} ago"


__all__ = ["Code", "Verdict", "verdict_of"]
