"""What happened to workers, as snapshots at set instants write it down."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.models import RetentionPolicy, Worker, WorkerEvent
from telemetry_app.readers import LiveWorkers, read_workers
from telemetry_app.worker_events import record_events
from tests.support.records import RUN, START, WORKER, worker
from tests.support.workers import ROOT, wait_until
from workers_client.codec import encode_object
from workers_client.wire_worker import OutstandingWork, parse_worker

pytestmark = pytest.mark.django_db


def instant(after_seconds):
    return datetime.fromtimestamp(START + after_seconds, UTC)


def look(after_seconds, *records):
    """Look at the workers of these records `after_seconds` behind `START`; return how many events are new."""
    known = {record.worker: record for record in records}
    workers = LiveWorkers(records=known, heartbeats={name: record.at for name, record in known.items()})
    return record_events(workers, now=instant(after_seconds))


def heard(after_seconds, **fields):
    return worker(**({"at": START + after_seconds, "started_at": START} | fields))


def told(name=WORKER):
    """The worker's events, oldest first, with their seconds behind `START`."""
    found = WorkerEvent.objects.filter(worker_id=name).order_by("at", "id").values_list("event", "at")
    return [(event, round(at.timestamp() - START, 3)) for event, at in found]


def test_a_new_worker_started_when_it_says_so():
    assert look(60, heard(58, started_at=START + 2)) == 1
    assert told() == [("started", 2)]


def test_a_worker_that_does_not_say_started_with_its_first_known_heartbeat():
    look(60, heard(58, started_at=None))
    assert told() == [("started", 58)]


def test_a_worker_that_goes_on_has_no_further_events():
    for second in range(0, 600, 60):
        look(second + 2, heard(second))
    assert told() == [("started", 0)]


def test_a_silent_worker_is_late_and_then_lost_at_the_instants_that_were_due():
    look(10, heard(10))
    look(30, heard(10))
    assert told() == [("started", 0), ("late", 25)]
    look(300, heard(10))
    assert told() == [("started", 0), ("late", 25), ("lost", 70)]


def test_the_workers_own_interval_counts():
    look(1_000, heard(10, interval_seconds=60.0))
    assert told() == [("started", 0), ("late", 190), ("lost", 730)]


def test_a_worker_seen_first_when_it_is_lost_has_its_whole_history():
    assert look(500, heard(10)) == 3
    assert told() == [("started", 0), ("late", 25), ("lost", 70)]


def test_a_repeated_look_writes_nothing():
    for _ in range(3):
        look(500, heard(10))
    assert WorkerEvent.objects.count() == 3


def test_a_look_repeated_though_the_events_are_unknown_meets_the_constraint():
    look(500, heard(10))
    Worker.objects.all().delete()
    assert look(500, heard(10)) == 0
    assert WorkerEvent.objects.count() == 3


def test_a_worker_that_comes_back_has_recovered_with_its_heartbeat():
    look(30, heard(10))
    look(33, heard(31))
    assert told()[1:] == [("late", 25), ("recovered", 31)]


def test_a_worker_late_again_has_a_second_late():
    look(30, heard(10))
    look(33, heard(31))
    look(50, heard(31))
    assert told()[1:] == [("late", 25), ("recovered", 31), ("late", 46)]


def test_a_lost_worker_recovers_too():
    look(300, heard(10))
    look(400, heard(399))
    assert told()[1:] == [("late", 25), ("lost", 70), ("recovered", 399)]


def test_a_heartbeat_that_arrived_late_is_no_recovery_yet():
    look(30, heard(10))
    look(31, heard(24))
    assert told()[1:] == [("late", 25)]
    look(33, heard(32))
    assert told()[1:] == [("late", 25), ("recovered", 32)]


def test_an_exit_is_told_with_its_reason_and_ends_the_story():
    look(10, heard(10))
    look(60, heard(41, exited_at=START + 40, exit_reason="stopped"))
    look(900, heard(41, exited_at=START + 40, exit_reason="stopped"))
    assert told() == [("started", 0), ("exited", 40)]
    assert WorkerEvent.objects.get(event="exited").detail == "stopped"


def test_an_exit_that_is_read_after_its_worker_was_lost_is_told():
    look(300, heard(10))
    look(301, heard(12, exited_at=START + 12))
    look(360, heard(12, exited_at=START + 12))
    assert told() == [("started", 0), ("exited", 12), ("late", 25), ("lost", 70)]


def test_a_lost_worker_tells_what_it_held():
    held = (
        OutstandingWork(RUN, "forward_backward", 2, oldest_at=START),
        OutstandingWork(RUN, "optim_step", 1, oldest_at=START + 5),
    )
    look(300, heard(10, outstanding=held))
    expected = f"3 requests outstanding of {RUN}, oldest 1 min 10 s old"
    assert WorkerEvent.objects.get(event="lost").detail == expected


def test_a_lost_worker_that_held_nothing_says_so():
    look(300, heard(10))
    assert WorkerEvent.objects.get(event="lost").detail == "no requests outstanding"


def test_what_was_held_of_many_runs_fits():
    held = tuple(OutstandingWork("r" * 250 + str(n), "optim_step", 1_000) for n in range(20))
    look(300, heard(10, outstanding=held))
    detail = WorkerEvent.objects.get(event="lost").detail
    assert detail.startswith("20,000 requests outstanding of rrr")
    assert len(detail) == 512


def test_a_worker_that_redis_forgot_is_told_late_and_lost():
    look(10, heard(10, outstanding=(OutstandingWork(RUN, "optim_step", 1),)))
    look(30)
    assert told() == [("started", 0), ("late", 25)]
    look(90_000)
    assert told() == [("started", 0), ("late", 25), ("lost", 70)]
    assert WorkerEvent.objects.get(event="lost").detail == f"1 request outstanding of {RUN}"


def test_a_forgotten_worker_that_exited_is_not_told_lost():
    look(10, heard(10, exited_at=START + 10))
    look(90_000)
    assert told() == [("started", 0), ("exited", 10)]


def test_a_worker_forgotten_by_a_redis_that_came_back_empty_recovers():
    look(10, heard(10))
    look(40)
    look(62, heard(61))
    assert told()[1:] == [("late", 25), ("recovered", 61)]


# --- Clocks ---------------------------------------------------------------------------------------------------
def test_instants_are_on_the_clock_of_redis():
    ahead = {"clock_offset_seconds": 3_600.0, "started_at": START + 3_600}
    look(12, heard(3_610, **ahead))
    look(300, heard(3_610, **ahead))
    assert told() == [("started", 0), ("late", 25), ("lost", 70)]


def test_a_forgotten_workers_instants_are_on_the_clock_of_redis_too():
    look(12, heard(-3_590, clock_offset_seconds=-3_600.0, started_at=START - 3_600))
    look(300)
    assert told() == [("started", 0), ("late", 25), ("lost", 70)]


@pytest.mark.parametrize("error_seconds", [-1e6, -3_600, -30, 30, 3_600, 1e9])
def test_a_wrong_clock_makes_no_storm_of_events(error_seconds):
    for second in range(0, 1_200, 60):
        look(second + 1, heard(second + error_seconds, started_at=START + error_seconds))
    events = WorkerEvent.objects.all()
    assert events.count() <= 3
    assert all(event.at <= instant(1_200) for event in events)


def test_a_worker_whose_clock_was_set_right_is_stored_again():
    look(10, heard(1e9))
    look(20, heard(20, phase="running"))
    assert Worker.objects.get().phase == "running"
    look(300, heard(20))
    assert told()[-1] == ("lost", 80)


def test_an_older_reading_changes_nothing():
    look(62, heard(60, phase="running"))
    assert look(61, heard(10, phase="idle")) == 0
    assert Worker.objects.get().phase == "running"


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([START, 1e9, -1e9, 2.5e11, 1.0])


@given(
    st.dictionaries(
        st.sampled_from(["started_at", "exited_at", "clock_offset_seconds", "interval_seconds"]), NUMBERS, max_size=4
    ),
    st.sampled_from([1.0, START - 1e8, START, START + 1e9, 253_402_300_799.0]),
    st.sampled_from([0.0, 253_402_300_799.0]),
)
def test_whatever_a_worker_says_of_instants_is_told_and_never_of_the_future(fields, at, heartbeat_at):
    WorkerEvent.objects.all().delete()
    Worker.objects.all().delete()
    record = parse_worker(encode_object(fields | {"role": "trainer", "at": at}), worker="w")
    workers = LiveWorkers(records={"w": record}, heartbeats={"w": heartbeat_at})
    record_events(workers, now=instant(0))
    record_events(workers, now=instant(60))
    assert Worker.objects.count() == 1
    assert WorkerEvent.objects.count() <= 3
    assert WorkerEvent.objects.filter(at__gt=instant(60)).count() == 0


# --- At once, and many ----------------------------------------------------------------------------------------
def test_more_workers_need_no_more_queries():
    def queries(count, name):
        records = [heard(10, worker=f"{name}-{number}") for number in range(count)]
        look(20, *records)
        with CaptureQueriesContext(connection) as captured:
            look(300)
        return len(captured)

    assert queries(2, "a") == queries(300, "b")
    assert WorkerEvent.objects.count() == 302 * 3


def test_events_that_retention_would_remove_are_not_written_again():
    RetentionPolicy.objects.update_or_create(kind="worker_events", defaults={"days_to_keep": 1})
    look(10, heard(10))
    look(86_400 + 300)
    assert told() == [("started", 0)]


# --- Real processes -------------------------------------------------------------------------------------------
TRAINER = """
import sys, workers_client
recorder = workers_client.start(role="trainer", interval_seconds=0.1)
command = {"request_id": "req-1", "op": "optim_step", "model_id": "run-a", "payload": {}, "trace_context": None}
recorder.enqueued(command)
recorder.popped([command])
recorder.flush(10)
print(recorder.worker, flush=True)
sys.stdin.readline()
recorder.close(5, reason="stopped")
"""


@pytest.fixture
def trainer(redis_client):
    """A trainer's process that holds a request; it exits once it reads a line."""
    with subprocess.Popen(
        [sys.executable, "-c", TRAINER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def look_until(event):
    """Look at what Redis holds until an event is written."""

    def is_written():
        workers = read_workers()
        record_events(workers, now=datetime.fromtimestamp(workers.redis_time, UTC))
        return WorkerEvent.objects.filter(event=event).exists()

    wait_until(is_written, event)
    return list(WorkerEvent.objects.order_by("at").values_list("worker_id", "event"))


@pytest.mark.processes
def test_a_killed_trainer_is_lost_with_what_it_held(trainer):
    name = trainer.stdout.readline().strip()
    trainer.send_signal(signal.SIGKILL)
    assert look_until("lost") == [(name, "started"), (name, "late"), (name, "lost")]
    assert WorkerEvent.objects.get(event="lost").detail.startswith("1 request outstanding of run-a, oldest ")


@pytest.mark.processes
def test_a_trainer_that_is_closed_has_exited(trainer):
    name = trainer.stdout.readline().strip()
    trainer.communicate("\n", timeout=30)
    assert look_until("exited") == [(name, "started"), (name, "exited")]
    assert WorkerEvent.objects.get(event="exited").detail == "stopped"
