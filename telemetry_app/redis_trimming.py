"""What leaves Redis: runs, workloads and workers that were idle for long, once PostgreSQL has all of them.

The step count of a run alone stays, for a year: a trainer that comes back goes on with its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from django.db import transaction

from telemetry_app import locks
from telemetry_app.models import ListCursor, Run, Worker
from telemetry_app.redis_removal import StaysError, idle_members, is_idle, require, watching
from telemetry_app.removal import Removal
from workers_client import wire
from workers_client import wire_values as values
from workers_client.exceptions import MalformedRecordError
from workers_client.wire_worker import parse_ledger

STEPS_KEPT = timedelta(days=365)
WORKERS_AT_ONCE = 500
_NEVER = datetime.fromtimestamp(0, UTC)

Parse = Callable[[bytes], Any]


def trim_idle(before: datetime, removal: Removal) -> None:
    """Remove from Redis what was idle since before `before` and is in PostgreSQL.

    Raises:
        LiveDataUnavailableError: Redis can't be asked; what went before stays gone.
    """
    now = removal.execution.started_at
    idle: list[tuple[Callable[[Any, datetime, Removal], bool], Iterator[Any]]] = [
        (trim_run, _idle_runs(before, now)),
        (_trim_workload, filter(_is_text, idle_members(wire.WORKLOADS_KEY, before, now))),
        (_trim_workers, _batches(filter(_is_text, idle_members(wire.WORKERS_KEY, before, now)))),
    ]
    for trim, whats in idle:
        for what in whats:
            if removal.is_out_of_time():
                return
            trim(what, before, removal)


def trim_run(run_id: str, before: datetime, removal: Removal) -> bool:
    """Remove an idle run's keys; return whether Redis holds nothing of it now but its step count.

    Its cursors, and the ledger's counts that were seen, begin anew with it: should the run come back, its lists and its
    ledger are empty, and all totals go on from what is stored.

    Raises:
        LiveDataUnavailableError: Redis can't be asked.
    """
    return _done(_trim_run, run_id, before, removal)


def _trim_workload(workload: str, before: datetime, removal: Removal) -> bool:
    return _done(_trim_turns, workload, before, removal)


def _trim_workers(workers: list[str], before: datetime, removal: Removal) -> bool:
    return _done(_trim_heartbeats, workers, before, removal)


def _done(
    trim: Callable[[Any, datetime, Removal], tuple[int, int]], what: Any, before: datetime, removal: Removal
) -> bool:
    """Trim in one transaction. Redis comes last in it: what fails before leaves both sides as they were.

    A transaction that fails after Redis removed the keys leaves cursors of lists that are gone: see `_idle_runs`.
    """
    try:
        with transaction.atomic():
            keys, size_bytes = trim(what, before, removal)
            removal.count(keys=keys, size_bytes=size_bytes)
    except StaysError:
        return False
    removal.report(keys)
    return True


def _trim_run(run_id: str, before: datetime, removal: Removal) -> tuple[int, int]:
    require(locks.take_until_commit(locks.run_lock(run_id)))
    run = Run.objects.filter(pk=run_id, last_activity_at__lt=before).first()
    if run is None:
        raise StaysError
    lists: dict[str, Parse] = {
        wire.operations_key(run_id): lambda raw: wire.parse_operation(raw, run_id=run_id),
        wire.samples_key(run_id): lambda raw: wire.parse_sample(raw, run_id=run_id),
    }
    cursors = _begin_anew(lists)
    Run.objects.filter(pk=run_id).update(ledger_seen={})
    ledger, steps = wire.ledger_key(run_id), wire.steps_key(run_id)
    gone = [*lists, ledger, wire.step_times_key(run_id)]
    with watching(*gone, steps) as keys:
        require(is_idle(keys.activity(wire.RUNS_KEY, run_id), before, removal.execution.started_at))
        for key, parse in lists.items():
            require(is_taken(keys.elements(key), cursors.get(key), parse))
        require(_is_ledger_taken(keys.fields(ledger), run.ledger_seen))
        require(keys.whole_number(steps) <= run.steps_completed)
        return keys.remove(gone, index=wire.RUNS_KEY, members=[run_id], expiring=(steps, STEPS_KEPT))


def _trim_turns(workload: str, before: datetime, removal: Removal) -> tuple[int, int]:
    require(locks.take_until_commit(locks.turns_lock(workload)))
    key = wire.turns_key(workload)
    cursor = _begin_anew([key]).get(key)
    # A clock that is far ahead says nothing: then it counts when turns were last taken.
    require(cursor is None or cursor.moved_at is None or cursor.moved_at < before)
    with watching(key) as keys:
        require(is_idle(keys.activity(wire.WORKLOADS_KEY, workload), before, removal.execution.started_at))
        require(is_taken(keys.elements(key), cursor, lambda raw: wire.parse_turn(raw, workload=workload)))
        return keys.remove([key], index=wire.WORKLOADS_KEY, members=[workload])


def _trim_heartbeats(workers: list[str], before: datetime, removal: Removal) -> tuple[int, int]:
    """A worker's record has expired by itself; one that has not must be in PostgreSQL."""
    records = [wire.worker_key(worker) for worker in workers]
    stored = dict(Worker.objects.filter(pk__in=workers).values_list("worker", "last_heartbeat_at"))
    with watching(*records) as keys:
        activities, are_there = keys.activities(wire.WORKERS_KEY, workers), keys.are_there(records)
        gone = {
            worker: is_there
            for worker, activity, is_there in zip(workers, activities, are_there, strict=True)
            if is_idle(activity, before, removal.execution.started_at)
            and not (is_there and stored.get(worker, _NEVER).timestamp() < (activity or 0.0))
            and stored.get(worker, _NEVER) < before
        }
        require(bool(gone))
        present = [wire.worker_key(worker) for worker, is_there in gone.items() if is_there]
        return keys.remove(present, index=wire.WORKERS_KEY, members=list(gone))


def is_taken(elements: Sequence[bytes], cursor: ListCursor | None, parse: Parse) -> bool:
    """Whether every element of a list was taken, or counted as malformed, when its cursor was moved.

    What lies behind the cursor's record must be malformed, as many as were counted, or be a record once more.
    """
    newest_record_id = cursor.newest_record_id if cursor else ""
    identities = [_identity(element, parse) for element in elements]
    place = max((at for at, identity in enumerate(identities) if identity and identity == newest_record_id), default=-1)
    known = set(elements[: place + 1])
    behind = list(zip(elements[place + 1 :], identities[place + 1 :], strict=True))
    malformed_count = sum(identity is None for _, identity in behind)
    return malformed_count == (cursor.malformed_behind if cursor and behind else 0) and all(
        element in known for element, identity in behind if identity is not None
    )


def _identity(element: bytes, parse: Parse) -> str | None:
    try:
        identity: str = parse(element).identity
    except MalformedRecordError:
        return None
    return identity


def _is_ledger_taken(fields: Mapping[bytes, bytes], seen: Mapping[str, int]) -> bool:
    counts = parse_ledger(fields)
    return not fields or all((getattr(counts, name) or 0) == seen.get(name, 0) for name in wire.LEDGER_COUNTS)


def _begin_anew(list_keys: Iterable[str]) -> dict[str, ListCursor]:
    """Make the cursors of lists those of empty ones, and return what they were."""
    cursors = ListCursor.objects.filter(list_key__in=list(list_keys))
    before = {cursor.list_key: cursor for cursor in cursors}
    cursors.update(newest_record_id="", malformed_behind=0)
    return before


def _is_text(name: str) -> bool:
    """Whether PostgreSQL can hold it; what it can't was never a worker or a workload for us, and stays alone."""
    return values.text(name) == name


def _batches(names: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(dict.fromkeys(islice(names, WORKERS_AT_ONCE))):
        yield batch


def _idle_runs(before: datetime, now: datetime) -> Iterator[str]:
    """Give the runs that look idle in Redis's index, and those whose lists were taken long ago and have a cursor still.

    Those are lists that no index names, as OpenRL's own, and lists that an execution removed before it was killed.
    """
    yield from filter(wire.is_run_id, idle_members(wire.RUNS_KEY, before, now))
    prefix, suffix = wire.OPERATIONS_KEY_PREFIX, wire.SAMPLES_KEY_SUFFIX
    taken = ListCursor.objects.filter(list_key__startswith=prefix, moved_at__lt=before).exclude(newest_record_id="")
    for key in taken.values_list("list_key", flat=True).iterator(chunk_size=500):
        yield key.removeprefix(prefix).removesuffix(suffix)
