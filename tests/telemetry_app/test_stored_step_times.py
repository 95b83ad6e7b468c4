"""How long stored steps took: folded part by part, what is remembered of a part is what its rows still say."""

from __future__ import annotations

from datetime import timedelta

import pytest

from telemetry_app import stored_step_times
from telemetry_app.instants import from_unix
from telemetry_app.models import StepAggregate, StepTime
from telemetry_app.stored_step_times import stored_clock, stored_times
from tests.support.records import RUN, START

pytestmark = pytest.mark.django_db
STEPS = 44
WIDTH = 4


def at(step):
    return from_unix(START + 10 * step)


def aggregate(step, **fields):
    values = {"operation": "optim_step", "count": 1, "failures": 0, "seconds": float(step), "queue_seconds": 0.5}
    ends = {"started_at": at(step), "finished_at": at(step + 1), "first_enqueued_at": at(step)}
    return StepAggregate(run_id=RUN, step=step, **values | ends | fields)


def kept(step, **fields):
    waits = [["w-b", "run-b", "optim_step", 1.0 + step % 3], [None, None, None, 0.5]]
    values = {"wall_seconds": 10.0, "training_seconds": float(step), "gpu_wait_seconds": 1.5 + step % 3}
    ends = {"started_at": at(step), "ended_at": at(step + 1), "kept_at": at(step + 7)}
    return StepTime(run_id=RUN, step=step, gpu_wait_by=waits, **values | ends | fields)


@pytest.fixture
def steps(monkeypatch):
    """Steps in parts of eight, of which those older than the newest eight are remembered."""
    monkeypatch.setattr(stored_step_times, "STEPS_OF_A_PART", 8)
    monkeypatch.setattr(stored_step_times, "STEPS_AT_ONCE", 8)
    StepAggregate.objects.bulk_create(aggregate(step) for step in range(STEPS))
    StepTime.objects.bulk_create(kept(step) for step in range(STEPS))


def walls(first=0, last=STEPS - 1):
    return {number: times.wall_sum for number, times in stored_times(RUN, first, last, WIDTH).items()}


def training(first=0, last=STEPS - 1):
    return {number: clock.parts["training"] for number, clock in stored_clock(RUN, first, last, WIDTH).items()}


def anew(told, *steps):
    """Return what is told where nothing is remembered."""
    for fold in (stored_step_times._folded_times, stored_step_times._folded_clock):
        fold.cache_clear()
    return told(*steps)


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize(("first", "last"), [(0, STEPS - 1), (5, 30), (9, 9), (0, 200)])
def test_parts_make_what_their_steps_are(first, last):
    for _ in range(2):
        buckets = stored_times(RUN, first, last, WIDTH)
        clocks = stored_clock(RUN, first, last, WIDTH)
        shown = range(first, min(last, STEPS - 1) + 1)
        assert list(buckets) == list(clocks) == sorted({step // WIDTH for step in shown})
        for number, times in buckets.items():
            own = [step for step in shown if step // WIDTH == number]
            assert (times.steps_count, times.timed_count, times.wall_sum) == (len(own), len(own), 10.0 * len(own))
            assert (times.wall_max, times.wall_max_step) == (10.0, own[0])
            assert times.operations["optim_step"].seconds == sum(own)
            assert clocks[number].parts["training"] == sum(own)
            assert clocks[number].gpu_wait_by == {
                ("w-b", "run-b", "optim_step"): sum(1.0 + step % 3 for step in own),
                (None, None, None): 0.5 * len(own),
            }


@pytest.mark.usefixtures("steps")
def test_an_op_that_comes_late_is_counted_in_its_step_and_in_the_one_behind_it():
    before = walls()
    late = at(8) + timedelta(seconds=3)  # the last step of the first part got longer, the first of the next shorter
    StepAggregate.objects.bulk_create(
        [aggregate(7, count=2, finished_at=late)], update_conflicts=True,
        unique_fields=("run", "step", "operation"), update_fields=("count", "finished_at"),
    )  # fmt: skip
    assert walls() == before | {1: before[1] + 3, 2: before[2] - 3} == anew(walls)


@pytest.mark.usefixtures("steps")
def test_a_step_that_is_split_once_more_is_told_anew():
    before = training()
    newest = STEPS - 8  # the oldest that may be, in a part that has an older half
    StepTime.objects.bulk_create(
        [kept(newest, training_seconds=1_000.0)], update_conflicts=True,
        unique_fields=("run", "step"), update_fields=("training_seconds",),
    )  # fmt: skip
    assert training() == before | {newest // WIDTH: before[newest // WIDTH] - newest + 1_000.0} == anew(training)


@pytest.mark.usefixtures("steps")
def test_what_retention_removed_is_told_no_more():
    before = walls(), training()
    StepAggregate.objects.filter(step__lt=3).delete()
    StepTime.objects.filter(step__lt=3).delete()
    assert (walls(), training()) != before
    assert walls() == anew(walls)
    assert training() == anew(training) == before[1] | {0: 3.0}


@pytest.mark.usefixtures("steps")
def test_a_run_that_comes_again_under_its_name_has_its_own_times():
    walls(), training()
    StepAggregate.objects.all().delete()
    StepTime.objects.all().delete()
    StepAggregate.objects.bulk_create(aggregate(step, seconds=7.0) for step in range(STEPS))
    StepTime.objects.bulk_create(kept(step, training_seconds=7.0) for step in range(STEPS))
    assert set(training().values()) == {7.0 * WIDTH}
    assert {times.operations["optim_step"].seconds for times in stored_times(RUN, 0, STEPS - 1, WIDTH).values()} == {
        7.0 * WIDTH
    }


@pytest.mark.usefixtures("steps")
def test_old_parts_are_folded_once():
    anew(walls), anew(training)
    folds = stored_step_times._folded_times, stored_step_times._folded_clock
    walls(), training()
    missed = [fold.cache_info().misses for fold in folds]
    walls(), training()
    assert [fold.cache_info().misses for fold in folds] == missed
    assert all(fold.cache_info().hits for fold in folds)
