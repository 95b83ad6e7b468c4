"""Write many rows once: COPY into a staging table, then INSERT … ON CONFLICT DO NOTHING.

COPY itself has no ON CONFLICT, and `bulk_create` is nine times slower (`docs/performance.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection, models
from psycopg import sql


def insert_once(
    model: type[models.Model], columns: Sequence[str], rows: Sequence[tuple[Any, ...]], *, returning: Sequence[str]
) -> list[tuple[Any, ...]]:
    """Insert the rows that are not stored yet and return the `returning` columns of those inserted.

    Must run inside a transaction: the staging table ends with it. A row counts as stored where one of the model's
    unique constraints says so.
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
        insert = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT DO NOTHING RETURNING {}")
        cursor.execute(
            insert.format(table, names, names, staging, sql.SQL(", ").join(map(sql.Identifier, returning))).as_string(
                raw
            )
        )
        inserted: list[tuple[Any, ...]] = cursor.fetchall()
        cursor.execute(sql.SQL("DROP TABLE {}").format(staging).as_string(raw))
    return inserted
