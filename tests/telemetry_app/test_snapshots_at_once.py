"""Snapshots that really run at the same time: in threads, and in a process that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from django.db import connection
from django.utils import timezone

from telemetry_app.metric_growth import Kind
from telemetry_app.metric_totals import stored_totals
from telemetry_app.models import Execution, Operation, Run, Sample, Turn
from telemetry_app.snapshots import take_snapshot
from tests.support.records import op, sample_group, step_of_ops, turn
from tests.support.snapshots import all_at_once

pytestmark = pytest.mark.django_db(transaction=True)
RUNS = [f"run-{number}" for number in range(6)]
DEADLINE_SECONDS = 20.0


@pytest.fixture
def filled(writer):
    now = time.time()
    for run in RUNS:
        for step in range(10):
            writer.operations(*step_of_ops(step, at=now - 60 + step, run_id=run))
        writer.samples(*(sample_group(at=now - 30 + n, count=3, run_id=run) for n in range(10)))
        writer.ledger(run, enqueued=20, popped=20, answered=20, delivered=20, recorded=20, samples_recorded=10)
    writer.turns(*(turn(at=now - 30 + n) for n in range(10)))
    return writer


def assert_taken_once():
    assert (Operation.objects.count(), Sample.objects.count(), Turn.objects.count()) == (120, 60, 10)
    for run in Run.objects.all():
        assert (run.operations_count, run.samples_answered, run.enqueued, run.missing_records) == (20, 30, 20, 0)
    assert Run.objects.count() == len(RUNS)
    totals = stored_totals(timezone.now())
    assert {name: row["succeeded"] for name, row in totals[Kind.OPERATION].items()} == dict.fromkeys(
        ("forward_backward", "optim_step"), 60
    )
    assert (totals[Kind.SAMPLES][""]["answered"], totals[Kind.TURNS]["workload-1"]["turns"]) == (180, 10)


def test_snapshots_in_four_threads_at_once_take_each_record_once(filled):
    assert all_at_once(4, take_snapshot) == []
    take_snapshot()
    assert_taken_once()


def test_snapshots_at_once_after_a_first_one_take_each_new_record_once(filled):
    take_snapshot()
    now = time.time()
    filled.operations(*(op(at=now, run_id=run, step=10) for run in RUNS))
    for run in RUNS:
        filled.ledger(run, enqueued=21, answered=21, recorded=21)
    assert all_at_once(3, take_snapshot) == []
    take_snapshot()
    assert Operation.objects.count() == 126
    assert set(Run.objects.values_list("enqueued", "operations_count", "missing_records")) == {(21, 21, 0)}


CHILD = """
import sys, time
import django
django.setup()
from django.conf import settings
settings.DATABASES["default"]["NAME"] = sys.argv[1]
from telemetry_app import run_snapshot, snapshots
original = run_snapshot._tell_state
def hang(run, *arguments):
    original(run, *arguments)
    if run.run_id == "run-3":
        print("half-way", flush=True)
        time.sleep(60)
run_snapshot._tell_state = hang
snapshots.take_snapshot()
"""


def test_a_snapshot_whose_process_is_killed_leaves_neither_half_a_run_nor_a_lock(filled):
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "openrl_site.settings"}
    name = connection.settings_dict["NAME"]
    child = subprocess.Popen([sys.executable, "-c", CHILD, name], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "half-way\n"
        assert not Run.objects.filter(run_id="run-3").exists()
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(DEADLINE_SECONDS)
        child.stdout.close()
    wait_for_sessions_to_end()
    summary = take_snapshot()
    assert summary.skipped_runs == 0
    assert_taken_once()
    assert Execution.objects.filter(finished_at=None).count() == 1


def wait_for_sessions_to_end():
    """Wait until PostgreSQL noticed that the other process is gone."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute(query)
            if cursor.fetchone()[0] == 0:
                return
        time.sleep(0.05)
    raise AssertionError("another session is still there")


def test_a_snapshot_leaves_no_staging_table_and_no_lock_behind(filled):
    take_snapshot(now=timezone.now())
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'staging_%'")
        assert cursor.fetchone()[0] == 0
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        assert cursor.fetchone()[0] == 0


def test_snapshots_at_once_that_need_new_partitions_do_not_block_each_other(writer):
    now = time.time()
    for number in range(12):
        old = now - (60 + number) * 86_400.0
        run = f"run-{number}"
        writer.operations(op(at=old if number % 2 else now, run_id=run))
        writer.samples(*(sample_group(at=now if number % 2 else old, run_id=run) for _ in range(3)))
        writer.active(run, now)
    assert all_at_once(4, take_snapshot) == []
    assert Run.objects.count() == 12
    assert (Operation.objects.count(), Sample.objects.count()) == (12, 36)
