"""Many rows in one statement, each once."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction

from telemetry_app import bulk, rows
from telemetry_app.instants import from_unix
from telemetry_app.models import Operation
from tests.support.records import START, op

pytestmark = pytest.mark.django_db


ways = pytest.mark.parametrize("are_new", [False, True], ids=["staged", "straight"])


def insert(*records, are_new=False):
    """Insert op records and return the ids of those inserted."""
    return sorted(insert_counting(*records, are_new=are_new).record_ids)


def insert_counting(*records, are_new=False):
    values = [rows.operation_row(record, 0) for record in records]
    with transaction.atomic():
        return bulk.insert_once(rows.OPERATIONS, values, are_new=are_new)


def stored():
    return sorted(Operation.objects.values_list("record_id", flat=True))


@ways
def test_rows_are_stored_and_those_inserted_returned(are_new):
    records = op(at=START, id="w:1"), op(at=START, id="w:2", status="failed")
    assert insert(*records, are_new=are_new) == ["w:1", "w:2"]
    assert stored() == ["w:1", "w:2"]


def test_no_rows_are_no_statement():
    assert insert() == []


@ways
def test_a_row_that_is_stored_is_left_as_it_is(are_new):
    insert(op(at=START, id="w:1", tokens=1))
    assert insert(op(at=START, id="w:1", tokens=2), op(at=START, id="w:2"), are_new=are_new) == ["w:2"]
    assert Operation.objects.get(record_id="w:1").tokens == 1


@ways
def test_a_row_twice_in_one_call_is_stored_once(are_new):
    record = op(at=START, id="w:1")
    assert insert(record, record, are_new=are_new) == ["w:1"]
    assert stored() == ["w:1"]


def test_stored_rows_that_come_with_other_content_are_counted():
    insert(op(at=START, id="w:1", elapsed_seconds=1.0), op(at=START, id="w:2", metrics={"loss": 1.0}))
    again = insert_counting(
        op(at=START, id="w:1", elapsed_seconds=9.0), op(at=START, id="w:2", metrics={"loss": 1.0}), op(at=START)
    )
    assert (len(again.record_ids), again.conflicts_count) == (1, 1)


@pytest.mark.parametrize("days", [-1, 0, 1])
def test_a_record_that_comes_again_within_a_day_is_the_same(days):
    insert(op(at=START, id="w:1"))
    assert insert(op(at=START + days * 86_400 * 0.9 + 5, id="w:1")) == []


def test_columns_whose_values_are_all_the_same_are_stored_beside_others():
    records = [
        op(at=START + number, id=f"w:{number}", worker="w", batch="b" if number else None, role=None,
           status="failed" if number == 1 else "succeeded", metrics={"loss": float(number)} if number else {})
        for number in range(3)
    ]  # fmt: skip
    insert(*records, are_new=True)
    columns = ("record_id", "worker", "role", "status", "batch", "metrics", "nonfinite", "tokens")
    assert list(Operation.objects.order_by("at").values_list(*columns)) == [
        ("w:0", "w", "", "succeeded", "", {}, {}, None),
        ("w:1", "w", "", "failed", "b", {"loss": 1.0}, {}, None),
        ("w:2", "w", "", "succeeded", "b", {"loss": 2.0}, {}, None),
    ]


def test_an_id_that_another_run_has_is_another_record():
    insert(op(at=START, id="w:1"))
    assert insert(op(at=START, id="w:1", run_id="run-b")) == ["w:1"]


@ways
@pytest.mark.parametrize("text", ["a\tb\nc\\.", "\\N", "läuft 🚀", "'; DROP TABLE x; --", "{}", '"', ""])
def test_any_text_is_stored_as_it_is(text, are_new):
    insert(op(at=START, error_type=text, metrics={"loss": 1.5}, nonfinite={"kl": "nan"}), are_new=are_new)
    row = Operation.objects.get()
    assert (row.error_type, row.metrics, row.nonfinite) == (text, {"loss": 1.5}, {"kl": "nan"})


@ways
def test_a_call_that_fails_leaves_nothing_behind(are_new):
    bad = rows.operation_row(op(at=START, id="w:2"), -1)
    good = rows.operation_row(op(at=START, id="w:1"), 0)
    with pytest.raises(IntegrityError, match="step"), transaction.atomic():
        bulk.insert_once(rows.OPERATIONS, [good, bad], are_new=are_new)
    assert stored() == []
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'staging_%'")
        assert cursor.fetchone()[0] == 0


@ways
def test_a_row_reads_back_as_the_record_it_was_made_of(are_new):
    record = op(
        at=START, step=0, role="trainer", enqueued_at=START - 9, queue_seconds=2.5, started_at=START - 5,
        elapsed_seconds=5.0, metrics={"loss:sum": 1.5}, nonfinite={"grad_norm": "nan"}, tokens=100, datums=4,
        batch="b1", trace_id="t", span_id="s", status="failed", error_type="ValueError", error_category="user",
    )  # fmt: skip
    insert(record, are_new=are_new)
    assert rows.records_of(Operation.objects.all()) == [record]


@ways
def test_rows_of_one_block_say_different_things(are_new):
    records = [
        op(
            at=START + number, id=f"w:{number}", step=0, tokens=number if number % 2 else None, datums=number or None,
            queue_seconds=number / 3 if number % 3 else None, started_at=START - number if number % 5 else None,
            elapsed_seconds=None, metrics={"loss": number / 7} if number % 2 else {},
            nonfinite={"kl": "nan"} if number == 4 else {}, error_type="a\r\nb" if number == 3 else None,
        )
        for number in range(10)
    ]  # fmt: skip
    insert(*records, are_new=are_new)
    assert rows.records_of(Operation.objects.order_by("at")) == records


@pytest.mark.parametrize("at", [0.000001, 946_684_799.999999, START + 0.123457, START + 0.999999, 4_294_967_295.000001])
def test_instants_are_kept_to_the_microsecond(at):
    row = rows.operation_row(op(at=START, started_at=at), 0)
    with transaction.atomic():
        bulk.insert_once(rows.OPERATIONS, [row])
    assert Operation.objects.get().started_at == from_unix(at)
