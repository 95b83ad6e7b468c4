"""Records of clocks that can't be right read as they are stored: by the time at which they were received."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from telemetry_app.instants import rfc3339
from telemetry_app.models import Operation, Run, Sample
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, op, sample_failure, step_of_ops, worker
from tests.telemetry_app.api.conftest import run_path
from tests.telemetry_app.api.test_steps import put
from workers_client.wire import OPTIM_STEP

pytestmark = pytest.mark.django_db
STEPS = run_path(RUN, "/steps")
YEARS = 14 * 365 * 86_400.0


@pytest.fixture
def received(writer, now):
    """A run whose newest ops and failures a wrong clock told, stored an hour ago; the time of that."""
    put(writer, step_of_ops(0, at=now - 9_000), steps=2)
    failed = {"status": "failed", "error_type": "ValueError"}
    writer.operations(op(at=now + YEARS - 1, step=1, **failed), op(OPTIM_STEP, at=now + YEARS, step=1))
    writer.samples(sample_failure(at=now + YEARS))
    take_snapshot()
    an_hour = timedelta(hours=1)
    for model in (Operation, Sample):
        model.objects.filter(reported_at__isnull=False).update(at=F("at") - an_hour)
    Run.objects.update(last_activity_at=F("last_activity_at") - an_hour)
    writer.active(RUN, now - 3_600)
    return Operation.objects.get(operation=OPTIM_STEP, step=1).at


def test_a_stored_record_reads_at_its_receipt_time(api, received):
    assert api.results(STEPS)[-1]["finished_at"] == rfc3339(received)
    assert api.answer(STEPS)["coverage"]["wrong_clock_records"] == 0


def test_a_record_that_no_snapshot_took_is_said_to_be_read_as_just_now(api, writer, now):
    put(writer, [*step_of_ops(0, at=now - 90), op(at=now + YEARS, step=1)], steps=1)
    assert api.answer(STEPS)["coverage"]["wrong_clock_records"] == 1
    take_snapshot()
    assert api.answer(STEPS)["coverage"]["wrong_clock_records"] == 0


def test_a_run_makes_no_progress_by_what_it_did_an_hour_ago(api, received):
    assert api.answer(run_path(RUN))["state"] == "idle"
    [run] = api.results("/runs")
    assert run["state"] == "idle"
    take_snapshot()
    assert Run.objects.get().state == "idle"


def test_its_finishes_are_not_corrected_by_the_clock_they_are_not_told_by(api, writer, now):
    put(writer, step_of_ops(0, at=now + YEARS, worker="w-1"), steps=1)
    writer.workers(worker("w-1", at=now + YEARS, clock_offset_seconds=YEARS))
    take_snapshot()
    assert api.answer(run_path(RUN))["state"] in ("progressing", "waiting_for_client")


def test_a_failure_stands_once_in_the_failures_of_all_runs(api, received):
    failed_at = [failure["at"] for failure in api.results("/failures")]
    assert len(failed_at) == 2
    assert max(failed_at) == rfc3339(received)


def test_a_record_whose_row_is_gone_reads_as_history_keeps_its_step(api, received):
    Operation.objects.all().delete()
    told_at_once = api.results(STEPS)
    assert api.results(STEPS) == told_at_once


def test_right_clocks_cost_no_query(api, writer, now):
    put(writer, step_of_ops(0, at=now - 90), steps=1)
    take_snapshot()
    with CaptureQueriesContext(connection) as captured:
        api.results(STEPS)
    assert not [query for query in captured if '"reported_at" IS NOT NULL' in query["sql"]]
