"""Runs whose time is over: each goes with all that history has of it, once Redis holds nothing of it any more."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db import transaction
from django.db.models import Q
from psycopg import sql

from telemetry_app import locks, redis_trimming
from telemetry_app.models import (
    Gap,
    Incident,
    ListCursor,
    Operation,
    Run,
    Sample,
    StepAggregate,
    StepTime,
    Turn,
    Worker,
)  # fmt: skip
from telemetry_app.partitions import list_partitions
from telemetry_app.removal import Removal, remove_rows
from telemetry_app.retention_policies import OF_PINNED_RUNS
from workers_client import wire

RUNS_PER_QUERY = 200


def remove_runs(before: datetime, removal: Removal) -> None:
    """Remove the runs whose newest activity is older than `before`, oldest first, and the workers of that time.

    Pinned runs stay, and so does one that Redis holds something new of.

    Raises:
        LiveDataUnavailableError: Redis can't be asked; a run that it holds would come back.
    """
    for run_id in _expired_runs(before):
        if removal.is_out_of_time():
            return
        with locks.held(locks.run_lock(run_id)) as is_free:  # else a snapshot takes it right now
            if is_free and redis_trimming.trim_run(run_id, before, removal):
                _remove_run(run_id, before, removal)
    gone = sql.SQL("last_heartbeat_at < {} AND ({}) IS NOT TRUE").format(sql.Literal(before), sql.SQL(OF_PINNED_RUNS))
    remove_rows(Worker._meta.db_table, "last_heartbeat_at", gone, removal, start="-infinity")


def _expired_runs(before: datetime) -> Iterator[str]:
    """Give the ids of expired runs, oldest first; one that stays is given once."""
    behind = Q()
    while True:
        expired = Run.objects.filter(behind, last_activity_at__lt=before, pinned=False)
        rows = expired.order_by("last_activity_at", "run_id").values_list("last_activity_at", "run_id")
        found = list(rows[:RUNS_PER_QUERY])
        yield from (run_id for _, run_id in found)
        if len(found) < RUNS_PER_QUERY:
            return
        at, last = found[-1]
        behind = Q(last_activity_at__gt=at) | Q(last_activity_at=at, run_id__gt=last)


def _remove_run(run_id: str, before: datetime, removal: Removal) -> None:
    """Remove the details in chunks, then the run itself; what a kill leaves goes the next time."""
    of_run = sql.SQL("run_id = {}").format(sql.Literal(run_id))
    for partition in list_partitions(Operation._meta.db_table, Sample._meta.db_table):
        remove_rows(partition.name, "at", of_run, removal, start="-infinity")
    alone = sql.SQL("runs = ARRAY[{}]::varchar[]").format(sql.Literal(run_id))
    for partition in list_partitions(Turn._meta.db_table):
        remove_rows(partition.name, "at", alone, removal, start="-infinity")
    for model in (StepAggregate, StepTime):
        remove_rows(model._meta.db_table, "step", of_run, removal, start=0)
    if not removal.is_out_of_time():
        _remove_row(run_id, before, removal)


def _remove_row(run_id: str, before: datetime, removal: Removal) -> None:
    with transaction.atomic():
        rows, _ = Run.objects.filter(pk=run_id, last_activity_at__lt=before, pinned=False).delete()
        if not rows:  # it came back, or was pinned meanwhile
            return
        rows += Gap.objects.filter(run_id=run_id).delete()[0]
        rows += Incident.objects.filter(run_id=run_id).delete()[0]
        ListCursor.objects.filter(list_key__in=[wire.operations_key(run_id), wire.samples_key(run_id)]).delete()
        removal.count(rows=rows)
    removal.report(rows)
