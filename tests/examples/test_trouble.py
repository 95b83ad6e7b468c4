"""Trouble on demand strikes once, at the count that was asked for."""

from examples.reference_fleet.options import parse_options
from examples.reference_fleet.runs import RUNS
from examples.reference_fleet.trouble import Trouble

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


def test_restarted_process_counts_on(redis_client):
    flags = ("--kill-trainer", "digits-classifier:2")
    first = trouble_of(redis_client, *flags)
    struck = [first.kills_trainer(DIGITS, first.count(DIGITS, "optim_step")) for _ in range(2)]
    restarted = trouble_of(redis_client, *flags)
    struck.append(restarted.kills_trainer(DIGITS, restarted.count(DIGITS, "optim_step")))
    assert struck == [False, True, False]


def test_without_trouble_nothing_is_counted(redis_client):
    trouble = trouble_of(redis_client)
    assert trouble.count(DIGITS, "optim_step") == 0
    assert redis_client.keys() == []
