"""The step clock of a run: where each step's wall time went, in parts that add up."""

from __future__ import annotations

import pytest

from telemetry_app.instants import rfc3339
from telemetry_app.models import StepTime
from telemetry_app.snapshots import take_snapshot
from telemetry_app.step_clock import PARTS
from tests.support.costs import cost_of
from tests.support.records import RUN, op, sample_group, turn, worker
from tests.telemetry_app.api.conftest import run_path
from workers_client import wire
from workers_client.wire_worker import CurrentOp, CurrentTurn, OutstandingWork

pytestmark = pytest.mark.django_db
PATH = run_path(RUN, "/time")


def ran(operation, start, end, *, step, enqueued=None, **fields):
    return op(operation, at=end, started_at=start, elapsed_seconds=end - start, enqueued_at=enqueued, step=step,
              worker="t-1", **fields)  # fmt: skip


def inside(name, start, end, run_id=RUN):
    return wire.TurnOp(name, start, end, run_id=run_id)


@pytest.fixture(params=["live", "history", "both"])
def waited(request, writer, now):
    """Step 0, alone, and step 1 that waited 180 s for a device that run-b held, which two ops and a switch took."""
    t = now - 1_000
    writer.operations(
        ran("forward_backward", t + 2, t + 10, step=0, enqueued=t),
        ran("optim_step", t + 10, t + 12, step=0, enqueued=t + 1),
        ran("forward_backward", t + 200, t + 220, step=1, enqueued=t + 12),
        ran("optim_step", t + 222, t + 224, step=1, enqueued=t + 221),
        op(at=t, run_id="run-b"),
    )
    writer.turns(
        turn(at=t + 12, workload="w-a", worker="t-1", started_at=t + 2, requested_at=t + 1,
             ops=(inside("forward_backward", t + 2, t + 10), inside("optim_step", t + 10, t + 12))),
        turn(at=t + 190, workload="w-b", worker="t-2", started_at=t + 5,
             ops=(inside("forward_backward", t + 14, t + 180, "run-b"), inside("sleep", t + 180, t + 190, None))),
        turn(at=t + 224, workload="w-a", worker="t-1", requested_at=t + 14, started_at=t + 194,
             ops=(inside("wake_up", t + 194, t + 200, None), inside("forward_backward", t + 200, t + 220))),
    )  # fmt: skip
    writer.workers(worker("t-1", at=now, started_at=t - 60))
    writer.steps(2)
    if request.param != "live":
        take_snapshot()
    if request.param == "history":
        writer.client.flushdb()
    return writer


def parts_of(step):
    return {part: round(length, 3) for part, length in step["parts"].items() if length}


def test_a_step_says_where_its_wall_time_went(api, waited):
    first, second = api.results(PATH)
    assert (first["step"], first["completed"], first["wall_seconds"]) == (0, True, pytest.approx(12))
    assert parts_of(first) == {"training": 10, "gpu_wait": 1, "queue": 1}
    assert (second["step"], second["wall_seconds"]) == (1, pytest.approx(212))
    assert parts_of(second) == {
        "training": 22, "gpu_switch": 6, "gpu_wait": 180, "queue": 3, "client": 1,
    }  # fmt: skip
    assert list(second["parts"]) == list(PARTS)


def test_a_wait_is_told_by_who_held_the_device_and_what_it_ran(api, waited):
    waits = {(wait["workload"], wait["run_id"], wait["operation"]): round(wait["seconds"], 3)
             for wait in api.results(PATH)[1]["gpu_wait_by"]}  # fmt: skip
    assert waits == {
        ("w-b", "run-b", "forward_backward"): 166, ("w-b", "run-b", "sleep"): 10, (None, None, None): 4,
    }  # fmt: skip


def test_turns_that_overlap_on_a_device_are_reported(api, waited):
    first, second = api.results(PATH)
    assert (first["overlap_seconds"], second["overlap_seconds"]) == (pytest.approx(7), 0)


def test_parts_add_up_to_the_wall_time_of_the_steps(api, waited):
    walls = [step["wall_seconds"] for step in api.results(run_path(RUN, "/steps"))]
    for step, wall in zip(api.results(PATH), walls, strict=True):
        assert sum(step["parts"].values()) == pytest.approx(step["wall_seconds"], abs=1e-6)
        assert step["wall_seconds"] == pytest.approx(wall, abs=1e-4)


def test_a_turn_and_an_op_that_come_late_are_seen_though_the_step_was_told_before(api, writer, now):
    t = now - 50
    writer.operations(
        ran("optim_step", t, t + 2, step=0, enqueued=t - 1),
        ran("optim_step", t + 30, t + 31, step=1, enqueued=t + 2),
    )
    own = inside("optim_step", t + 30, t + 31)
    writer.turns(
        turn(at=t + 31, workload="w-a", worker="t-1", started_at=t + 30, requested_at=t + 2, ops=(own,)),
    )
    writer.steps(2)
    for _ in range(2):
        assert api.results(PATH)[1]["gpu_wait_by"] == [
            {"workload": None, "run_id": None, "operation": None, "seconds": pytest.approx(28)}
        ]
        take_snapshot()  # keeps the turn, and no time of a step that ended just now
    late = inside("forward_backward", t + 5, t + 25, "run-b")
    writer.turns(turn(at=t + 25, workload="w-b", worker="t-2", started_at=t + 5, ops=(late,)))
    for _ in range(2):
        waits = {wait["run_id"]: wait["seconds"] for wait in api.results(PATH)[1]["gpu_wait_by"]}
        assert waits == {"run-b": pytest.approx(20), None: pytest.approx(8)}
        take_snapshot()
    writer.operations(ran("save_weights", t + 10, t + 20, step=1))
    for _ in range(2):
        assert parts_of(api.results(PATH)[1]) == {"saving": 10, "gpu_wait": 18, "training": 1}
        take_snapshot()


def test_steps_can_be_asked_for_from_the_newest_down(api, waited):
    answer = api.answer(PATH, last=1)
    assert ([step["step"] for step in answer["results"]], answer["next_before"]) == ([1], 1)
    older = api.answer(PATH, last=1, before=1)
    assert ([step["step"] for step in older["results"]], older["next_before"]) == ([0], None)
    assert older["results"][0] == api.results(PATH)[0]


def test_totals_add_up_the_steps_of_the_answer(api, waited):
    told = api.answer(PATH)["totals"]
    assert (told["steps_count"], told["wall_seconds"]) == (2, pytest.approx(224))
    assert sum(told["parts"].values()) == pytest.approx(224)
    assert sum(wait["seconds"] for wait in told["gpu_wait_by"]) == pytest.approx(told["parts"]["gpu_wait"])


def test_a_slow_step_says_why(api, waited):
    [slow] = api.answer(PATH)["slowest"]
    assert (slow["step"], slow["part"], slow["longer_seconds"]) == (1, "gpu_wait", pytest.approx(200))
    assert slow["text"] == (
        "step 1 took 3 min 20 s longer than usual: waited for the GPU held by run-b, `forward_backward`"
    )


def test_the_newer_half_is_compared_with_the_older(api, waited):
    told = api.answer(PATH)["comparison"]
    assert (told["first_step"], told["last_step"], told["compared_first_step"]) == (0, 0, 1)
    assert (told["part"], told["longer_seconds"]) == ("gpu_wait", pytest.approx(200))


def test_steps_are_compared_with_those_below_another_number(api, waited):
    told = api.answer(PATH, last=1, against_before=1)["comparison"]
    assert (told["run_id"], told["first_step"], told["compared_first_step"]) == (RUN, 0, 1)
    assert told["text"].startswith("step 1 took 3 min 20 s longer a step than step 0: waited for the GPU")


def test_steps_are_compared_with_those_of_another_run(api, waited, writer, now):
    writer.operations(
        ran("optim_step", now - 90, now - 80, step=0, enqueued=now - 90, run_id="run-c"),
        op(at=now - 80, run_id="run-c"),
    )
    told = api.answer(PATH, last=1, against="run-c")["comparison"]
    assert told["run_id"] == "run-c"
    assert told["text"].startswith(f"step 1 of {RUN} took 3 min 22 s longer a step than step 0 of run-c: ")


def test_a_run_to_compare_with_that_nobody_knows_is_not_found(api, waited):
    api.answer(PATH, 404, against="nobody")


def test_what_is_said_of_coverage_is_what_steps_say(api, waited):
    told, expected = api.answer(PATH), api.answer(run_path(RUN, "/steps"))
    assert told["coverage"] == expected["coverage"] | {"told_since": None}
    assert told["steps_completed"] == expected["steps_completed"] == 2


# --- Sampling and clients -------------------------------------------------------------------------------------
def test_sampling_is_told_between_the_ops(api, writer, now):
    t = now - 300
    writer.operations(
        ran("optim_step", t + 8, t + 10, step=0, enqueued=t),
        ran("save_weights_for_sampler", t + 11, t + 13, step=1, enqueued=t + 11),
        ran("forward_backward", t + 46, t + 50, step=1, enqueued=t + 46),
        ran("optim_step", t + 50, t + 51, step=1, enqueued=t + 46),
    )
    writer.samples(sample_group(at=t + 45, first_accepted_at=t + 13, first_answered_at=t + 30, busy_seconds=32.0))
    [_, step] = api.results(PATH)
    assert parts_of(step) == {"saving": 2, "sampling": 32, "training": 5, "client": 2}


# --- Now ------------------------------------------------------------------------------------------------------
def test_a_wait_that_goes_on_is_told_of_the_open_step(api, writer, now):
    writer.operations(
        ran("forward_backward", now - 100, now - 90, step=0, enqueued=now - 101),
        ran("optim_step", now - 90, now - 80, step=0, enqueued=now - 101),
    )
    writer.ledger(enqueued=3, answered=2)
    writer.workers(
        worker("t-1", at=now, started_at=now - 500, turn=CurrentTurn("w-a", requested_at=now - 60),
               outstanding=(OutstandingWork(RUN, "forward_backward", 1, now - 61, ("q1",)),)),
        worker("t-2", at=now, runs=("run-b",), turn=CurrentTurn("w-b", now - 90, now - 75),
               current=CurrentOp("optim_step", "run-b", "q7", now - 70)),
    )  # fmt: skip
    step = api.results(PATH)[-1]
    assert (step["step"], step["completed"], step["finished_at"]) == (1, False, None)
    assert parts_of(step) == {"client": 19, "queue": 1, "gpu_wait": 60}
    [held] = step["gpu_wait_by"]
    assert (held["workload"], held["run_id"], held["operation"]) == ("w-b", "run-b", "optim_step")


def test_time_without_a_worker_is_told_as_such(api, writer, now):
    writer.operations(
        ran("optim_step", now - 400, now - 390, step=0, enqueued=now - 400),
        op("optim_step", at=now - 300, started_at=now - 310, step=1, enqueued_at=now - 380, worker="t-2"),
    )
    writer.workers(
        worker("t-1", at=now - 370, started_at=now - 900),
        worker("t-2", at=now, started_at=now - 330),
    )
    step = api.results(PATH)[-1]
    assert parts_of(step) == {"client": 10, "queue": 30, "no_worker": 40, "training": 10}


def test_what_a_lost_worker_held_waits_for_nobody(api, writer, now):
    writer.operations(ran("optim_step", now - 400, now - 390, step=0, enqueued=now - 400))
    writer.ledger(enqueued=2, answered=1)
    lost = OutstandingWork(RUN, "forward_backward", 1, now - 385, ("q1",))
    writer.workers(
        worker("t-1", at=now - 380, started_at=now - 900, outstanding=(lost,)),
        worker("api", at=now, role="api_server"),
    )
    step = api.results(PATH)[-1]
    assert parts_of(step) == {"client": 5, "queue": 5, "no_worker": 380}


# --- Clocks ---------------------------------------------------------------------------------------------------
def test_clocks_that_are_off_are_corrected_and_said(api, writer, now):
    t, ahead = now - 300, 30.0
    writer.operations(
        ran("optim_step", t + ahead, t + 10 + ahead, step=0, enqueued=t - 1),
        ran("optim_step", t + 20 + ahead, t + 30 + ahead, step=1, enqueued=t + 12),
    )
    writer.workers(worker("t-1", at=now + ahead, started_at=t - 60 + ahead, clock_offset_seconds=ahead))
    first, step = api.results(PATH)
    assert parts_of(first) == {"queue": 1, "training": 10}
    assert parts_of(step) == {"client": 2, "queue": 8, "training": 10}
    assert step["clock_offset_seconds"] == ahead


@pytest.mark.parametrize("is_live", [True, False])
def test_the_clock_of_a_holder_that_was_waited_for_is_corrected_and_said(api, writer, now, is_live):
    t, ahead = now - 1_000, 5.0
    writer.operations(
        ran("optim_step", t, t + 5, step=0, enqueued=t), ran("optim_step", t + 60, t + 61, step=1, enqueued=t + 10)
    )
    writer.turns(
        turn(at=t + 60 + ahead, workload="w-b", worker="t-2", started_at=t + 5 + ahead,
             ops=(inside("optim_step", t + 5 + ahead, t + 60 + ahead, "run-b"),)),
        turn(at=t + 61, workload="w-a", worker="t-1", requested_at=t + 10, started_at=t + 60,
             ops=(inside("optim_step", t + 60, t + 61),)),
    )  # fmt: skip
    writer.workers(worker("t-1", at=now), worker("t-2", at=now + ahead, runs=("run-b",), clock_offset_seconds=ahead))
    writer.steps(2)
    take_snapshot()
    if not is_live:
        writer.client.flushdb()
    StepTime.objects.all().delete()
    [_, step] = api.results(PATH)
    assert step["clock_offset_seconds"] == ahead
    [holder] = step["gpu_wait_by"]
    assert (holder["run_id"], holder["seconds"]) == ("run-b", pytest.approx(50.0, abs=0.01))


@pytest.mark.parametrize("waited", ["both"], indirect=True)
def test_waits_that_were_not_looked_at_are_said(api, waited, now, monkeypatch):
    coverage = api.answer(PATH)["coverage"]
    assert (coverage["complete"], coverage["told_since"]) == (True, None)
    StepTime.objects.all().delete()
    monkeypatch.setattr("telemetry_app.stored_activity.MOST_RECORDS", 2)
    coverage = api.answer(PATH)["coverage"]
    assert (coverage["complete"], coverage["told_since"]) == (False, rfc3339(now - 1_000 + 190))


def test_small_offsets_are_not_worth_a_word(api, writer, now):
    writer.operations(ran("optim_step", now - 20, now - 10, step=0, enqueued=now - 20))
    writer.workers(worker("t-1", at=now, started_at=now - 60, clock_offset_seconds=0.4))
    assert api.results(PATH)[0]["clock_offset_seconds"] is None


# --- What is not known ----------------------------------------------------------------------------------------
def test_a_step_whose_beginning_is_not_at_hand_has_no_time(api, writer, now):
    writer.operations(ran("optim_step", now - 20, now - 10, step=7, enqueued=now - 20))
    [step] = api.results(PATH)
    assert (step["step"], step["wall_seconds"], step["parts"], step["gpu_wait_by"]) == (7, None, None, [])


def test_time_before_an_op_that_nobody_stamped_is_untracked(api, writer, now):
    writer.operations(
        ran("optim_step", now - 40, now - 30, step=0, enqueued=now - 40),
        ran("optim_step", now - 20, now - 10, step=1),
    )
    assert parts_of(api.results(PATH)[1]) == {"untracked": 10, "training": 10}


@pytest.mark.parametrize(("name", "value"), [("last", "0"), ("last", "2001"), ("before", "-1"), ("fields", "step")])
def test_a_bad_parameter_is_refused_by_name(api, waited, name, value):
    assert api.refusal(PATH, **{name: value})["attr"] == name


def test_with_redis_out_history_answers(api, waited, point_site_at, tmp_path):
    take_snapshot()
    before = api.results(PATH)
    point_site_at(f"unix://{tmp_path}/nothing.sock?db=0")
    answer = api.answer(PATH)
    assert answer["results"] == before
    assert answer["coverage"]["live"] is False


@pytest.mark.parametrize("waited", ["live", "both"], indirect=True)
def test_with_postgres_out_redis_answers(api, waited, postgres_out):
    before = api.results(PATH)
    postgres_out()
    answer = api.answer(PATH)
    assert (answer["results"], answer["coverage"]["history"]) == (before, False)


def test_a_run_that_nobody_knows_is_not_found(api, db):
    assert api.answer(run_path("nobody", "/time"), 404)["errors"][0]["code"] == "not_found"


def test_an_answer_costs_as_much_for_many_steps_as_for_one(api, writer, now, monkeypatch):
    costs = []
    for steps in (range(1), range(1, 20)):
        for step in steps:
            at = now - 900 + 20 * step
            writer.operations(ran("optim_step", at, at + 5, step=step, enqueued=at - 1))
            writer.turns(turn(at=at + 5, worker="t-1", requested_at=at - 1, started_at=at,
                              ops=(inside("optim_step", at, at + 5),)))  # fmt: skip
        take_snapshot()
        costs.append(cost_of(api, f"{PATH}?last=50", monkeypatch))
    assert costs[0] == costs[1]
