"""Trouble of sampling and of clients, each with its exact counts in Redis: real processes, two starts."""

from collections import Counter

import pytest

from examples.reference_fleet.runs import RUNS

pytestmark = pytest.mark.processes

CARTPOLE, SPIRALS = RUNS["cartpole-policy"].run_id, RUNS["spirals-classifier"].run_id
STEPS = 6  # of the first start; a step of the control run sends four sampling requests and waits for all
TROUBLE = (
    "--fail-job", "cartpole-policy:2",  # in step 1
    "--lose-sample", "cartpole-policy:6",  # in step 2
    "--fail-send", "cartpole-policy:10",  # in step 3
    "--send-twice", "cartpole-policy:11",
    "--fail-weight-update", "cartpole-policy:4",  # in step 4
    "--spoil-revision", "cartpole-policy:5",  # in step 5, which the client does again with the next revision
    "--client-leaves", "spirals-classifier:2",
)  # fmt: skip
REQUESTS = 4 * (STEPS + 1)

KILL_STEPS = 4
KILLS = (
    "--kill-sampler", "cartpole-policy:8",  # at the end of step 2, so that it holds no other answer
    "--kill-dispatcher", "cartpole-policy:12",  # at the end of step 3
)  # fmt: skip


@pytest.fixture(scope="module")
def troubled(run_fleet):
    """Run the fleet once with every trouble that kills nobody."""
    return run_fleet("--full-speed", "--steps", str(STEPS), "--sample-deadline", "4", *TROUBLE)


@pytest.fixture(scope="module")
def killed(run_fleet):
    """Run the fleet once with a sampler and a dispatcher that die."""
    flags = ("--full-speed", "--runs", "cartpole-policy", "--steps", str(KILL_STEPS), "--sample-deadline", "4")
    return run_fleet(*flags, *KILLS)


def failures(outcome):
    return [record for record in outcome.samples if record.kind == "failure"]


def answered(outcome):
    return sum(record.count for record in outcome.samples if record.kind == "group")


def weight_updates(outcome):
    return Counter(op.status for turn in outcome.turns["sampler"] for op in turn.ops if op.name == "weight_sync")


def test_each_sampling_request_is_answered_exactly_once(troubled):
    assert troubled.troubles[f"{CARTPOLE} sampling request"] == REQUESTS, troubled.log
    assert Counter(record.source for record in failures(troubled)) == {"job_failure": 1, "deadline": 1, "dispatcher": 4}
    assert answered(troubled) == REQUESTS - 6
    assert len({record.request_id for record in failures(troubled)}) == 6


def test_job_failure_without_a_send_has_its_accepted_at(troubled):
    (failure,) = (record for record in failures(troubled) if record.source == "job_failure")
    assert 0 < failure.accepted_at <= failure.at
    assert troubled.troubles[f"{CARTPOLE} sampled"] == REQUESTS - 2 + 1  # neither it nor the lost one; one twice


def test_lost_request_is_answered_at_its_deadline(troubled):
    (failure,) = (record for record in failures(troubled) if record.source == "deadline")
    assert failure.at - failure.accepted_at >= 4.0
    assert failure.error_type == "RequestFailedResponse"


def test_request_whose_send_raised_was_sent_again(troubled):
    assert troubled.log.count("a send failed (ConnectionError: told to fail), once more") == 1


def test_of_two_results_one_is_the_answer(troubled):
    assert troubled.troubles[f"{CARTPOLE} sampling result"] == REQUESTS + 1
    assert troubled.log.count("a second result came too late") == 1


def test_failed_weight_update_answers_nothing_and_is_tried_again(troubled):
    assert weight_updates(troubled) == {"succeeded": STEPS, "failed": 1 + 3}  # and three for the spoilt revision


def test_revision_that_cannot_be_loaded_fails_each_of_its_requests_once(troubled):
    failed = [record for record in failures(troubled) if record.source == "dispatcher"]
    assert len({record.request_id for record in failed}) == len(failed) == 4


def test_client_that_leaves_has_its_requests_answered_and_not_delivered(troubled):
    ledger = troubled.ledgers[SPIRALS]
    assert [ledger[name] for name in ("enqueued", "popped", "answered", "delivered")] == [11, 11, 11, 6]


def test_troubled_run_has_all_its_steps_and_answers(troubled):
    ledger = troubled.ledgers[CARTPOLE]
    created, saved = 1, 1
    total = created + STEPS * 3 + 1 + saved  # one revision more than steps
    assert [ledger[name] for name in ("enqueued", "popped", "answered", "delivered")] == [total] * 4
    assert (troubled.exit_code, troubled.steps[CARTPOLE]) == (0, STEPS)


def test_answer_that_a_sampler_took_with_it_fails_at_its_deadline(killed):
    assert [record.source for record in failures(killed)] == ["deadline"], killed.log
    assert "sampler ended with -9" in killed.log


def test_answers_that_a_dispatcher_had_not_flushed_are_missing_and_no_others(killed):
    assert "dispatcher ended with -9" in killed.log
    assert answered(killed) == 4 * KILL_STEPS - 1 - 1  # one failed, one not flushed
    assert len({record.worker for record in killed.samples}) == 2


def test_run_goes_on_after_sampler_and_dispatcher_died(killed):
    ledger = killed.ledgers[CARTPOLE]
    assert [ledger[name] for name in ("enqueued", "popped", "answered", "delivered")] == [2 + 3 * KILL_STEPS] * 4
    assert (killed.exit_code, killed.steps[CARTPOLE]) == (0, KILL_STEPS)
