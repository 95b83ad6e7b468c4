"""What a run did at each instant: clocks, devices and steps of more workers than one."""

from __future__ import annotations

from itertools import pairwise

from telemetry_app.run_activity import RunActivity, run_step_times
from tests.support.records import RUN, START, op, sample_group, turn
from workers_client.wire import FORWARD_BACKWARD, OPTIM_STEP, TurnOp


def ran(operation, start, end, *, step, enqueued=None):
    enqueued_at = START + (start if enqueued is None else enqueued)
    times = {"started_at": START + start, "enqueued_at": enqueued_at, "elapsed_seconds": end - start}
    return step, op(operation, at=START + end, step=step, **times)


def held(start, end, workload, node, run_id, *, requested=None, name=FORWARD_BACKWARD):
    return turn(
        at=START + end, started_at=START + start, workload=workload, node=node, worker=workload,
        requested_at=None if requested is None else START + requested,
        ops=(TurnOp(name, START + start, START + end, run_id=run_id),),
    )  # fmt: skip


def parts(time):
    return {part: length / 1e6 for part, length in time.parts.items() if length}


def holders(time):
    return {use and use.run_id: length / 1e6 for use, length in time.gpu_wait_by.items()}


def test_a_wait_is_the_holders_of_the_device_that_was_waited_for():
    operations = [
        ran(FORWARD_BACKWARD, 0, 5, step=0), ran(OPTIM_STEP, 5, 6, step=0),
        ran(FORWARD_BACKWARD, 60, 70, step=1, enqueued=10), ran(OPTIM_STEP, 70, 71, step=1),
    ]  # fmt: skip
    turns = [
        held(1, 3, "sampler", "node-b", RUN, requested=1, name="sample"),
        held(5, 70, "c", "node-b", "run-c"),  # where the run only samples, and for longer
        held(10, 60, "b", "node-a", "run-b"),
        held(60, 71, "trainer", "node-a", RUN, requested=10),
    ]
    [_, time] = run_step_times(RunActivity(RUN, operations, 2, turns=turns))
    assert (parts(time)["gpu_wait"], holders(time), time.overlap) == (50.0, {"run-b": 50.0}, 0)


def test_an_instant_at_which_trainer_and_sampler_wait_for_two_devices_counts_once():
    operations = [ran(OPTIM_STEP, 0, 5, step=0), ran(OPTIM_STEP, 60, 61, step=1, enqueued=10)]
    turns = [
        held(5, 60, "b", "node-a", "run-b"), held(60, 61, "trainer", "node-a", RUN, requested=20),
        held(5, 50, "c", "node-b", "run-c"), held(50, 60, "sampler", "node-b", RUN, requested=10, name="sample"),
    ]  # fmt: skip
    [_, time] = run_step_times(RunActivity(RUN, operations, 2, turns=turns))
    assert holders(time) == {"run-c": 10.0, "run-b": 40.0}
    assert sum(time.gpu_wait_by.values()) == time.parts["gpu_wait"]


def test_sampling_is_brought_to_one_clock():
    operations = [ran(OPTIM_STEP, 0, 5, step=0), ran(FORWARD_BACKWARD, 45, 60, step=1), ran(OPTIM_STEP, 60, 61, step=1)]
    answered = sample_group(
        at=START + 60,
        worker="dispatcher",
        first_accepted_at=START + 30,
        first_answered_at=START + 50,
        busy_seconds=30.0,
    )
    [_, time] = run_step_times(RunActivity(RUN, operations, 2, samples=[answered], offsets={"dispatcher": 20.0}))
    assert parts(time) == {"training": 16.0, "sampling": 30.0, "client": 10.0}


def test_a_step_names_the_clock_of_the_holder_it_waited_for_and_of_nobody_else():
    operations = [
        ran(OPTIM_STEP, 0, 5, step=0), ran(OPTIM_STEP, 60, 61, step=1, enqueued=10), ran(OPTIM_STEP, 90, 91, step=2),
    ]  # fmt: skip
    turns = [
        held(18, 68, "b", "node-a", "run-b"), held(60, 61, "trainer", "node-a", RUN, requested=10),
        held(10, 95, "c", "node-b", "run-c"),
    ]  # fmt: skip
    times = run_step_times(RunActivity(RUN, operations, 3, turns=turns, offsets={"b": 8.0, "c": 9.0, "trainer": 2.0}))
    assert [time.clock_offset_seconds for time in times] == [None, 8.0, None]
    times = run_step_times(RunActivity(RUN, operations, 3, turns=turns, offsets={"trainer": 2.0}))
    assert [time.clock_offset_seconds for time in times] == [None, 2.0, None]


def test_a_queue_is_told_by_one_clock_though_another_stamped_its_requests():
    ahead = 25.0
    operations = [ran(OPTIM_STEP, 0, 5, step=0, enqueued=ahead), ran(OPTIM_STEP, 60, 61, step=1, enqueued=20 + ahead)]
    [_, time] = run_step_times(RunActivity(RUN, operations, 2, enqueue_offset=ahead))
    assert parts(time) == {"client": 15.0, "queue": 40.0, "training": 1.0}
    assert time.clock_offset_seconds == ahead


def test_no_time_is_in_two_steps_where_one_ends_within_the_one_before():
    operations = [
        ran(FORWARD_BACKWARD, 0, 50, step=0), ran(OPTIM_STEP, 50, 100, step=0),
        ran(OPTIM_STEP, 60, 90, step=1),  # another trainer of the run
        ran(OPTIM_STEP, 150, 200, step=2),
    ]  # fmt: skip
    times = run_step_times(RunActivity(RUN, operations, 3))
    edges = [(time.window.start, time.window.end) for time in times]
    assert all(before[1] == after[0] for before, after in pairwise(edges))
    assert sum(time.wall for time in times) == 200 * 1_000_000
