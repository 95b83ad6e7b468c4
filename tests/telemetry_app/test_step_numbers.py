"""Which step an op belongs to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.step_numbers import count_unstamped_steps, number_steps
from tests.support.records import START, foreign_op, op
from workers_client.wire import FORWARD_BACKWARD, OPTIM_STEP


def steps_of(records, **fields):
    return [step for step, _ in number_steps(records, **fields)]


def unstamped(*operations):
    return [foreign_op(name, at=START + index) for index, name in enumerate(operations)]


def test_a_stamped_record_keeps_its_stamp():
    assert steps_of([op(at=START, step=41), op(at=START + 1, step=7)], steps_completed=3) == [41, 7]


def test_each_successful_optim_step_ends_a_step_among_records_without_stamp():
    records = unstamped(FORWARD_BACKWARD, OPTIM_STEP, FORWARD_BACKWARD, FORWARD_BACKWARD, OPTIM_STEP, "save_weights")
    assert steps_of(records) == [0, 0, 1, 1, 1, 2]


def test_a_failed_optim_step_ends_no_step():
    records = [foreign_op(OPTIM_STEP, at=START, status="failed"), foreign_op(OPTIM_STEP, at=START + 1)]
    assert steps_of([*records, foreign_op(at=START + 2)]) == [0, 0, 1]


def test_a_cancelled_optim_step_ends_no_step():
    assert steps_of([foreign_op(OPTIM_STEP, at=START, status="cancelled"), foreign_op(at=START + 1)]) == [0, 0]


def test_numbering_ends_at_the_steps_completed_where_the_list_lost_its_oldest():
    records = unstamped(FORWARD_BACKWARD, OPTIM_STEP, FORWARD_BACKWARD, OPTIM_STEP, FORWARD_BACKWARD)
    assert steps_of(records, steps_completed=100) == [98, 98, 99, 99, 100]


def test_numbering_never_starts_below_zero():
    assert steps_of(unstamped(OPTIM_STEP, OPTIM_STEP, OPTIM_STEP), steps_completed=1) == [0, 1, 2]


@given(st.permutations(unstamped(FORWARD_BACKWARD, OPTIM_STEP, "save_weights", FORWARD_BACKWARD, OPTIM_STEP)))
def test_the_order_in_which_records_come_changes_nothing(records):
    assert steps_of(records) == [0, 0, 1, 1, 1]


def test_steps_are_counted_from_records_without_stamp_alone():
    records = [op(OPTIM_STEP, at=START, step=4), *unstamped(OPTIM_STEP, FORWARD_BACKWARD, OPTIM_STEP)]
    assert count_unstamped_steps(records) == 2
