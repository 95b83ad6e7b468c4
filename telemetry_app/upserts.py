"""Save one row by a statement that is built once: Django builds it at each save, while a hundred records are taken."""

from __future__ import annotations

from functools import cache

from django.db import connection, models

from telemetry_app.models.runs import EDITED_FIELDS


def upsert(row: models.Model) -> None:
    """Insert a row, or change the stored one of its primary key: all of it but what people edit.

    Whoever edits a row while it is taken keeps what they wrote. No signal is sent.
    """
    model = type(row)
    values = [field.get_db_prep_save(getattr(row, field.attname), connection) for field in model._meta.concrete_fields]
    with connection.cursor() as cursor:
        cursor.execute(_statement(model), values)
    row._state.adding = False


@cache
def _statement(model: type[models.Model]) -> str:
    key = f'"{model._meta.pk.column}"'
    names = [f'"{field.column}"' for field in model._meta.concrete_fields]
    changed = [name for name in names if name != key and name.strip('"') not in EDITED_FIELDS]
    return (
        f"INSERT INTO {model._meta.db_table} ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"
        f" ON CONFLICT ({key}) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in changed)}"
    )
