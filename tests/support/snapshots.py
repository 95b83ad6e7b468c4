"""Snapshots of tests: at a set instant, and several at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from django.db import connections

from telemetry_app.models import Execution, Operation
from telemetry_app.snapshots import take_snapshot
from telemetry_app.step_aggregates import step_changes, store_changes, stored_groups
from tests.support.records import START
from workers_client.wire import OpRecord

DEADLINE_SECONDS = 20.0


def snapshot(*, after_seconds: float = 10.0) -> Execution:
    """Take a snapshot at an instant behind `START`."""
    return take_snapshot(now=datetime.fromtimestamp(START + after_seconds, UTC))


def stored_ids() -> list[str]:
    """Return the ids of all stored op records."""
    return sorted(Operation.objects.values_list("record_id", flat=True))


def store_steps(run_id: str, numbered: Sequence[tuple[int, OpRecord]]) -> None:
    """Count op records, each with its step, in the rows of their steps, as a snapshot does."""
    store_changes(step_changes(run_id, numbered, stored_groups(run_id, (step for step, _ in numbered))))


def all_at_once(count: int, call: Callable[[], object]) -> list[Exception]:
    """Run a call in so many threads that start together; return what they raised."""
    barrier = threading.Barrier(count)
    errors: list[Exception] = []

    def run() -> None:
        try:
            barrier.wait(DEADLINE_SECONDS)
            call()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test tells
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)
    return errors
