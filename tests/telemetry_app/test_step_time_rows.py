"""Where a step's time went is kept by the snapshot, joined with what is live, and goes with the step's aggregates."""

from __future__ import annotations

import pytest

from telemetry_app import locks, run_snapshot
from telemetry_app.inspection.time import run_time
from telemetry_app.models import Operation, RetentionPolicy, Run, Sample, StepTime, Turn
from telemetry_app.retention import apply_retention
from telemetry_app.step_clock import PARTS
from tests.support.records import RUN, START, op, sample_group, turn, worker
from tests.support.snapshots import snapshot
from workers_client import wire

pytestmark = pytest.mark.django_db
STEP_SECONDS = 20.0


def write_steps(writer, steps, run_id=RUN):
    """Write steps of 20 s: enqueued at 1, waiting to 5, forward_backward to 10, optim_step to 12, then the client's."""
    for step in steps:
        at = START + STEP_SECONDS * step
        names = {"run_id": run_id, "worker": "t-1", "step": step, "enqueued_at": at + 1}
        writer.operations(
            op("forward_backward", at=at + 10, started_at=at + 5, id=f"t-1:{step}a{run_id}", **names),
            op("optim_step", at=at + 12, started_at=at + 10, id=f"t-1:{step}b{run_id}", **names),
        )
        writer.turns(
            turn(at=at + 4, workload="w-b", started_at=at + 1, id=f"t-2:{step}{run_id}",
                 ops=(wire.TurnOp("optim_step", at + 1, at + 4, run_id="run-b"),)),
            turn(at=at + 12, worker="t-1", requested_at=at + 1, started_at=at + 5, id=f"t-1:{step}c{run_id}",
                 ops=(wire.TurnOp("forward_backward", at + 5, at + 10, run_id=run_id),)),
        )  # fmt: skip
    writer.steps(max(steps) + 1, run_id=run_id)


@pytest.fixture
def trainer(writer):
    writer.workers(worker("t-1", at=START + 1_000, started_at=START - 60))
    return writer


def told(**given):
    answer = run_time(RUN, now=START + 1_000, **{"last": 100, **given})
    return {step["step"]: step for step in answer.results}


def kept_steps():
    return list(StepTime.objects.filter(run_id=RUN).values_list("step", flat=True))


def test_a_step_is_kept_half_a_minute_after_its_end(trainer):
    write_steps(trainer, range(5))
    snapshot(after_seconds=4 * STEP_SECONDS + 12)
    assert kept_steps() == [0, 1, 2]  # step 2 ended at 52, step 3 at 72, and it is 92
    snapshot(after_seconds=4 * STEP_SECONDS + 12 + 60)
    assert kept_steps() == [0, 1, 2, 3, 4]


def test_records_are_stored_though_their_steps_can_not_be_split(trainer, monkeypatch):
    write_steps(trainer, range(5))
    with monkeypatch.context() as patch:
        patch.setattr(run_snapshot, "keep_step_times", fail)
        execution = snapshot(after_seconds=500)
    assert (execution.rows_written, execution.failed_runs) == (20, 1)
    assert execution.error == f"{RUN}: ValueError: can't be split"
    assert (Operation.objects.count(), kept_steps()) == (10, [])
    assert snapshot(after_seconds=510).rows_written == 0
    assert kept_steps() == [0, 1, 2, 3, 4]


def fail(*_):
    raise ValueError("can't be split")


def test_steps_of_a_run_that_another_task_has_are_left_to_the_next_snapshot(trainer, monkeypatch):
    write_steps(trainer, range(5))
    with monkeypatch.context() as patch:
        patch.setattr(locks, "take_until_commit", lambda name: name != locks.run_lock(RUN) or not patched.pop())
        patched = [True, False]  # free while the records are taken, and then not
        assert snapshot(after_seconds=500).error == ""
    assert kept_steps() == []
    snapshot(after_seconds=510)
    assert kept_steps() == [0, 1, 2, 3, 4]


def test_what_is_kept_is_what_was_told_live(trainer):
    write_steps(trainer, range(5))
    live = told()
    assert live[3]["parts"] == dict.fromkeys(PARTS, 0.0) | {"training": 7.0, "gpu_wait": 4.0, "client": 9.0}
    snapshot(after_seconds=500)
    assert StepTime.objects.count() == 5
    assert told() == live
    trainer.client.flushdb()
    assert told() == live


def test_a_step_answers_when_all_its_records_are_gone(trainer):
    write_steps(trainer, range(5))
    live = told()
    snapshot(after_seconds=500)
    trainer.client.flushdb()
    for model in (Operation, Turn, Sample):
        model.objects.all().delete()
    assert told() == live
    assert [(wait["run_id"], wait["operation"], wait["seconds"]) for wait in told()[2]["gpu_wait_by"]] == [
        ("run-b", "optim_step", 3.0), (None, None, 1.0),
    ]  # fmt: skip


def test_kept_and_live_steps_join_without_a_seam(trainer):
    write_steps(trainer, range(4))
    snapshot(after_seconds=200)
    write_steps(trainer, range(4, 8))
    joined = told()
    assert (kept_steps(), list(joined)) == ([0, 1, 2, 3], list(range(8)))
    StepTime.objects.all().delete()
    assert told() == joined


def test_the_last_step_is_split_again_where_it_had_a_tail(trainer):
    write_steps(trainer, range(2))
    end = START + STEP_SECONDS + 12
    trainer.operations(op("save_state", at=end + 3, started_at=end + 1, enqueued_at=end, step=2, worker="t-1"))
    snapshot(after_seconds=150)
    assert StepTime.objects.get(step=1).saving_seconds == 2.0
    write_steps(trainer, range(2, 4))  # with training behind it, the save belongs to the next step
    assert (told()[1]["parts"]["saving"], told()[2]["parts"]["saving"]) == (0.0, 2.0)
    snapshot(after_seconds=250)
    assert list(StepTime.objects.values_list("saving_seconds", flat=True)) == [0.0, 0.0, 2.0, 0.0]


def test_a_record_that_comes_late_after_an_outage_is_counted(trainer):
    write_steps(trainer, range(3))
    snapshot(after_seconds=200)
    trainer.samples(sample_group(at=START + 20, id="d:1", first_accepted_at=START + 14, busy_seconds=6.0))
    write_steps(trainer, range(3, 6))
    snapshot(after_seconds=250)
    assert StepTime.objects.get(step=1).sampling_seconds == 6.0


def test_a_long_history_is_kept_a_part_at_a_time(trainer, monkeypatch):
    monkeypatch.setattr("telemetry_app.step_time_rows.STEPS_AT_ONCE", 4)
    write_steps(trainer, range(10))
    for _ in range(5):
        snapshot(after_seconds=900)
    assert kept_steps() == list(range(10))


def test_steps_are_split_from_all_their_turns_however_many_there_are(trainer, monkeypatch):
    monkeypatch.setattr("telemetry_app.stored_activity.MOST_RECORDS", 16)
    write_steps(trainer, range(10))
    for _ in range(6):
        snapshot(after_seconds=900)
    assert list(StepTime.objects.values_list("gpu_wait_seconds", flat=True)) == [4.0] * 10


def test_a_holder_that_redis_no_longer_knows_is_named(trainer):
    write_steps(trainer, range(3))
    snapshot(after_seconds=200)
    StepTime.objects.all().delete()
    trainer.client.zrem(wire.WORKLOADS_KEY, "w-b")
    trainer.client.delete(wire.turns_key("w-b"))
    assert told()[1]["gpu_wait_by"][0] | {"seconds": 0} == {
        "workload": "w-b", "run_id": "run-b", "operation": "optim_step", "seconds": 0,
    }  # fmt: skip


def test_nothing_is_asked_for_again_while_nothing_is_new(trainer, monkeypatch):
    write_steps(trainer, range(3))
    snapshot(after_seconds=200)
    monkeypatch.setattr("telemetry_app.step_time_rows._split", None)  # a call would raise
    snapshot(after_seconds=210)


def test_step_times_go_with_the_step_aggregates(trainer):
    write_steps(trainer, range(3))
    snapshot(after_seconds=200)
    RetentionPolicy.objects.filter(kind__in=["steps", "operations"]).update(days_to_keep=1)
    summary = apply_retention()
    assert summary.errors == {}
    assert StepTime.objects.count() == 0


def test_step_times_of_a_pinned_run_stay(trainer):
    write_steps(trainer, range(3))
    snapshot(after_seconds=200)
    Run.objects.update(pinned=True)
    RetentionPolicy.objects.filter(kind__in=["steps", "operations"]).update(days_to_keep=1)
    apply_retention()
    assert kept_steps() == [0, 1, 2]


def test_step_times_go_with_their_run(trainer):
    write_steps(trainer, range(3))
    snapshot(after_seconds=200)
    trainer.client.flushdb()
    RetentionPolicy.objects.filter(kind="runs").update(days_to_keep=1)
    apply_retention()
    assert (Run.objects.count(), StepTime.objects.count()) == (0, 0)
