"""The facts of runs, of one or of many: all that their states and open requests are told from.

Workers are read once. Records and rows of many runs come a hundred runs at a time, each hundred in one round trip to
Redis and one query, and no more of them is read than a state needs; nobody holds the records of all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from telemetry_app import readers
from telemetry_app.exceptions import HistoryUnavailableError
from telemetry_app.facts import Typical, health_of, known_workers, models_of, sample_seconds, typical_of
from telemetry_app.health import Health
from telemetry_app.inspection.sources import RunSources, history, or_none_where_live_is_out
from telemetry_app.instants import to_unix
from telemetry_app.models import Run, Worker
from telemetry_app.one_clock import by_redis_clock
from telemetry_app.op_history import learned_of
from telemetry_app.op_seconds import newest_of_run, newest_of_runs
from telemetry_app.receipt_times import place_received
from telemetry_app.run_facts import RunFacts, WorkerFact
from telemetry_app.silences import with_silences
from workers_client import wire
from workers_client.codec import encode_object
from workers_client.exceptions import MalformedRecordError
from workers_client.wire_worker import Ledger, WorkerRecord, parse_worker

RUNS_AT_ONCE = 100
NEWEST_OPERATIONS = readers.SUMMARY_RECORDS  # of each of many runs: enough for the newest of a kind and for the pace
NEWEST_SAMPLES = 4  # of each of many runs: its newest answer is told from them
STORED_RUNS = 200  # the first of many runs whose stored ops are looked at while Redis is out
STORED_WORKERS = 2_000  # newest stored workers that held something, and that Redis does not know


# --- What is known beside a run's own records -----------------------------------------------------------------
@dataclass
class FleetWorkers:
    """Workers of both sources with their health, and the clock (unix seconds) on which it is told.

    `live` is None where Redis is out; `stored_ids` are the workers that history alone knows.
    """

    workers: list[WorkerFact] = field(default_factory=list)
    live: readers.LiveWorkers | None = None
    has_history: bool = True
    history_fault: str = ""  # why PostgreSQL could not be read, once it was found out
    stored_ids: frozenset[str] = frozenset()
    now: float = 0.0

    def lose_history(self, error: HistoryUnavailableError) -> None:
        """Note that PostgreSQL can't be read: it is asked no more."""
        self.has_history, self.history_fault = False, str(error)

    @property
    def live_records(self) -> Iterable[WorkerRecord]:
        """The records that Redis has."""
        return self.live.records.values() if self.live else ()

    @cached_property
    def _by_run(self) -> dict[str, list[WorkerFact]]:
        found: dict[str, list[WorkerFact]] = {}
        for worker in self.workers:
            for run_id in {*worker.record.runs, *(work.run_id for work in worker.record.outstanding)}:
                found.setdefault(run_id, []).append(worker)
        return found

    @cached_property
    def _at_gpus(self) -> dict[str | None, list[WorkerFact]]:
        """Workers by node that hold a GPU or wait for one, or that took turns and fell silent, which may hold one."""
        found: dict[str | None, list[WorkerFact]] = {}
        for worker in self.workers:
            is_silent = worker.health in (Health.LATE, Health.LOST) and bool(worker.record.turns)
            if worker.record.turn is not None or is_silent:
                found.setdefault(worker.record.node, []).append(worker)
        return found

    @cached_property
    def models(self) -> dict[str, str]:
        """The base model of each run whose workers name one."""
        return models_of(self.workers)

    def add(self, stored: Sequence[WorkerFact]) -> None:
        """Add workers that history alone knows."""
        self.stored_ids = self.stored_ids.union(fact.record.worker for fact in stored)
        self.workers = [*self.workers, *stored]
        for told in ("_by_run", "_at_gpus", "models"):
            self.__dict__.pop(told, None)

    def set_clock(self, now: float) -> None:
        """Tell the workers' health at another instant than Redis's clock says."""
        self.now = now
        if self.live is not None:
            self.workers = known_workers(self.live, now)
            add_silences(self)
            self.add([])

    def of_run(self, run_id: str) -> list[WorkerFact]:
        """Return the workers that have to do with a run: they name it, hold requests of it, or share the GPU for which
        one of these waits."""
        own = self._by_run.get(run_id, [])
        nodes = {worker.record.node for worker in own if worker.waits_for_turn}
        if not nodes:
            return own
        known = {worker.name for worker in own}
        # A node that is not known may be any.
        shared = self._at_gpus if None in nodes else {None, *nodes}
        return [*own, *(other for node in shared for other in self._at_gpus.get(node, ()) if other.name not in known)]


def read_fleet_workers(
    *, now: float, is_live: bool, has_history: bool = True, live: readers.LiveWorkers | None = None
) -> FleetWorkers:
    """Return all workers that Redis knows, read now unless they are given; `now` is the clock where Redis is out."""
    if is_live and live is None:
        live = or_none_where_live_is_out(readers.read_workers)
    found = FleetWorkers(live=live, has_history=has_history, now=(live.redis_time or now) if live else now)
    found.workers = known_workers(live, found.now) if live else []
    add_silences(found)
    return found


def add_silences(fleet: FleetWorkers) -> None:
    """Add when workers that hold something old were not heard."""
    if not fleet.has_history:
        return
    try:
        fleet.workers = history(lambda: with_silences(fleet.workers, now=fleet.now))
    except HistoryUnavailableError as error:
        fleet.lose_history(error)


def add_stored_workers(fleet: FleetWorkers, *, of_runs: Iterable[str] | None = None) -> None:
    """Add the workers that history alone knows and that held something, of all runs or of these."""
    known = [fact.record.worker for fact in fleet.workers]
    rows = Worker.objects.exclude(record__outstanding=[]).exclude(worker__in=known)
    rows = rows if of_runs is None else rows.filter(runs__overlap=list(of_runs))
    facts = []
    for row in rows_or_none(fleet, lambda: list(rows[:STORED_WORKERS])):
        try:
            record = parse_worker(encode_object(row.record), worker=row.worker)
        except MalformedRecordError:
            continue  # written by another version of this site
        facts.append(WorkerFact(record, health_of(record, row.last_heartbeat_at.timestamp(), fleet.now)))
    fleet.add(facts)


def typical_anywhere(index: Iterable[str], fleet: FleetWorkers) -> Typical:
    """Return what each op takes over the newest records of the most recently active runs, as Redis has them.

    `index` has the runs, newest first.
    """
    runs = or_none_where_live_is_out(lambda: readers.read_compared_runs(index)) or []
    return typical_of(runs, models=fleet.models)


# --- Many runs ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class KnownRun:
    """One run: its two sources, of lists the newest elements alone, and its facts."""

    sources: RunSources
    facts: RunFacts


def facts_of_runs(
    run_ids: Sequence[str], fleet: FleetWorkers, typical: Typical | None = None, rows: Mapping[str, Run] | None = None
) -> Iterator[KnownRun]:
    """Yield the facts of each run, in the order given; also of one that neither source knows.

    `typical` is what ops take anywhere; while Redis is out it is told from the first of these runs. `rows` are the
    runs' rows where they were read already.

    Raises:
        LiveDataUnavailableError: Redis went out since the workers were read.
    """
    stored = _stored_operations(fleet, run_ids[:STORED_RUNS]) if fleet.live is None else {}
    if typical is None:
        compared = run_ids[: readers.COMPARED_RUNS]
        typical = typical_of((), [record for run_id in compared for record in stored.get(run_id, ())])
    for start in range(0, len(run_ids), RUNS_AT_ONCE):
        chunk = run_ids[start : start + RUNS_AT_ONCE]
        known = rows if rows is not None else rows_of(fleet, chunk)
        live = _live_runs(fleet, chunk)
        for run_id in chunk:
            sources = RunSources(run_id, live.get(run_id), known.get(run_id), has_history=fleet.has_history)
            yield KnownRun(sources, _facts(sources, fleet, typical, stored.get(run_id, ())))


def rows_of(fleet: FleetWorkers, run_ids: Sequence[str]) -> dict[str, Run]:
    """Return the rows of runs in one query; `fleet` then says whether history could be asked."""
    found = Run.objects.filter(run_id__in=run_ids).order_by()
    return {run.run_id: run for run in rows_or_none(fleet, lambda: list(found))}


def _live_runs(fleet: FleetWorkers, run_ids: Sequence[str]) -> dict[str, readers.LiveRun]:
    if fleet.live is None:
        return {}
    runs = readers.read_runs(run_ids, newest=NEWEST_OPERATIONS, newest_samples=NEWEST_SAMPLES)
    if fleet.has_history:
        try:
            history(lambda: place_received(runs.values()))
        except HistoryUnavailableError as error:
            fleet.lose_history(error)
    return runs


def _stored_operations(fleet: FleetWorkers, run_ids: Sequence[str]) -> dict[str, list[wire.OpRecord]]:
    by_run: dict[str, list[wire.OpRecord]] = {}
    for record in rows_or_none(fleet, lambda: newest_of_runs(run_ids)):
        by_run.setdefault(record.run_id, []).append(record)
    return by_run


def rows_or_none(fleet: FleetWorkers, query: Callable[[], list[Any]]) -> list[Any]:
    """Return what PostgreSQL says, or nothing where it can't be asked: `fleet` then says so."""
    return stored_or([], fleet, query)


def stored_or(default: Any, fleet: FleetWorkers, query: Callable[[], Any]) -> Any:
    """Return what PostgreSQL says, or the default where it can't be asked: `fleet` then says so."""
    if not fleet.has_history:
        return default
    try:
        return history(query)
    except HistoryUnavailableError as error:
        fleet.lose_history(error)
        return default


# --- One run --------------------------------------------------------------------------------------------------
def facts_of_run(
    sources: RunSources, workers: readers.LiveWorkers | None = None, *, now: float
) -> tuple[RunFacts, FleetWorkers]:
    """Return the facts of one run, with all its newest ops, and the workers they were told from (`workers`, if read).

    With Redis out they are of the newest snapshot, and so is their `now`. `sources` then say what could not be seen.
    """
    clock = now if sources.live is not None or sources.row is None else to_unix(sources.row.last_snapshot_at) or now
    is_live, has_history = sources.live is not None, sources.has_history
    fleet = read_fleet_workers(now=clock, is_live=is_live, has_history=has_history, live=workers)
    add_stored_workers(fleet, of_runs=[sources.run_id])
    sources.has_history &= fleet.has_history
    operations = _all_operations(sources)
    records = [*operations, *_stored_operations_of_others(sources)]
    typical = typical_of(_compared_runs(sources), records, models=fleet.models)
    return _facts(sources, fleet, typical, operations), fleet


def _facts(sources: RunSources, fleet: FleetWorkers, typical: Typical, operations: Sequence[wire.OpRecord]) -> RunFacts:
    """Return a run's facts; `operations` are those at hand beside what Redis holds."""
    live, row = sources.live, sources.row
    workers = fleet.of_run(sources.run_id)
    activity = (live.last_activity_at if live else None, to_unix(row.last_activity_at) if row else None)
    return RunFacts(
        run_id=sources.run_id,
        now=fleet.now,
        workers=workers,
        learned=learned_of(row.op_seconds) if row else {},
        sample_seconds=sample_seconds(live) if live else (),
        **typical.facts(fleet.models.get(sources.run_id)),
        **by_redis_clock(
            sources.run_id,
            live.ledger if live and live.exists else _ledger_of_row(row),
            operations or (live.operations.records if live else ()),
            live.samples.records if live else (),
            max((at for at in activity if at is not None), default=None),
            workers,
        ),
    )


def _ledger_of_row(row: Run | None) -> Ledger:
    if row is None:
        return Ledger()
    return Ledger(enqueued=row.enqueued, popped=row.popped, answered=row.answered, delivered=row.delivered)


def _all_operations(sources: RunSources) -> list[wire.OpRecord]:
    """Return the newest ops of a run that its own expectation is taken from: of both sources, each once."""
    live = sources.live.operations.records if sources.live else []
    if sources.row is None or not sources.has_history or len(live) >= wire.LIST_LIMIT:
        return live
    try:
        stored = history(lambda: newest_of_run(sources.run_id, wire.LIST_LIMIT))
    except HistoryUnavailableError:
        sources.has_history = False
        return live
    return list({record.identity: record for record in [*stored, *live]}.values())


def _compared_runs(sources: RunSources) -> list[readers.LiveRun]:
    """Return the most recently active runs but this one, as Redis has them."""
    if sources.live is None:
        return []
    others = or_none_where_live_is_out(readers.read_compared_runs) or []
    return [run for run in others if run.run_id != sources.run_id]


def _stored_operations_of_others(sources: RunSources) -> list[wire.OpRecord]:
    """Return the newest stored ops of the most recently active runs but this one, where Redis is out."""
    if sources.live is not None or not sources.has_history:
        return []
    recent = Run.objects.exclude(run_id=sources.run_id).order_by("-last_activity_at", "run_id")
    try:
        return history(lambda: newest_of_runs(recent.values_list("run_id", flat=True)[: readers.COMPARED_RUNS]))
    except HistoryUnavailableError:
        sources.has_history = False
        return []
