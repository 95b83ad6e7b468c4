"""Which requests of a run are open, who holds them, and which are overdue. Pure: facts of `run_state` in, entries out.

A worker's list is what it said last: of one that is gone it is what nobody will answer, whatever its age.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from telemetry_app.expectations import STUCK_FLOOR_SECONDS, Expectation, expectation
from telemetry_app.overdue import overdue
from telemetry_app.plain_words import span_words
from telemetry_app.run_facts import GONE, RunFacts, WorkerFact
from telemetry_app.run_state import COUNT_SKEW_SECONDS
from workers_client import wire
from workers_client.wire_worker import OutstandingWork


@dataclass(frozen=True, slots=True)
class OpenRequests:
    """Open requests of one run and op that one worker holds; without a worker: those that nobody lists.

    `unshared_count` are those that no other worker holds too: an API server holds a request until its client has the
    answer, so what a trainer popped stands at both. Their sum counts each request once. `oldest_at`: by Redis's clock.
    """

    run_id: str
    operation: str | None
    holder: WorkerFact | None
    count: int
    unshared_count: int
    also_held_by: tuple[str, ...]
    oldest_at: float | None
    request_ids: tuple[str, ...]
    orphaned: bool
    stuck: bool
    why: str
    expected: Expectation | None


Held = tuple[WorkerFact, OutstandingWork]


def open_requests(facts: RunFacts, *, outstanding_count: int) -> list[OpenRequests]:
    """Return what is enqueued and not answered. `outstanding_count` is how many the ledger says are.

    Sampling requests are in no ledger. What API servers hold is open only as far as the ledger says so, for those that
    live first: one that is gone lists requests that are answered and whose client left with it. One that lives lists
    them too until somebody fetches them, the oldest first.
    """
    held = _held_work(facts)
    taken = [pair for pair in held if not pair[0].is_api_server]
    accepted = sorted((pair for pair in held if pair[0].is_api_server), key=_living_and_newest_first)
    found = [_entry(facts, worker, work, work.count, ()) for worker, work in taken]
    left = max(0, outstanding_count - sum(work.count for worker, work in taken if worker.is_in_ledger))
    for worker, listed in accepted if outstanding_count else ():
        others = [(other, theirs) for other, theirs in taken if theirs.operation == listed.operation]
        work = _unanswered(facts, listed, others, outstanding_count)
        shared, names = _shared(work, others)
        waiting = min(work.count - shared, left)
        left -= waiting
        if waiting or (worker.health not in GONE and names):
            found.append(_entry(facts, worker, work, waiting, names, answered_count=listed.count - work.count))
    return [*found, *_unlisted(facts, left)]


def order_of(entry: OpenRequests) -> tuple[float, str, str, str]:
    """Return where an entry stands in lists: oldest first, those of unknown age last. Unique."""
    age = float("1e12") if entry.oldest_at is None else entry.oldest_at
    return age, entry.run_id, entry.operation or "", entry.holder.record.worker if entry.holder else ""


def _held_work(facts: RunFacts) -> list[Held]:
    """Return what each worker holds of the run, of each op once: a worker that tells one twice is told by its first."""
    held: dict[tuple[str, str], Held] = {}
    for worker in facts.workers:
        for work in worker.record.outstanding:
            if work.run_id == facts.run_id:
                held.setdefault((worker.record.worker, work.operation), (worker, work))
    return list(held.values())


def _living_and_newest_first(pair: Held) -> tuple[bool, float]:
    return pair[0].health in GONE, -(pair[1].oldest_at or 0.0)


def _unanswered(
    facts: RunFacts, listed: OutstandingWork, others: Sequence[Held], outstanding_count: int
) -> OutstandingWork:
    """Return what an API server lists without what is answered, which it lists until its client has the answer.

    Op records tell which those are. Where the ledger says that fewer are open than are left, the oldest that nobody
    else holds are answered too: what was answered lately has its record at hand. Of what stays no more is known then
    than that it was asked for before the next one that has a record, or not behind the newest of all.
    """
    enqueued_at = {record.request_id: record.enqueued_at for record in facts.operations}
    held = {request_id for _, theirs in others for request_id in theirs.request_ids}
    ids = [request_id for request_id in listed.request_ids if request_id not in enqueued_at]
    count = listed.count - (len(listed.request_ids) - len(ids))
    if listed.operation != wire.SAMPLE and count > outstanding_count:
        unheld = [request_id for request_id in ids if request_id not in held][: count - outstanding_count]
        ids, count = [request_id for request_id in ids if request_id not in unheld], outstanding_count
    if ids[:1] == list(listed.request_ids[:1]):
        return replace(listed, count=count, request_ids=tuple(ids))
    behind = listed.request_ids[listed.request_ids.index(ids[0]) :] if ids else ()
    later = [at for at in map(enqueued_at.get, behind) if at is not None]
    asked_at = min(later, default=facts.ledger.last_enqueued_at)
    oldest_at = listed.oldest_at if asked_at is None else max(asked_at, listed.oldest_at or asked_at)
    return replace(listed, count=count, request_ids=tuple(ids), oldest_at=oldest_at)


def _shared(work: OutstandingWork, others: Sequence[Held]) -> tuple[int, tuple[str, ...]]:
    """Return how many of an API server's requests others hold too, and who: by their ids, of which 20 are told.

    Where all ids told of one side stand on the other, the rest of them are taken to do so as well.
    """
    shared, names = 0, []
    own = set(work.request_ids)
    for worker, theirs in others:
        common = own.intersection(theirs.request_ids)
        if common:
            is_whole = len(common) in (len(own), len(set(theirs.request_ids)))
            shared += min(work.count, theirs.count) if is_whole else len(common)
            names.append(worker.record.worker)
    return min(shared, work.count), tuple(sorted(names))


def _entry(
    facts: RunFacts,
    worker: WorkerFact,
    work: OutstandingWork,
    unshared: int,
    names: tuple[str, ...],
    *,
    answered_count: int = 0,
) -> OpenRequests:
    expected = expectation(work.operation, facts)
    # Ages are told on one clock: Redis's, to which the worker knows its distance.
    oldest_at = None if work.oldest_at is None else worker.on_redis_clock(work.oldest_at)
    is_gone = worker.health in GONE
    is_overdue = overdue(facts, worker, work) is not None
    why = _why(facts, worker, oldest_at, expected, is_overdue=is_overdue)
    return OpenRequests(
        run_id=facts.run_id,
        operation=work.operation,
        holder=worker,
        count=work.count,
        unshared_count=unshared,
        also_held_by=names,
        oldest_at=oldest_at,
        request_ids=work.request_ids,
        orphaned=is_gone,
        stuck=is_gone or is_overdue,
        why=f"{why}; {answered_count} more that it lists are answered" if answered_count else why,
        expected=expected,
    )


def _why(
    facts: RunFacts, worker: WorkerFact, oldest_at: float | None, expected: Expectation, *, is_overdue: bool
) -> str:
    name, health = worker.record.worker, worker.health
    if health in GONE:
        ago = max(0.0, facts.now - worker.record.at)
        return f"{name} is {health.value}, last heard {span_words(ago)} ago: nobody answers what it held"
    if oldest_at is None:
        return f"{name} does not say since when it holds them"
    age = max(0.0, facts.now - oldest_at)
    limit = span_words(expected.limit_seconds)
    text = f"the oldest is {span_words(age)} old, expected within {limit} ({expected.known_from})"
    waits = age > expected.limit_seconds and not is_overdue
    return f"{text}; it is not overdue, since what it waits for moves" if waits else text


def _unlisted(facts: RunFacts, count: int) -> Iterator[OpenRequests]:
    """Yield what the ledger counts and no worker lists, once the counts of two processes can't be that far apart."""
    newest = facts.last_activity_at
    if not count or newest is None or facts.now - newest <= COUNT_SKEW_SECONDS:
        return
    quiet = facts.now - newest
    is_stuck = quiet > STUCK_FLOOR_SECONDS
    yield OpenRequests(
        run_id=facts.run_id,
        operation=None,
        holder=None,
        count=count,
        unshared_count=count,
        also_held_by=(),
        oldest_at=None,
        request_ids=(),
        orphaned=is_stuck,
        stuck=is_stuck,
        why=f"no worker lists them, and nothing happened in the run for {span_words(quiet)}",
        expected=None,
    )
