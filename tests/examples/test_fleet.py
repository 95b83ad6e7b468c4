"""The fleet end to end: real processes, real Redis, every kind of trouble in one start, and its way to stop."""

import os
import signal
import time
from pathlib import Path

import pytest

from examples.reference_fleet.fleet import only_fleet_in
from examples.reference_fleet.runs import RUNS
from workers_client import wire

pytestmark = pytest.mark.processes

CARTPOLE, DIGITS, SPIRALS = (
    RUNS[name].run_id for name in ("cartpole-policy", "digits-classifier", "spirals-classifier")
)
STEPS = 6
TROUBLE = (
    "--fail-op", "digits-classifier:forward_backward:7",
    "--nan-gradient", "digits-classifier:5",
    "--kill-trainer", "cartpole-policy:3",
    "--client-stops", "spirals-classifier:2",
)  # fmt: skip


@pytest.fixture(scope="module")
def outcome(run_fleet):
    """Run the fleet once, with all the trouble that trainers and their clients can have."""
    return run_fleet("--full-speed", "--steps", str(STEPS), "--request-timeout", "2.5", *TROUBLE)


def of_name(records, operation, status="succeeded"):
    return [record for record in records if (record.operation, record.status) == (operation, status)]


def test_fleet_ends_well_when_its_clients_are_done(outcome):
    assert outcome.exit_code == 0, outcome.log


def test_every_run_has_its_steps(outcome):
    assert outcome.steps == {CARTPOLE: STEPS, DIGITS: STEPS, SPIRALS: 2}, outcome.log


@pytest.mark.parametrize("run_id", [CARTPOLE, DIGITS, SPIRALS])
def test_steps_are_numbered_without_gap_or_repeat(outcome, run_id):
    steps = [record.step for record in of_name(outcome.operations[run_id], "optim_step")]
    assert sorted(steps) == list(range(outcome.steps[run_id]))


def test_killed_trainer_is_replaced_and_numbering_continues(outcome):
    steps = of_name(outcome.operations[CARTPOLE], "optim_step")
    workers = [record.worker for record in sorted(steps, key=lambda record: record.at)]
    assert len(set(workers)) == 2
    assert workers == [workers[0]] * 2 + [workers[-1]] * (STEPS - 2)


def test_what_the_killed_trainer_took_with_it_stays_visible(outcome):
    ledger = outcome.ledgers[CARTPOLE]
    assert ledger["enqueued"] == ledger["popped"] == ledger["answered"] + 1


def test_nan_gradient_is_named_and_has_no_value(outcome):
    steps = sorted(of_name(outcome.operations[DIGITS], "optim_step"), key=lambda record: record.at)
    assert [dict(record.nonfinite) for record in steps] == [{}] * 4 + [{"grad_norm:mean": "nan"}] + [{}]
    assert "grad_norm:mean" not in steps[4].metrics
    assert all(record.metrics["grad_norm:mean"] > 0 for record in steps if record is not steps[4])


def test_failing_op_is_recorded_and_the_run_goes_on(outcome):
    records = outcome.operations[DIGITS]
    (failure,) = of_name(records, "forward_backward", "failed")
    assert (failure.error_type, failure.error_category, failure.step) == ("RequestFailedResponse", "server", 1)
    assert outcome.ledgers[DIGITS]["failed"] == 1
    assert len(of_name(records, "forward_backward")) == 4 * STEPS - 1


def test_run_ends_with_a_save_after_its_last_step(outcome):
    (save,) = of_name(outcome.operations[DIGITS], "save_state")
    assert save.step == STEPS


def test_evaluation_is_recorded_as_forward(outcome):
    (evaluation,) = of_name(outcome.operations[DIGITS], "forward")
    assert 0.0 <= evaluation.metrics["accuracy:mean"] <= 1.0
    assert (evaluation.tokens, evaluation.datums) == (128, 128)


def test_all_that_was_answered_was_delivered(outcome):
    for ledger in outcome.ledgers.values():
        assert ledger["delivered"] == ledger["answered"]


def test_every_sampling_answer_is_counted(outcome):
    assert {record.kind for record in outcome.samples} == {"group"}
    assert sum(record.count for record in outcome.samples) == 4 * (STEPS + 1)  # one step was done twice


def test_sampled_tokens_are_those_that_were_trained_on(outcome):
    trained = sum(record.tokens for record in of_name(outcome.operations[CARTPOLE], "forward_backward"))
    assert sum(record.tokens_sum for record in outcome.samples) == trained


def test_reward_is_the_mean_length_of_the_episodes(outcome):
    for record in of_name(outcome.operations[CARTPOLE], "forward_backward"):
        assert record.metrics["reward:mean"] == pytest.approx(record.tokens / record.datums)


def test_all_workloads_had_turns(outcome):
    assert set(outcome.turns) == {"sampler", "trainer-classify", "trainer-control"}
    assert all(outcome.turns.values())


def test_client_that_stops_leaves_its_run_behind(outcome):
    assert "spirals-classifier: done after 2 steps" in outcome.log
    assert len(of_name(outcome.operations[SPIRALS], "forward_backward")) == 8


# --- Stopping -------------------------------------------------------------------------------------------------
def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until_gone(pids, *, seconds):
    deadline = time.monotonic() + seconds
    while any(is_running(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [pid for pid in pids if is_running(pid)]


def read_until(fleet, *texts):
    """Read the log until all texts were seen."""
    missing = set(texts)
    for line in fleet.stdout:
        missing = {text for text in missing if text not in line}
        if not missing:
            return
    raise AssertionError(f"the fleet ended without {missing}")


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_all_within_three_seconds(tmp_path, redis_client, start_fleet, stop):
    with start_fleet(tmp_path, "--hang-sampler", "2", "--runs", "cartpole-policy,digits-classifier") as fleet:
        read_until(fleet, "hangs, as told", "digits-classifier: step 1")
        children = children_of(fleet.pid)
        told_at = time.monotonic()
        os.killpg(fleet.pid, stop)  # Ctrl-C reaches every process of the group
        log, _ = fleet.communicate(timeout=10)
        took = time.monotonic() - told_at
    assert len(children) == 7
    assert wait_until_gone(children, seconds=0) == []
    assert (fleet.returncode, took < 3.0) == (0, True)
    assert "Traceback" not in log
    workers = [
        redis_client.get(wire.worker_key(name.decode())) for name in redis_client.zrange("open_rl:workers", 0, -1)
    ]
    assert len(workers) == 5
    assert all(b'"exit_reason":"stopped"' in worker for worker in workers)


def test_second_fleet_in_a_folder_is_refused(tmp_path, redis_client, start_fleet):
    with only_fleet_in(tmp_path), start_fleet(tmp_path, "--runs", "digits-classifier") as second:
        log, _ = second.communicate(timeout=10)
    assert second.returncode == 2
    assert log == f"--state-dir {tmp_path}: another fleet works in this folder\n"


def test_children_die_with_a_killed_fleet(tmp_path, redis_client, start_fleet):
    with start_fleet(tmp_path, "--runs", "digits-classifier") as fleet:
        read_until(fleet, "digits-classifier: step 1")
        children = children_of(fleet.pid)
        fleet.kill()
    assert len(children) == 5
    assert wait_until_gone(children, seconds=2) == []
