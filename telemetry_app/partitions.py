"""Daily partitions (UTC) of the large tables: created ahead by calendar, and on demand for any day that has records.

There is no default partition: a row for a missing day would be refused, so the snapshot asks `ensure_days` for the
days of its rows first, in its own transaction. Nothing is lost for want of a partition.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import connection, migrations, models
from psycopg import sql

logger = logging.getLogger(__name__)

DAYS_BACK = 1
DAYS_AHEAD = 7
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


def partitioned_models() -> tuple[type[models.Model], ...]:
    """Return the models whose tables are partitioned by day."""
    from telemetry_app.models import Operation, Sample, Turn  # models import nothing of ours at load, we do

    return (Operation, Sample, Turn)


def partition_name(table: str, day: date) -> str:
    """Return the name of a table's partition for one day (UTC)."""
    return f"{table}_p{day:%Y%m%d}"


def existing_days(table: str) -> set[date]:
    """Return the days for which a table has a partition."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT child.relname FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid "
            "JOIN pg_class parent ON parent.oid = inhparent WHERE parent.relname = %s "
            "AND pg_table_is_visible(parent.oid)",
            [table],
        )
        names = [row[0] for row in cursor.fetchall()]
    return {date.fromisoformat(found[1]) for name in names if (found := _NAME.search(name))}


def ensure_days(model: type[models.Model], days: Iterable[date]) -> list[date]:
    """Create the partitions that are missing for `days` and return the days created, oldest first."""
    table = model._meta.db_table
    wanted = set(days)
    if not wanted - existing_days(table):
        return []
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK_KEY])
        missing = sorted(wanted - existing_days(table))
        for day in missing:
            cursor.execute(_create_statement(table, day, cursor.connection))
    if missing:
        logger.info("created %s partitions of %s", len(missing), table)
    return missing


def ensure_ahead(today: date) -> int:
    """Create the partitions from a day back to a week ahead of `today`; return how many were missing."""
    days = [today + timedelta(days=offset) for offset in range(-DAYS_BACK, DAYS_AHEAD + 1)]
    return sum(len(ensure_days(model, days)) for model in partitioned_models())


def drop_before(model: type[models.Model], day: date) -> int:
    """Drop the partitions of days before `day` and return how many rows went with them."""
    table = model._meta.db_table
    rows = 0
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '900ms'")  # never hold up readers and writers for a second
        for old in sorted(found for found in existing_days(table) if found < day):
            name = sql.Identifier(partition_name(table, old))
            cursor.execute(sql.SQL("SELECT count(*) FROM {}").format(name).as_string(cursor.connection))
            rows += cursor.fetchone()[0]
            cursor.execute(sql.SQL("DROP TABLE {}").format(name).as_string(cursor.connection))
    return rows


def create_after_migrate(**_: object) -> None:
    """Create the partitions around today once the tables are there (a receiver of `post_migrate`)."""
    if connection.introspection.table_names() and set(_tables()) <= set(connection.introspection.table_names()):
        from django.db import transaction

        with transaction.atomic():
            ensure_ahead(datetime.now(UTC).date())


def _tables() -> list[str]:
    return [model._meta.db_table for model in partitioned_models()]


def _create_statement(table: str, day: date, raw_connection: Any) -> str:
    return (
        sql.SQL("CREATE TABLE IF NOT EXISTS {} PARTITION OF {} FOR VALUES FROM ({}) TO ({})")
        .format(
            sql.Identifier(partition_name(table, day)),
            sql.Identifier(table),
            sql.Literal(f"{day.isoformat()} 00:00:00+00"),
            sql.Literal(f"{(day + timedelta(days=1)).isoformat()} 00:00:00+00"),
        )
        .as_string(raw_connection)
    )
