"""What a worker waits for, followed across runs: who holds the GPU, what that one does, and whether it moves. Pure.

Workers say which turn they hold or wait for and on which node, not on which device: those of one node (or of unknown
nodes) are taken to share one, unless their settings show them different ones. A worker that was lost still counts as
the holder while nobody got a turn after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from telemetry_app.health import Health
from telemetry_app.plain_words import span_words
from telemetry_app.run_facts import RunFacts, WorkerFact
from workers_client import wire
from workers_client.wire_worker import CurrentOp

VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"  # of the settings that workers tell
DEPTH_LIMIT = 8  # links of one chain
SILENT_SECONDS = 60.0  # who fell silent so long before a wait began can't be what is waited for

LimitOf = Callable[[CurrentOp], float]


@dataclass(frozen=True, slots=True)
class Link:
    """One worker that is waited for: what it holds or does, since when, and what is wrong with it, if anything.

    `relation` is `holds_gpu`, `may_hold_gpu` (nobody says so, and this one was not heard for long), `works_on_others`
    (it serves other requests first) or `waits_for_worker`. `condition` is `stuck`, `lost`, `cycle` (it waits for one
    that stands in the chain already) or None.
    """

    relation: str
    worker: str
    health: str
    workload: str | None
    run_id: str | None
    operation: str | None
    request_id: str | None
    since: float | None
    condition: str | None
    text: str


def follow(start: WorkerFact, facts: RunFacts, limit_of: LimitOf) -> list[Link]:
    """Return the chain from what `start` waits for to the worker that nobody keeps waiting; empty if it does not wait.

    At most 8 links; a cycle ends it and is named. `limit_of` tells the age at which an op that runs is overdue.
    """
    links: list[Link] = []
    seen = {start.name}
    worker = start
    while len(links) < DEPTH_LIMIT:
        found = _next(worker, facts.workers)
        if found is None:
            return links
        relation, following = found
        link = _link(relation, following, facts.now, limit_of, is_known=following.name in seen)
        links.append(link)
        if following.name in seen:
            return links
        seen.add(following.name)
        worker = following
    return links


def holder_of(waiting: WorkerFact, workers: Sequence[WorkerFact]) -> WorkerFact | None:
    """Return who holds the device that a worker waits for: of several the one that has held it longest."""
    holding = [worker for worker in _on_its_device(waiting, workers) if _held_since(worker) is not None]
    living = [worker for worker in holding if worker.is_living]
    if living:
        return min(living, key=lambda worker: (_held_since(worker) or 0.0, worker.name))
    # One that was lost may have been relieved since: then its record speaks of the past.
    lost = [worker for worker in holding if worker.health is Health.LOST]
    return max(lost, key=lambda worker: (worker.heard_at, worker.name), default=None)


def idle_holder_seconds(worker: WorkerFact, now: float) -> float:
    """Return since how long a worker holds a turn without an op that runs; 0 where one does."""
    since = _held_since(worker)
    if since is None or worker.record.current is not None:
        return 0.0
    moved_at = max(since, worker.on_redis_clock(worker.record.last_progress_at or 0.0))
    return max(0.0, worker.watched_until(now) - moved_at - worker.silent_seconds(moved_at, now))


def running_seconds(worker: WorkerFact, now: float) -> float | None:
    """Return how long the worker's op runs, without the time in which it was stopped; None where none runs."""
    current = worker.record.current
    if current is None or current.started_at is None:
        return None
    started_at = worker.on_redis_clock(current.started_at)
    return max(0.0, worker.watched_until(now) - started_at - worker.silent_seconds(started_at, now))


def condition_of(worker: WorkerFact, now: float, limit_of: LimitOf) -> str | None:
    """Return `lost` or `stuck` where a worker that is waited for does not move."""
    if not worker.is_living:
        return "lost"
    current, seconds = worker.record.current, running_seconds(worker, now)
    if current is not None and seconds is not None:
        return "stuck" if seconds > limit_of(current) else None
    # A sampler tells no op that runs: its answers are its moves, and they may be long in coming.
    asked = CurrentOp("") if worker.is_in_ledger else CurrentOp(wire.SAMPLE, _run_of(worker))
    return "stuck" if idle_holder_seconds(worker, now) > limit_of(asked) else None


# --- One step -------------------------------------------------------------------------------------------------
def _next(worker: WorkerFact, workers: Sequence[WorkerFact]) -> tuple[str, WorkerFact] | None:
    """Return whom a worker waits for, and how: the holder of the device, or who holds requests of its own run."""
    if worker.waits_for_turn:
        holder = holder_of(worker, workers)
        if holder is not None:
            return "holds_gpu", holder
        silent = _silent_on_its_device(worker, workers)
        return None if silent is None else ("may_hold_gpu", silent)
    if _held_since(worker) is None or worker.record.current is not None:
        return None
    # It holds the device and runs nothing: what its run asked of others may wait for that very device.
    asked = [other for other in _holding_requests_of(worker, workers) if other.waits_for_turn and other.is_living]
    return ("waits_for_worker", asked[0]) if asked else None


def _holding_requests_of(worker: WorkerFact, workers: Sequence[WorkerFact]) -> Iterator[WorkerFact]:
    runs = set(worker.record.runs)
    for other in workers:
        is_other = other.name != worker.name and not other.is_api_server
        if is_other and any(work.run_id in runs for work in other.record.outstanding):
            yield other


def _on_its_device(waiting: WorkerFact, workers: Sequence[WorkerFact]) -> Iterator[WorkerFact]:
    node, devices = waiting.record.node, _visible_devices(waiting)
    for worker in workers:
        is_near = node is None or worker.record.node is None or worker.record.node == node
        if worker.name != waiting.name and is_near and _may_share(devices, _visible_devices(worker)):
            yield worker


def _visible_devices(worker: WorkerFact) -> frozenset[str]:
    """Return the devices that a worker was started with, as it names them; none where it does not say."""
    told = worker.record.settings.get(VISIBLE_DEVICES)
    return frozenset(name.strip() for name in told.split(",") if name.strip()) if isinstance(told, str) else frozenset()


def _may_share(first: frozenset[str], second: frozenset[str]) -> bool:
    """Return whether two workers of one node may use one device: numbers and ids of devices can't be compared."""
    is_alike = all(name.isdecimal() for name in first | second) or not any(name.isdecimal() for name in first | second)
    return not first or not second or not is_alike or bool(first & second)


def _silent_on_its_device(waiting: WorkerFact, workers: Sequence[WorkerFact]) -> WorkerFact | None:
    """Return the worker that may hold the device without having said so: it took turns, and fell silent lately.

    A process that stops in a turn that began after its newest record can't tell of it.
    """
    asked_at = waiting.on_redis_clock((waiting.record.turn and waiting.record.turn.requested_at) or 0.0)
    silent = [
        worker
        for worker in _on_its_device(waiting, workers)
        if worker.health in (Health.LATE, Health.LOST)
        and worker.record.turns
        and worker.heard_at > asked_at - SILENT_SECONDS
    ]
    return max(silent, key=lambda worker: (worker.heard_at, worker.name), default=None)


def _held_since(worker: WorkerFact) -> float | None:
    turn = worker.record.turn
    if turn is None or turn.started_at is None or worker.health is Health.EXITED:
        return None
    return worker.on_redis_clock(turn.started_at)


# --- One link -------------------------------------------------------------------------------------------------
def link_to(relation: str, worker: WorkerFact, now: float, limit_of: LimitOf) -> Link:
    """Return the link to a worker that is waited for."""
    return _link(relation, worker, now, limit_of, is_known=False)


def _link(relation: str, worker: WorkerFact, now: float, limit_of: LimitOf, *, is_known: bool) -> Link:
    turn, current = worker.record.turn, worker.record.current
    since = _held_since(worker)
    if since is None and current is not None and current.started_at is not None:
        since = worker.on_redis_clock(current.started_at)
    condition = "cycle" if is_known else condition_of(worker, now, limit_of)
    return Link(
        relation=relation,
        worker=worker.name,
        health=worker.health.value,
        workload=turn.workload if turn else None,
        run_id=_run_of(worker),
        operation=current.operation if current else None,
        request_id=current.request_id if current else None,
        since=since,
        condition=condition,
        text=_text(relation, worker, now, since, condition),
    )


def _run_of(worker: WorkerFact) -> str | None:
    current = worker.record.current
    if current is not None and current.run_id is not None:
        return current.run_id
    held = worker.record.outstanding
    return held[0].run_id if held else (worker.record.runs[0] if len(worker.record.runs) == 1 else None)


def _text(relation: str, worker: WorkerFact, now: float, since: float | None, condition: str | None) -> str:
    current, turn = worker.record.current, worker.record.turn
    name = turn.workload if turn and relation == "holds_gpu" else worker.name
    doing = f" running {current.operation} of {current.run_id}" if current else ""
    age = "" if since is None else f" for {span_words(max(0.0, now - since))}"
    if relation == "may_hold_gpu":
        silent = max(0.0, now - worker.heard_at)
        return f"no worker says that it holds it; {worker.name} may, which was last heard {span_words(silent)} ago"
    verb = {"holds_gpu": "holds it", "works_on_others": "is at work", "waits_for_worker": "holds requests and waits"}
    text = f"{name} {verb[relation]}{doing}{age}"
    if condition == "lost":
        return f"{text}, but {worker.name} was last heard {span_words(max(0.0, now - worker.heard_at))} ago"
    return f"{text}, and is itself stuck" if condition == "stuck" else text
