"""Write many rows once: COPY into a staging table, then INSERT … ON CONFLICT DO NOTHING.

COPY itself has no ON CONFLICT, and `bulk_create` is nine times slower (`docs/performance.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, models
from psycopg import sql

# A record delivered again may bring another finish time, which the unique constraint can't see: it has to hold `at`.
REDELIVERY_SPAN = timedelta(days=1)


def insert_once(
    model: type[models.Model],
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    *,
    owner: str,
    returning: Sequence[str],
) -> list[tuple[Any, ...]]:
    """Insert the rows that are not stored yet and return the `returning` columns of those inserted.

    Must run inside a transaction: the staging table ends with it. A row counts as stored where one of the model's
    unique constraints says so, or where one of its `record_id` and `owner` column ended within a day of the new ones.
    """
    if not rows:
        return []
    table = sql.Identifier(model._meta.db_table)
    staging = sql.Identifier(f"staging_{model._meta.db_table}")
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    with connection.cursor() as cursor:
        raw = cursor.connection
        create = sql.SQL("CREATE TEMP TABLE {} ON COMMIT DROP AS SELECT {} FROM {} WITH NO DATA")
        cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(staging).as_string(raw))
        cursor.execute(create.format(staging, names, table).as_string(raw))
        with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(staging, names).as_string(raw)) as copy:
            for row in rows:
                copy.write_row(row)
        insert = sql.SQL(
            "INSERT INTO {table} ({names}) SELECT {names} FROM {staging} new WHERE NOT EXISTS ("
            "SELECT FROM {table} old WHERE old.{owner} = new.{owner} AND old.record_id = new.record_id"
            " AND old.at BETWEEN {first} AND {last}"
            ") ON CONFLICT DO NOTHING RETURNING {returning}"
        ).format(
            table=table,
            names=names,
            staging=staging,
            owner=sql.Identifier(owner),
            first=sql.Literal(min(_ends(columns, rows)) - REDELIVERY_SPAN),
            last=sql.Literal(max(_ends(columns, rows)) + REDELIVERY_SPAN),
            returning=sql.SQL(", ").join(map(sql.Identifier, returning)),
        )
        cursor.execute(insert.as_string(raw))
        inserted: list[tuple[Any, ...]] = cursor.fetchall()
        cursor.execute(sql.SQL("DROP TABLE {}").format(staging).as_string(raw))
    return inserted


def _ends(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[datetime]:
    at = columns.index("at")
    return [row[at] for row in rows]
