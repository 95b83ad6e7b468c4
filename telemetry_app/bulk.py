"""Write many rows once, by binary COPY: straight into the table where no row can be stored yet, else through staging.

COPY itself has no ON CONFLICT, and `bulk_create` is several times slower (`docs/performance.md`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

from django.db import connection, models, transaction
from django.db.utils import IntegrityError
from psycopg import sql
from psycopg.copy import LibpqWriter, QueuedLibpqWriter

from telemetry_app import binary_copy
from telemetry_app.instants import from_unix

# A record delivered again may bring another finish time, which the unique constraint can't see: it has to hold `at`.
REDELIVERY_SPAN = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Inserted:
    """The `record_id`s that were inserted, and how many others are stored with other content."""

    record_ids: frozenset[str]
    conflicts_count: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """Where rows go: the columns of a row, the column that owns a `record_id`, and those that make its content."""

    model: type[models.Model]
    columns: tuple[str, ...]
    owner: str = ""
    content: tuple[str, ...] = ()

    @property
    def name(self) -> sql.Identifier:
        """The table, as SQL."""
        return sql.Identifier(self.model._meta.db_table)

    @property
    def types(self) -> tuple[str, ...]:
        """The columns' types in PostgreSQL: binary COPY converts nothing."""
        return _types_of(self)


class Rows:
    """Rows made of columns of arguments when they are asked for: thousands at once leave no room in a core's cache."""

    def __init__(self, row_of: Callable[..., tuple[Any, ...]], *columns: Sequence[Any]) -> None:
        self._row_of = row_of
        self._columns = columns

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return map(self._row_of, *self._columns)

    def __len__(self) -> int:
        return len(self._columns[0])


def insert_once(
    table: Table,
    rows: Rows | Sequence[tuple[Any, ...]],
    *,
    are_new: bool = False,
    meanwhile: Callable[[], None] | None = None,
) -> Inserted:
    """Insert the rows that are not stored yet; their instants are unix seconds. `meanwhile` is that of `copy`.

    Must run inside a transaction: the staging table ends with it. A row counts as stored where one of the model's
    unique constraints says so, or where one of its `record_id` and owner ended within a day of the new ones.
    `are_new` says that nobody stored one of them yet: should that be wrong, they go the long way all the same.
    """
    if not rows:
        return Inserted(frozenset())
    record_id = table.columns.index("record_id")
    if are_new:
        record_ids: list[str] = []
        try:
            with transaction.atomic():
                copy(table, packed(table, _noting(rows, record_id, record_ids)), meanwhile=meanwhile)
            return Inserted(frozenset(record_ids))
        except IntegrityError:
            pass  # a record of another writer, told again
    return _insert_staged(table, rows)


def _noting(rows: Iterable[tuple[Any, ...]], column: int, values: list[Any]) -> Iterator[tuple[Any, ...]]:
    """Give the rows and note their values of a column."""
    for row in rows:
        values.append(row[column])
        yield row


def _insert_staged(table: Table, rows: Rows | Sequence[tuple[Any, ...]]) -> Inserted:
    staging = sql.Identifier(f"staging_{table.model._meta.db_table}")
    names = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    at = table.columns.index("at")
    ends: list[float] = [row[at] for row in rows]
    parts = {
        "table": table.name, "staging": staging, "names": names, "owner": sql.Identifier(table.owner),
        "first": sql.Literal(from_unix(min(ends)) - REDELIVERY_SPAN),
        "last": sql.Literal(from_unix(max(ends)) + REDELIVERY_SPAN),
        "old_content": _content("old", table.content), "new_content": _content("new", table.content),
    }  # fmt: skip
    _execute("DROP TABLE IF EXISTS {staging}", parts)
    _execute("CREATE TEMP TABLE {staging} ON COMMIT DROP AS SELECT {names} FROM {table} WITH NO DATA", parts)
    copy(table, packed(table, rows), into=staging)
    inserted = frozenset(found for (found,) in _execute(_INSERT_NEW, parts))
    conflicts = 0
    if len(inserted) < len(rows):
        [(conflicts,)] = _execute(_COUNT_CONFLICTS, parts)
    _execute("DROP TABLE {staging}", parts)
    return Inserted(inserted, conflicts)


_IS_STORED = """old.{owner} = new.{owner} AND old.record_id = new.record_id AND old.at BETWEEN {first} AND {last}"""
_INSERT_NEW = f"""
INSERT INTO {{table}} ({{names}}) SELECT {{names}} FROM {{staging}} new
WHERE NOT EXISTS (SELECT FROM {{table}} old WHERE {_IS_STORED}) ON CONFLICT DO NOTHING RETURNING record_id
"""
_COUNT_CONFLICTS = f"""
SELECT count(*) FROM {{staging}} new JOIN {{table}} old ON {_IS_STORED}
WHERE ({{old_content}}) IS DISTINCT FROM ({{new_content}})
"""


def _content(alias: str, names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(alias, name) for name in names)


def _execute(statement: str, parts: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL(statement).format(**parts).as_string(cursor.connection))
        return cursor.fetchall() if cursor.description else []


def packed(table: Table, rows: Iterable[tuple[Any, ...]]) -> Iterator[bytes]:
    """Return rows as `copy` takes them, block by block."""
    return binary_copy.blocks(table.types, rows)


def copy(
    table: Table,
    blocks: Iterable[bytes],
    *,
    into: sql.Identifier | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> None:
    """Write packed rows into the table, or one with the same columns; `meanwhile` runs while PostgreSQL works on them.

    It may not use the connection. Meanwhile the rows are sent by another thread, which needs no Python to wait.
    """
    names = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(into or table.name, names)
    with connection.cursor() as cursor, connection.wrap_database_errors:
        writer = (QueuedLibpqWriter if meanwhile else LibpqWriter)(cursor.cursor)
        with cursor.cursor.copy(statement.as_string(cursor.connection), writer=writer) as target:
            target.write(binary_copy.HEADER)
            for block in blocks:
                target.write(block)
            target.write(binary_copy.END)
            if meanwhile:
                meanwhile()


@cache
def _types_of(table: Table) -> tuple[str, ...]:
    fields = [table.model._meta.get_field(name) for name in table.columns]
    return tuple(re.sub(r"\(\d+\)", "", field.db_type(connection) or "") for field in fields)
