"""Daily partitions: made ahead and on demand, dropped whole."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from telemetry_app import partitions
from telemetry_app.models import Operation
from telemetry_app.partitions import drop_before, ensure_ahead, ensure_days, existing_days, partition_name

pytestmark = pytest.mark.django_db
TABLE = Operation._meta.db_table
DAY = date(2031, 3, 5)


def insert(at, record_id="w:1"):
    """Store an op that finished at an instant."""
    return Operation.objects.create(
        run_id="run-a", record_id=record_id, operation="forward", status="succeeded", at=at, step=0
    )


def noon(day):
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)


def test_partitions_exist_from_a_day_back_to_a_week_ahead_once_migrated():
    today = datetime.now(UTC).date()
    wanted = {today + timedelta(days=offset) for offset in range(8)}
    for model in partitions.partitioned_models():
        assert wanted <= existing_days(model._meta.db_table)


def test_a_partition_is_made_for_a_day_that_lacks_it():
    assert ensure_days(Operation, [DAY, DAY + timedelta(days=3)]) == [DAY, DAY + timedelta(days=3)]
    assert {DAY, DAY + timedelta(days=3)} <= existing_days(TABLE)


def test_a_partition_is_made_once():
    ensure_days(Operation, [DAY])
    assert ensure_days(Operation, [DAY]) == []


def test_making_partitions_ahead_again_makes_none():
    ensure_ahead(DAY)
    assert ensure_ahead(DAY) == 0


def test_making_partitions_ahead_makes_nine_days_of_each_table():
    assert ensure_ahead(DAY) == 9 * len(partitions.partitioned_models())


@pytest.mark.parametrize("second", ["00:00:00.000000", "23:59:59.999999"])
def test_a_day_holds_its_first_and_its_last_instant_in_utc(second):
    ensure_days(Operation, [DAY])
    row = insert(datetime.fromisoformat(f"{DAY}T{second}+00:00"))
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM telemetry_app_operation WHERE id = %s", [row.id])
        assert cursor.fetchone()[0] == partition_name(TABLE, DAY)


def test_a_row_for_a_day_without_partition_is_refused_and_not_put_elsewhere():
    with pytest.raises(IntegrityError), transaction.atomic():
        insert(noon(DAY))


def test_a_record_counts_once_in_its_run():
    ensure_days(Operation, [DAY])
    insert(noon(DAY))
    with pytest.raises(IntegrityError), transaction.atomic():
        insert(noon(DAY))


def test_days_before_the_first_kept_are_dropped_with_their_rows():
    days = [DAY - timedelta(days=offset) for offset in range(3)]
    ensure_days(Operation, days)
    for number, day in enumerate(days):
        insert(noon(day), f"w:{number}")
    for earlier in existing_days(TABLE) - set(days):
        drop_before(Operation, earlier + timedelta(days=1))
    assert drop_before(Operation, DAY) == 2
    assert existing_days(TABLE) == {DAY}
    assert [row.at for row in Operation.objects.all()] == [noon(DAY)]


def test_dropping_nothing_removes_nothing():
    assert drop_before(Operation, date(2000, 1, 1)) == 0


def test_each_index_reaches_the_partitions():
    ensure_days(Operation, [DAY])
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_indexes WHERE tablename = %s", [TABLE])
        [parents] = cursor.fetchone()
        cursor.execute("SELECT count(*) FROM pg_indexes WHERE tablename = %s", [partition_name(TABLE, DAY)])
        assert cursor.fetchone() == (parents,)
    assert parents >= 6
