"""Trouble on demand strikes once, at the count that was asked for."""

import pytest

from examples.reference_fleet.options import NthTrouble, parse_options
from examples.reference_fleet.runs import RUNS
from examples.reference_fleet.trouble import Trouble, is_due

DIGITS = RUNS["digits-classifier"].run_id
SPIRALS = RUNS["spirals-classifier"].run_id


def trouble_of(redis_client, *flags):
    return Trouble(parse_options([*flags, "--fleet-id", "test"]), redis_client)


def test_the_nth_op_of_the_named_run_fails(redis_client):
    trouble = trouble_of(redis_client, "--fail-op", "digits-classifier:forward:2")
    struck = [
        (run_id, number)
        for number in range(1, 4)
        for run_id in (DIGITS, SPIRALS)
        if trouble.fails(run_id, "forward", trouble.count(run_id, "forward"))
    ]
    assert struck == [(DIGITS, 2)]


def test_the_nth_op_of_the_named_run_hangs(redis_client):
    trouble = trouble_of(redis_client, "--hang-op", "digits-classifier:forward:2")
    struck = [trouble.hangs(DIGITS, "forward", trouble.count(DIGITS, "forward")) for _ in range(3)]
    assert struck == [False, True, False]
    assert not trouble.hangs(SPIRALS, "forward", 2)


def test_restarted_process_counts_on(redis_client):
    flags = ("--kill-trainer", "digits-classifier:2")
    first = trouble_of(redis_client, *flags)
    struck = [first.kills_trainer(DIGITS, first.count(DIGITS, "optim_step")) for _ in range(2)]
    restarted = trouble_of(redis_client, *flags)
    struck.append(restarted.kills_trainer(DIGITS, restarted.count(DIGITS, "optim_step")))
    assert struck == [False, True, False]


def test_planned_trouble_is_due_at_its_count_of_its_run_alone():
    planned = NthTrouble("digits-classifier", 2)
    due = [(run_id, count) for run_id in (DIGITS, SPIRALS) for count in range(4) if is_due(planned, run_id, count)]
    assert due == [(DIGITS, 2)]
    assert not is_due(None, DIGITS, 0)


@pytest.mark.parametrize("flag", ["--fail-job", "--spoil-revision", "--kill-sampler", "--kill-dispatcher"])
def test_any_planned_trouble_has_things_counted(redis_client, flag):
    trouble = trouble_of(redis_client, flag, "digits-classifier:2")
    assert [trouble.count(DIGITS, "revision") for _ in range(2)] == [1, 2]


def test_without_trouble_nothing_is_counted(redis_client):
    trouble = trouble_of(redis_client)
    assert trouble.count(DIGITS, "optim_step") == 0
    assert redis_client.keys() == []
