"""Expired days of partitioned tables: dropped whole, or row by row where a pinned run has some of them.

A day is dropped in two steps. First it is detached and renamed, which locks the table for a moment. Then, out of
everyone's way, its rows are counted and it is dropped; where that was cut short the next execution does it.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

from django.db import InternalError, OperationalError, connection, transaction
from psycopg import sql
from psycopg.errors import DependentObjectsStillExist, LockNotAvailable

from telemetry_app.partitions import Partition, list_partitions
from telemetry_app.removal import Removal
from telemetry_app.retention_policies import Holding

# While a lock is waited for, everyone who comes later waits too: never for a second.
LOCK_TIMEOUT_MILLISECONDS = 500
LOCK_TRIES = 4
LOCK_PAUSE_SECONDS = 0.5
CHUNK_BLOCKS = 128  # one MiB of a table
REMOVED_SUFFIX = "_removed"
_COUNT_TIMEOUT = "10min"  # nobody waits for a table that is detached


class _HasKeptRowsError(Exception):
    """A pinned run has rows of this day: it can't be dropped whole."""


class HeldDaysError(Exception):
    """Views or other objects that are not ours depend on days that are detached: nobody but their owner drops them."""


def remove_days(holding: Holding, before: datetime, removal: Removal) -> None:
    """Remove the days of a table that ended at `before` or earlier, oldest first.

    Raises:
        OperationalError: someone used the table for longer than we wait; what went before stays gone.
        HeldDaysError: what depends on a day keeps it from being dropped; all others are gone.
    """
    held: list[str] = []
    for name in _detached_tables(holding.table):
        held += _drop_unless_held(name, removal)
    for partition in list_partitions(holding.table):
        if removal.is_out_of_time() or partition.day >= before.date():
            break
        held += _remove_day(partition, holding, removal)
    if held:
        raise HeldDaysError(f"Drop what depends on them, and the next retention drops them: {'; '.join(held)}")


def _remove_day(partition: Partition, holding: Holding, removal: Removal) -> list[str]:
    """Remove a day; return what keeps it."""
    try:
        _detach_with_patience(partition, holding)
    except _HasKeptRowsError:
        _delete_rows(partition.name, holding, removal)
        return []
    return _drop_unless_held(partition.name + REMOVED_SUFFIX, removal)


def _drop_unless_held(name: str, removal: Removal) -> list[str]:
    """Drop a detached table; return what depends on it, in PostgreSQL's words, where that keeps it."""
    try:
        _drop(name, removal)
    except InternalError as error:
        if not isinstance(error.__cause__, DependentObjectsStillExist):
            raise
        return [(error.__cause__.diag.message_detail or name).replace("\n", ", ")]
    return []


def _detach_with_patience(partition: Partition, holding: Holding) -> None:
    """Detach a day, trying again where someone uses the table."""
    if _has_kept_rows(partition.name, holding):  # before any lock is asked for
        raise _HasKeptRowsError
    for tries_left in range(LOCK_TRIES - 1, -1, -1):
        try:
            _detach(partition, holding)
            return
        except OperationalError as error:
            if not tries_left or not isinstance(error.__cause__, LockNotAvailable):
                raise
        time.sleep(LOCK_PAUSE_SECONDS)


def _detach(partition: Partition, holding: Holding) -> None:
    parent, child = sql.Identifier(partition.table), sql.Identifier(partition.name)
    removed = partition.name + REMOVED_SUFFIX
    with transaction.atomic():
        _run(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(f"{LOCK_TIMEOUT_MILLISECONDS}ms")))
        _run(sql.SQL("ALTER TABLE {} DETACH PARTITION {}").format(parent, child))
        _run(sql.SQL("ALTER TABLE {} RENAME TO {}").format(child, sql.Identifier(removed)))
        if _has_kept_rows(removed, holding):  # a run that was pinned in between
            raise _HasKeptRowsError


def _drop(name: str, removal: Removal) -> None:
    """Drop a table that is detached, and count what was in it."""
    table = sql.Identifier(name)
    with transaction.atomic():
        _run(sql.SQL("SET LOCAL statement_timeout = {}").format(sql.Literal(_COUNT_TIMEOUT)))
        [rows, size_bytes] = _run(
            sql.SQL("SELECT count(*), pg_total_relation_size({}::regclass) FROM {}").format(sql.Literal(name), table)
        )
        _run(sql.SQL("DROP TABLE {}").format(table))
        removal.count(rows=rows, size_bytes=size_bytes)
    removal.report(rows)


def _delete_rows(name: str, holding: Holding, removal: Removal) -> None:
    """Delete what no pinned run keeps, block by block: no row is looked at twice, and no list of them is held."""
    table, kept = sql.Identifier(name), sql.SQL(holding.kept_sql)
    some = sql.SQL("SELECT EXISTS (SELECT FROM {table} WHERE ({kept}) IS NOT TRUE)")
    if not _run(some.format(table=table, kept=kept))[0]:  # an earlier execution did it: most days of pinned runs
        return
    statement = sql.SQL(
        "WITH gone AS (DELETE FROM {table} WHERE ctid >= {first}::tid AND ctid < {behind}::tid"
        " AND ({kept}) IS NOT TRUE RETURNING pg_column_size({table}.*) AS size)"
        " SELECT count(*), COALESCE(sum(size), 0)::bigint FROM gone"
    )
    for first in range(0, _blocks(name), CHUNK_BLOCKS):
        if removal.is_out_of_time():
            return
        bounds = {"first": sql.Literal(f"({first},0)"), "behind": sql.Literal(f"({first + CHUNK_BLOCKS},0)")}
        with transaction.atomic():
            [rows, size_bytes] = _run(statement.format(table=table, kept=kept, **bounds))
            removal.count(rows=rows, size_bytes=size_bytes)
        removal.report(rows)


def _has_kept_rows(name: str, holding: Holding) -> bool:
    statement = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {})")
    return bool(_run(statement.format(sql.Identifier(name), sql.SQL(holding.kept_sql)))[0])


def _blocks(name: str) -> int:
    statement = sql.SQL("SELECT pg_relation_size({}::regclass) / current_setting('block_size')::int")
    return int(_run(statement.format(sql.Literal(name)))[0])


def _detached_tables(table: str) -> list[str]:
    """Return the days that an earlier execution detached and did not drop."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND NOT relispartition"
            " AND pg_table_is_visible(oid) AND relname ~ %s ORDER BY relname",
            [f"^{table}_p[0-9]{{8}}{REMOVED_SUFFIX}$"],
        )
        return [name for (name,) in cursor.fetchall()]


def _run(statement: sql.Composable) -> tuple[Any, ...]:
    """Run a statement and return its first row, or nothing where it has none."""
    with connection.cursor() as cursor:
        cursor.execute(statement.as_string(cursor.connection))
        return cursor.fetchone() if cursor.description else ()
