"""A row is inserted or changed by one statement, and what people edit stays."""

from __future__ import annotations

import pytest

from telemetry_app.instants import from_unix
from telemetry_app.models import ListCursor, Run
from telemetry_app.upserts import upsert
from tests.support.records import RUN, START

pytestmark = pytest.mark.django_db


def a_run(**fields):
    return Run(run_id=RUN, first_seen_at=from_unix(START), last_activity_at=from_unix(START), **fields)


def test_a_new_row_is_inserted_with_all_it_holds(django_assert_num_queries):
    run = a_run(name="mine", operations_count=2, op_seconds={"f": {"": {"1": 2}}})
    with django_assert_num_queries(1):
        upsert(run)
    stored = Run.objects.get()
    assert (stored.name, stored.operations_count, stored.op_seconds) == ("mine", 2, {"f": {"": {"1": 2}}})
    assert stored.first_seen_at == from_unix(START)


def test_a_stored_row_is_changed_but_for_what_people_edit(django_assert_num_queries):
    upsert(a_run())
    run = Run.objects.get()
    Run.objects.update(name="edited", tags=["a"], notes="n", pinned=True)
    run.operations_count = 7
    with django_assert_num_queries(1):
        upsert(run)
    stored = Run.objects.get()
    assert stored.operations_count == 7
    assert (stored.name, stored.tags, stored.notes, stored.pinned) == ("edited", ["a"], "n", True)


def test_other_rows_are_left_alone():
    for key in ("a", "b"):
        upsert(ListCursor(list_key=key, records_taken=1))
    upsert(ListCursor(list_key="a", records_taken=3, newest_record_id='w"1'))
    assert list(ListCursor.objects.values_list("list_key", "records_taken", "newest_record_id")) == [
        ("a", 3, 'w"1'),
        ("b", 1, ""),
    ]
