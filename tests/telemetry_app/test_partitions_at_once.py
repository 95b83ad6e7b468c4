"""Partitions that are made while others read and write."""

from __future__ import annotations

import threading
from datetime import date

import psycopg
import pytest
from django.db import connection, connections, transaction

from telemetry_app.models import Operation
from telemetry_app.partitions import ensure_days, existing_days, partition_name

pytestmark = pytest.mark.django_db(transaction=True)
TABLE = Operation._meta.db_table
DAYS = [date(2032, 5, number) for number in range(1, 6)]


@pytest.fixture(autouse=True)
def _without_partitions_afterwards():
    yield
    with connection.cursor() as cursor:
        for day in DAYS:
            cursor.execute(f"DROP TABLE IF EXISTS {partition_name(TABLE, day)}")


@pytest.fixture
def other_session():
    """Another session of the test's database, inside of a transaction."""
    connection.ensure_connection()
    with psycopg.connect(**connection.get_connection_params() | {"cursor_factory": psycopg.Cursor}) as session:
        yield session
        session.rollback()


def test_a_partition_is_made_while_a_reader_and_a_writer_hold_the_table(other_session):
    other_session.execute(f"SELECT count(*) FROM {TABLE}")
    other_session.execute(f"LOCK TABLE {TABLE} IN ROW EXCLUSIVE MODE")  # what an insert takes
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '1s'")
    try:
        assert ensure_days(Operation, DAYS[:1]) == DAYS[:1]
    finally:
        connection.close()


def test_two_that_make_the_same_partitions_at_once_make_each_once():
    barrier, made, errors = threading.Barrier(3), [], []

    def make():
        try:
            barrier.wait(10)
            with transaction.atomic():
                made.extend(ensure_days(Operation, DAYS))
        except Exception as error:  # noqa: BLE001 - whatever it is, the test tells
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert errors == []
    assert sorted(made) == DAYS
    assert set(DAYS) <= existing_days(TABLE)
