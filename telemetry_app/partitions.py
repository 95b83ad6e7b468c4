"""Daily partitions (UTC) of the large tables: created ahead by calendar, and on demand for any day that has records.

There is no default partition: a row for a missing day would be refused, so the snapshot asks `ensure_days` for the
days of its rows first, in its own transaction. Nothing is lost for want of a partition: until there is one, the records
stay in Redis, and `missing_days` says so to the admin and to readiness.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import connection, migrations, models, transaction
from psycopg import sql

logger = logging.getLogger(__name__)

DAYS_BACK = 1
DAYS_AHEAD = 7
DAYS_NEEDED = 2  # today and tomorrow: one that is missing is a fault, not yet felt
_LOCK_KEY = 7_233_001  # advisory lock: one creator at a time, else two would race for one name
_NAME = re.compile(r"_p(\d{8})$")


class CreatePartitionedModel(migrations.CreateModel):
    """`CreateModel` whose table is range-partitioned by day of `at` and keyed by `(id, at)` in PostgreSQL.

    Django goes on seeing the single key `id`; PostgreSQL demands that a key of a partitioned table holds the
    partition column.
    """

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        table_sql = schema_editor.table_sql

        def partitioned_table_sql(model: type[models.Model]) -> tuple[str, list[Any]]:
            statement, params = table_sql(model)
            statement = statement.replace(" PRIMARY KEY", "", 1)
            head, tail = statement.rsplit(")", 1)
            return f'{head}, PRIMARY KEY ("id", "at")) PARTITION BY RANGE ("at"){tail}', params

        schema_editor.table_sql = partitioned_table_sql
        try:
            super().database_forwards(app_label, schema_editor, from_state, to_state)
        finally:
            schema_editor.table_sql = table_sql


@dataclass(frozen=True, slots=True)
class Partition:
    """One day (UTC) of one table. `rows_estimate` is what PostgreSQL's statistics say, `size_bytes` has the indexes."""

    table: str
    day: date
    rows_estimate: int
    size_bytes: int

    @property
    def name(self) -> str:
        """The name of the partition's own table."""
        return partition_name(self.table, self.day)


def partitioned_models() -> tuple[type[models.Model], ...]:
    """Return the models whose tables are partitioned by day."""
    from telemetry_app.models import Operation, Sample, Turn  # models import nothing of ours at load, we do

    return (Operation, Sample, Turn)


def partition_name(table: str, day: date) -> str:
    """Return the name of a table's partition for one day (UTC)."""
    return f"{table}_p{day:%Y%m%d}"


def existing_days(table: str) -> set[date]:
    """Return the days for which a table has a partition."""
    return _days_of([table])[table]


def missing_days(today: date) -> list[str]:
    """Return the names of the partitions of today and tomorrow that are missing: one cheap query."""
    found = _days_of(_tables())
    needed = [today + timedelta(days=offset) for offset in range(DAYS_NEEDED)]
    return [partition_name(table, day) for table, days in found.items() for day in needed if day not in days]


def list_partitions(*tables: str) -> list[Partition]:
    """Return the partitions of these tables (of all that are partitioned, where none is named), oldest day first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT parent.relname, child.relname,"
            " COALESCE(NULLIF(pg_stat_get_live_tuples(child.oid), 0), GREATEST(child.reltuples, 0))::bigint,"
            " pg_total_relation_size(child.oid)"
            f" FROM {_ATTACHED} WHERE parent.relname = ANY(%s) AND pg_table_is_visible(parent.oid)",
            [list(tables) or _tables()],
        )
        found = [(table, _day_of(name), rows, size) for table, name, rows, size in cursor.fetchall()]
    return sorted(
        (Partition(table, day, rows, size) for table, day, rows, size in found if day),
        key=lambda partition: (partition.day, partition.table),
    )


def ensure_days(model: type[models.Model], days: Iterable[date]) -> list[date]:
    """Create the partitions that are missing for `days` and return the days created, oldest first."""
    table = model._meta.db_table
    wanted = set(days)
    if not wanted or _are_attached([partition_name(table, day) for day in wanted]):
        return []
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK_KEY])
        missing = sorted(wanted - existing_days(table))
        for day in missing:
            for statement in _create_statements(table, day):
                cursor.execute(statement.as_string(cursor.connection))
    if missing:
        logger.info("created %s partitions of %s", len(missing), table)
    return missing


def ensure_ahead(today: date) -> int:
    """Create the partitions from a day back to a week ahead of `today`; return how many were missing."""
    days = [today + timedelta(days=offset) for offset in range(-DAYS_BACK, DAYS_AHEAD + 1)]
    return sum(len(ensure_days(model, days)) for model in partitioned_models())


def create_after_migrate(**_: object) -> None:
    """Create the partitions around today once the tables are there (a receiver of `post_migrate`)."""
    if set(_tables()) <= set(connection.introspection.table_names()):
        with transaction.atomic():
            ensure_ahead(datetime.now(UTC).date())


_ATTACHED = "pg_inherits JOIN pg_class child ON child.oid = inhrelid JOIN pg_class parent ON parent.oid = inhparent"


def _tables() -> list[str]:
    return [model._meta.db_table for model in partitioned_models()]


def _day_of(name: str) -> date | None:
    found = _NAME.search(name)
    return date.fromisoformat(found[1]) if found else None


def _days_of(tables: list[str]) -> dict[str, set[date]]:
    """Return the days of the partitions of each table."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT parent.relname, child.relname FROM {_ATTACHED}"
            " WHERE parent.relname = ANY(%s) AND pg_table_is_visible(parent.oid)",
            [tables],
        )
        found = [(table, _day_of(name)) for table, name in cursor.fetchall()]
    return {table: {day for owner, day in found if owner == table and day} for table in tables}


def _are_attached(names: list[str]) -> bool:
    """Return whether all these partitions are there: a look at each of them, however many others there are."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_class"
            " WHERE oid = ANY(ARRAY(SELECT to_regclass(name)::oid FROM unnest(%s::text[]) AS name)) AND relispartition",
            [names],
        )
        return bool(cursor.fetchone()[0] == len(names))


def _create_statements(table: str, day: date) -> list[sql.Composed]:
    """Make the table first and attach it then: `PARTITION OF` would lock out the parent's readers, and wait for them.

    The parent's keys and indexes are made by the attaching.
    """
    parent, child = sql.Identifier(table), sql.Identifier(partition_name(table, day))
    first, behind = (f"{at.isoformat()} 00:00:00+00" for at in (day, day + timedelta(days=1)))
    return [
        sql.SQL(
            "CREATE TABLE {} (LIKE {} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE INCLUDING COMPRESSION)"
        ).format(child, parent),
        sql.SQL("ALTER TABLE {} ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
            parent, child, sql.Literal(first), sql.Literal(behind)
        ),
    ]
