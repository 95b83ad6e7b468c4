"""One policy's removal as it goes: what went so far, how much time is left, and rows that go in chunks.

What a chunk removed is counted in the transaction that removes it, so an execution's counts are exact also where it was
killed, and the next execution goes on where this one ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from psycopg import sql

from telemetry_app.models import Execution

CHUNK_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class Removal:
    """The removal of one policy. `ends_at` (monotonic seconds) is when it leaves the rest to the next execution."""

    execution: Execution
    ends_at: float | None = None
    on_progress: Callable[[str, int], None] | None = None

    def count(self, *, rows: int = 0, size_bytes: int = 0, keys: int = 0) -> None:
        """Add to the execution's row: call it inside the transaction that removes these."""
        Execution.objects.filter(pk=self.execution.pk).update(
            rows_removed=F("rows_removed") + rows,
            bytes_removed=F("bytes_removed") + size_bytes,
            keys_removed=F("keys_removed") + keys,
        )

    def report(self, removed: int) -> None:
        """Tell who watches that so many rows or keys are gone for good: call it after their transaction."""
        if self.on_progress is not None:
            self.on_progress(self.execution.policy, removed)

    def is_out_of_time(self) -> bool:
        """Whether the rest has to wait for the next execution."""
        return self.ends_at is not None and time.monotonic() >= self.ends_at


def remove_rows(table: str, ordered_by: str, which: sql.Composable, removal: Removal, *, start: Any) -> None:
    """Delete the rows of a plain table or of one partition for which `which` is true, in chunks.

    They go in the order of a column, from `start` on. Each chunk begins at the value at which the one before ended, so
    that what was deleted is not looked at again.
    """
    found = CHUNK_ROWS
    while found == CHUNK_ROWS and not removal.is_out_of_time():
        with transaction.atomic():
            found, rows, size_bytes, start = _delete_chunk(table, ordered_by, which, start)
            removal.count(rows=rows, size_bytes=size_bytes)
        removal.report(rows)


def _delete_chunk(table: str, ordered_by: str, which: sql.Composable, start: Any) -> tuple[int, int, int, Any]:
    """Delete the first rows; return how many were found, how many went, their bytes, and the last one's value."""
    statement = sql.SQL(
        "WITH first AS MATERIALIZED (SELECT ctid AS place, {column} AS value FROM {table}"
        " WHERE {column} >= {start} AND {which} ORDER BY {column} LIMIT {limit}"
        "), gone AS (DELETE FROM {table} USING first WHERE ctid = place RETURNING pg_column_size({table}.*) AS size)"
        " SELECT (SELECT count(*) FROM first), count(*), COALESCE(sum(size), 0)::bigint, (SELECT max(value) FROM first)"
        " FROM gone"
    ).format(
        table=sql.Identifier(table),
        column=sql.Identifier(ordered_by),
        which=which,
        start=sql.Literal(start),
        limit=sql.Literal(CHUNK_ROWS),
    )
    with connection.cursor() as cursor:
        cursor.execute(statement.as_string(cursor.connection))
        found, rows, size_bytes, last = cursor.fetchone()
    return found, rows, size_bytes, last
