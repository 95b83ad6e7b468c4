"""Daily partitions: made ahead and on demand, dropped whole."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from telemetry_app import partitions
from telemetry_app.models import Operation
from telemetry_app.partitions import (
    ensure_ahead,
    ensure_days,
    existing_days,
    list_partitions,
    missing_days,
    partition_name,
)

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


def test_a_partition_of_today_or_tomorrow_that_is_missing_is_named_until_it_is_made():
    after = DAY + timedelta(days=1)
    for model in partitions.partitioned_models():
        ensure_days(model, [DAY, after])
    assert missing_days(DAY) == []
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {partition_name(TABLE, after)}")
    assert missing_days(DAY) == missing_days(after)[:1] == [partition_name(TABLE, after)]
    ensure_ahead(DAY)
    assert missing_days(DAY) == []


def test_partitions_are_listed_oldest_first_with_rows_and_bytes():
    ensure_days(Operation, [DAY, DAY - timedelta(days=1)])
    for number in range(3):
        insert(noon(DAY), f"w:{number}")
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {partition_name(TABLE, DAY)}")
    listed = [partition for partition in list_partitions(TABLE) if partition.day <= DAY]
    assert [partition.day for partition in listed][-2:] == [DAY - timedelta(days=1), DAY]
    assert (listed[-1].name, listed[-1].rows_estimate) == (partition_name(TABLE, DAY), 3)
    assert listed[-1].size_bytes > listed[-2].size_bytes > 0
    assert {partition.table for partition in list_partitions()} == {
        model._meta.db_table for model in partitions.partitioned_models()
    }


def test_each_index_reaches_the_partitions():
    ensure_days(Operation, [DAY])
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_indexes WHERE tablename = %s", [TABLE])
        [parents] = cursor.fetchone()
        cursor.execute("SELECT count(*) FROM pg_indexes WHERE tablename = %s", [partition_name(TABLE, DAY)])
        assert cursor.fetchone() == (parents,)
    assert parents >= 6
