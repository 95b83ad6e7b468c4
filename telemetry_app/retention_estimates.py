"""What each policy would free right now: exactly, for a dry run, or at a glance, for a page."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, time
from typing import Any

from django.db import connection, transaction
from django.utils import timezone
from psycopg import sql

from telemetry_app.instants import rfc3339
from telemetry_app.models import RetentionPolicy
from telemetry_app.partitions import Partition, list_partitions
from telemetry_app.retention_policies import HOLDINGS, Holding, cutoff_at, ensure_policies, policies_in_order

COUNTED_ROWS = 10_000  # up to so many are counted for a page; beyond, the planner's estimate stands
_COUNT_TIMEOUT = "10min"


@dataclass(frozen=True, slots=True)
class Expired:
    """Rows older than a policy keeps and their bytes: of whole days with indexes, else of the rows themselves.

    Of runs the runs alone count, not what is left of their details. `oldest_at` is the oldest row there is; of tables
    with a partition a day, its day.
    """

    policy: str
    cutoff_at: datetime | None
    rows: int
    size_bytes: int
    oldest_at: datetime | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the values by name, as commands report them."""
        return asdict(self) | {"cutoff_at": rfc3339(self.cutoff_at), "oldest_at": rfc3339(self.oldest_at)}


def exact_expired(*, now: datetime | None = None) -> list[Expired]:
    """Count what each policy with days to keep would remove. Reads all of it: not for a page."""
    ensure_policies()
    found = []
    for policy in policies_in_order().exclude(days_to_keep=None):
        before = _cutoff(policy, now or timezone.now())
        rows, size_bytes = _count(HOLDINGS[policy.kind], before)
        found.append(Expired(policy.kind, before, rows, size_bytes, oldest_at(HOLDINGS[policy.kind])))
    return found


def estimate_expired(policy: RetentionPolicy, *, now: datetime) -> Expired:
    """Estimate what a policy would remove, from PostgreSQL's statistics: whole days where there are such.

    A pinned run's rows are not told apart there.
    """
    holding = HOLDINGS[policy.kind]
    before = _cutoff(policy, now)
    if before is None:
        return Expired(policy.kind, None, 0, 0)
    if holding.is_partitioned:
        days = _expired_days(holding, before)
        rows, size_bytes = sum(day.rows_estimate for day in days), sum(day.size_bytes for day in days)
    else:
        rows, size_bytes = _estimate_plain(holding, before)
    return Expired(policy.kind, before, rows, size_bytes)


def oldest_at(holding: Holding) -> datetime | None:
    """Return the oldest row's instant; of partitioned tables the oldest day that has rows."""
    if not holding.is_partitioned:
        at = holding.at_column
        return holding.model._default_manager.order_by(at).values_list(at, flat=True).first()
    # One question for all days, oldest first; the first that has a row ends it.
    days = [
        sql.SQL("SELECT {} WHERE EXISTS (SELECT FROM {})").format(
            sql.Literal(partition.day), sql.Identifier(partition.name)
        )
        for partition in list_partitions(holding.table)
    ]
    if not days:
        return None
    with connection.cursor() as cursor:
        cursor.execute((sql.SQL(" UNION ALL ").join(days) + sql.SQL(" LIMIT 1")).as_string(cursor.connection))
        found = cursor.fetchone()
    return datetime.combine(found[0], time.min, UTC) if found else None


def _cutoff(policy: RetentionPolicy, now: datetime) -> Any:
    return None if policy.days_to_keep is None else cutoff_at(now, policy.days_to_keep)


def _expired_days(holding: Holding, before: datetime) -> list[Partition]:
    return [partition for partition in list_partitions(holding.table) if partition.day < before.date()]


# --- Exactly --------------------------------------------------------------------------------------------------
def _count(holding: Holding, before: datetime) -> tuple[int, int]:
    if not holding.is_partitioned:
        return _count_table(holding.table, holding, before)
    counts = [
        _count_table(day.name, holding, before, whole_bytes=day.size_bytes) for day in _expired_days(holding, before)
    ]
    return sum(rows for rows, _ in counts), sum(size_bytes for _, size_bytes in counts)


def _count_table(table: str, holding: Holding, before: datetime, *, whole_bytes: int | None = None) -> tuple[int, int]:
    """Count the expired rows of a table. Where all of a day goes, its bytes are those of the whole day."""
    statement = sql.SQL(
        "SELECT count(*) FILTER (WHERE goes), COALESCE(sum(size) FILTER (WHERE goes), 0)::bigint, bool_and(goes)"
        " FROM (SELECT ({kept}) IS NOT TRUE AS goes, pg_column_size({table}.*) AS size FROM {table}"
        " WHERE {at} < {before}) AS expired"
    ).format(
        table=sql.Identifier(table),
        at=sql.Identifier(holding.at_column),
        before=sql.Literal(before),
        kept=sql.SQL(holding.kept_sql),
    )
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL statement_timeout = '{_COUNT_TIMEOUT}'")
        cursor.execute(statement.as_string(cursor.connection))
        rows, size_bytes, is_whole = cursor.fetchone()
    return rows, whole_bytes if whole_bytes is not None and is_whole is not False else size_bytes


# --- At a glance ----------------------------------------------------------------------------------------------
def _estimate_plain(holding: Holding, before: datetime) -> tuple[int, int]:
    """Count up to a limit, by an index; beyond it, ask the planner. Bytes are the table's share of its rows."""
    expired = holding.model._default_manager.filter(**{f"{holding.at_column}__lt": before})
    rows = expired.order_by(holding.at_column)[:COUNTED_ROWS].count()
    if rows == COUNTED_ROWS:
        [plan] = json.loads(expired.order_by().explain(format="json"))
        rows = max(rows, int(plan["Plan"]["Plan Rows"]))
    return rows, round(rows * _bytes_a_row(holding.table))


def _bytes_a_row(table: str) -> float:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_total_relation_size(oid),"
            " COALESCE(NULLIF(pg_stat_get_live_tuples(oid), 0), GREATEST(reltuples, 0))::bigint"
            " FROM pg_class WHERE oid = %s::regclass",
            [table],
        )
        size_bytes, rows = cursor.fetchone()
    return size_bytes / rows if rows else 0.0
