"""Op records grouped by step."""

from __future__ import annotations

import pytest

from telemetry_app.grouping import MetricSpread, group_steps
from tests.support.records import START, foreign_op, op, step_of_ops
from workers_client.wire import FORWARD, FORWARD_BACKWARD, OPTIM_STEP


def steps_and_completed(records, **fields):
    return [(group.step, group.completed) for group in group_steps(records, **fields)]


# --- Where a step ends ----------------------------------------------------------------------------------------
def test_nothing_recorded_is_no_step():
    assert group_steps([]) == []


def test_steps_come_oldest_first():
    records = [record for step in (3, 1, 2) for record in step_of_ops(step, at=START + 10 * step)]
    assert [group.step for group in group_steps(records)] == [1, 2, 3]


def test_a_step_ends_with_its_successful_optim_step():
    assert steps_and_completed(step_of_ops(0, at=START)) == [(0, True)]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_an_optim_step_that_did_not_succeed_leaves_its_step_open(status):
    records = [op(at=START, step=0), op(OPTIM_STEP, at=START + 1, step=0, status=status)]
    assert steps_and_completed(records) == [(0, False)]


@pytest.mark.parametrize("operation", ["save_weights", "save_weights_for_sampler", "load_weights", FORWARD])
def test_an_op_that_does_no_training_behind_the_newest_optim_step_belongs_to_that_step(operation):
    records = [*step_of_ops(0, at=START), op(operation, at=START + 5, step=1)]
    [group] = group_steps(records)
    assert (group.step, group.completed) == (0, True)
    assert list(group.operations) == [FORWARD_BACKWARD, OPTIM_STEP, operation]


def test_a_tail_that_ended_early_by_another_clock_leaves_the_end_of_its_step():
    records = [*step_of_ops(0, at=START), op("save_weights", at=START - 0.5, step=1)]
    assert group_steps(records)[0].finished_at == START


def test_a_tail_moves_the_end_of_its_step():
    records = [*step_of_ops(0, at=START), op("save_weights", at=START + 5, step=1)]
    assert group_steps(records)[0].finished_at == START + 5


@pytest.mark.parametrize("operation", [FORWARD_BACKWARD, OPTIM_STEP])
def test_an_op_that_trains_opens_the_next_step(operation):
    records = [*step_of_ops(0, at=START), op(operation, at=START + 5, step=1, status="failed")]
    assert steps_and_completed(records) == [(0, True), (1, False)]


def test_saves_before_a_forward_backward_belong_to_the_step_it_opens():
    records = [
        *step_of_ops(0, at=START),
        op("save_weights", at=START + 3, step=1),
        op(FORWARD_BACKWARD, at=START + 5, step=1),
    ]
    assert list(group_steps(records)[1].operations) == ["save_weights", FORWARD_BACKWARD]


def test_an_open_step_has_no_end():
    assert group_steps([op(at=START, step=0)])[0].finished_at is None


def test_ops_before_the_first_training_make_step_0():
    assert steps_and_completed([op("load_weights", at=START, step=0)]) == [(0, False)]


def test_a_tail_is_folded_though_the_records_of_its_step_are_gone():
    assert steps_and_completed([op("save_weights", at=START, step=5)], steps_completed=5) == [(4, True)]


def test_a_completed_step_whose_training_records_are_missing_is_no_tail():
    records = [*step_of_ops(0, at=START), op("save_weights", at=START + 5, step=1)]
    assert steps_and_completed(records, steps_completed=2) == [(0, True), (1, True)]


def test_a_step_whose_optim_step_is_missing_is_completed_where_the_count_says_so():
    records = [op(at=START, step=0), *step_of_ops(1, at=START + 5)]
    assert steps_and_completed(records, steps_completed=2) == [(0, True), (1, True)]


def test_a_step_without_any_record_makes_no_group():
    records = [*step_of_ops(0, at=START), *step_of_ops(2, at=START + 5)]
    assert [group.step for group in group_steps(records, steps_completed=3)] == [0, 2]


def test_records_of_openrl_itself_are_grouped_by_their_optim_steps():
    operations = [FORWARD_BACKWARD, OPTIM_STEP, "save_weights", FORWARD_BACKWARD, OPTIM_STEP, "save_weights"]
    records = [foreign_op(name, at=START + index) for index, name in enumerate(operations)]
    groups = group_steps(records)
    assert [(group.step, list(group.operations)) for group in groups] == [
        (0, [FORWARD_BACKWARD, OPTIM_STEP]),
        (1, ["save_weights", FORWARD_BACKWARD, OPTIM_STEP]),
    ]
    assert groups[1].operations["save_weights"].count == 2


# --- What a step took -----------------------------------------------------------------------------------------
def test_the_first_steps_wall_time_runs_from_its_first_enqueue():
    records = [
        op(at=START + 9, started_at=START + 4, enqueued_at=START + 1, step=0),
        op(OPTIM_STEP, at=START + 10, enqueued_at=START + 2, step=0),
    ]
    assert group_steps(records)[0].wall_seconds == 9.0


def test_the_first_steps_wall_time_is_unknown_without_an_enqueue():
    assert group_steps(step_of_ops(0, at=START))[0].wall_seconds is None


def test_a_later_steps_wall_time_runs_from_the_end_of_the_step_before():
    records = [*step_of_ops(0, at=START), op("save_weights", at=START + 2, step=0), *step_of_ops(1, at=START + 52)]
    assert group_steps(records)[1].wall_seconds == 50.0


def test_wall_time_is_unknown_where_the_step_before_is_not_at_hand():
    records = [*step_of_ops(3, at=START), *step_of_ops(5, at=START + 9)]
    assert [group.wall_seconds for group in group_steps(records)] == [None, None]


def test_wall_time_is_never_negative_though_workers_clocks_differ():
    records = [*step_of_ops(0, at=START + 5), *step_of_ops(1, at=START)]
    assert group_steps(records)[1].wall_seconds == 0.0


def test_a_step_starts_with_its_first_op_that_ran():
    records = [op(at=START + 9, started_at=START + 4, step=0), op(at=START + 7, started_at=START + 3, step=0)]
    assert group_steps(records)[0].started_at == START + 3


def test_a_step_never_starts_behind_the_end_of_an_op():
    assert group_steps([op(at=START, started_at=START + 50, step=0)])[0].started_at == START


def test_seconds_and_queue_seconds_are_sums():
    records = [op(at=START + n, step=0, elapsed_seconds=10.0, queue_seconds=0.5) for n in range(4)]
    group = group_steps(records)[0].operations[FORWARD_BACKWARD]
    assert (group.count, group.seconds, group.queue_seconds) == (4, 40.0, 2.0)


def test_ops_that_ran_as_one_computation_add_its_time_once():
    records = [op(at=START + n, step=0, elapsed_seconds=10.0, batch="b1") for n in range(4)]
    records.append(op(at=START + 9, step=0, elapsed_seconds=7.0, batch="b2"))
    group = group_steps(records)[0].operations[FORWARD_BACKWARD]
    assert (group.count, group.seconds) == (5, 17.0)


def test_a_batch_counts_as_its_longest_op():
    records = [op(at=START + s, step=0, elapsed_seconds=float(s), batch="b1") for s in (3, 9, 5)]
    assert group_steps(records)[0].operations[FORWARD_BACKWARD].seconds == 9.0


def test_a_batch_of_two_operations_counts_once_in_each():
    records = [op(name, at=START, step=0, elapsed_seconds=4.0, batch="b1") for name in (FORWARD, FORWARD_BACKWARD)]
    assert [group.seconds for group in group_steps(records)[0].operations.values()] == [4.0, 4.0]


def test_failures_are_counted_by_op_and_by_step():
    records = [
        op(at=START, step=0, status="failed"),
        op(at=START + 1, step=0, status="cancelled"),
        op(at=START + 2, step=0),
    ]
    [group] = group_steps(records)
    assert (group.failures, group.operations[FORWARD_BACKWARD].failures) == (1, 1)
    assert group.operations[FORWARD_BACKWARD].count == 3


def test_ops_stand_in_the_order_of_their_first_finish():
    records = [op("c", at=START + 3, step=0), op("a", at=START + 2, step=0), op("b", at=START + 1, step=0)]
    assert list(group_steps(records)[0].operations) == ["b", "a", "c"]


# --- Metrics --------------------------------------------------------------------------------------------------
def spread_of(*values, name="loss:sum"):
    records = [op(at=START + index, step=0, metrics={name: value}) for index, value in enumerate(values)]
    return group_steps(records)[0].operations[FORWARD_BACKWARD].metrics[name]


def test_a_metric_has_its_spread_and_its_newest_value():
    assert spread_of(1.1, 1.9, 1.2) == MetricSpread(count=3, min=1.1, mean=pytest.approx(1.4), max=1.9, last=1.2)


def test_the_mean_of_huge_values_does_not_overflow():
    assert spread_of(1.7e308, 1.7e308).mean == 1.7e308


def test_a_metric_that_an_op_did_not_report_is_missing_and_not_0():
    records = [op(at=START, step=0, metrics={"loss": 2.0}), op(at=START + 1, step=0)]
    assert group_steps(records)[0].operations[FORWARD_BACKWARD].metrics["loss"].count == 1


def test_a_nonfinite_metric_is_counted_by_name_and_has_no_numbers():
    records = [op(OPTIM_STEP, at=START, step=0, nonfinite={"grad_norm": "nan"})]
    group = group_steps(records)[0].operations[OPTIM_STEP]
    assert group.nonfinite == {"grad_norm": 1}
    assert group.metrics == {"grad_norm": MetricSpread()}


def test_a_nonfinite_value_leaves_its_finite_siblings_alone():
    records = [
        op(at=START, step=0, metrics={"loss": 1.0, "reward": 0.5}),
        op(at=START + 1, step=0, metrics={"reward": 0.7}, nonfinite={"loss": "inf"}),
        op(at=START + 2, step=0, metrics={"loss": 3.0}, nonfinite={"kl": "-inf"}),
    ]
    group = group_steps(records)[0].operations[FORWARD_BACKWARD]
    assert group.nonfinite == {"loss": 1, "kl": 1}
    assert group.metrics["loss"] == MetricSpread(count=2, min=1.0, mean=2.0, max=3.0, last=3.0)
    assert group.metrics["reward"].count == 2


# --- Each record once -----------------------------------------------------------------------------------------
def test_a_record_seen_twice_counts_once():
    record = op(at=START, step=0, elapsed_seconds=3.0)
    group = group_steps([record, record])[0].operations[FORWARD_BACKWARD]
    assert (group.count, group.seconds) == (1, 3.0)


def test_a_record_of_others_seen_twice_counts_once():
    record = foreign_op(at=START, request_id="q1")
    assert group_steps([record, record])[0].operations[FORWARD_BACKWARD].count == 1
