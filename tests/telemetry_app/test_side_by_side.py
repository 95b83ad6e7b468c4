"""Runs that one task takes two at a time."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction

from telemetry_app.exceptions import LiveDataUnavailableError
from telemetry_app.side_by_side import take_each

pytestmark = pytest.mark.django_db(transaction=True)
RUNS = [f"run-{number}" for number in range(6)]
DEADLINE_SECONDS = 20.0


def backend() -> int:
    """Return which of PostgreSQL's processes serves this thread."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


def test_two_runs_are_taken_at_the_same_time_by_two_connections_and_each_once():
    both = threading.Barrier(2)
    taken: dict[str, int] = {}

    def take(run_id: str) -> None:
        both.wait(DEADLINE_SECONDS)
        taken[run_id] = backend()

    take_each(RUNS, take)
    assert sorted(taken) == RUNS
    assert len(set(taken.values())) == 2


def test_the_second_connection_is_closed_behind_the_last_run():
    both = threading.Barrier(2)
    used = []

    def take(run_id: str) -> None:
        both.wait(DEADLINE_SECONDS)
        backend()
        if threading.current_thread() is not threading.main_thread():
            used.append(connection.connection)

    take_each(RUNS, take)
    assert used
    assert all(found.closed for found in used)


def test_in_a_transaction_of_the_caller_all_are_taken_by_its_connection():
    taken: list[tuple[str, int]] = []
    with transaction.atomic():
        take_each(RUNS, lambda run_id: taken.append((run_id, backend())))
        assert taken == [(run_id, backend()) for run_id in RUNS]


@pytest.mark.parametrize("fails", ["main", "other"])
def test_what_one_raises_ends_both_and_is_told(fails):
    both = threading.Barrier(2)
    taken: list[str] = []
    failed = threading.Event()

    def take(run_id: str) -> None:
        taken.append(run_id)
        both.wait(DEADLINE_SECONDS)
        if (threading.current_thread() is threading.main_thread()) == (fails == "main"):
            failed.set()
            raise LiveDataUnavailableError("Redis can't be read")
        failed.wait(DEADLINE_SECONDS)

    with pytest.raises(LiveDataUnavailableError):
        take_each(RUNS[:2], take)
    assert sorted(taken) == RUNS[:2]


def test_no_run_is_begun_behind_one_that_raised():
    taken: list[str] = []

    def take(run_id: str) -> None:
        taken.append(run_id)
        raise LiveDataUnavailableError("Redis can't be read")

    with pytest.raises(LiveDataUnavailableError):
        take_each(RUNS, take)
    assert len(taken) <= 2
