"""The trainer: every command gets an answer, whatever became of its op, and a restart goes on from the checkpoint."""

import threading

import numpy as np
import pytest

import workers_client
from examples.reference_fleet.datasets import as_data, digits
from examples.reference_fleet.envelope import new_command
from examples.reference_fleet.message_queue import MessageQueue, command_queue
from examples.reference_fleet.options import parse_options
from examples.reference_fleet.runs import RUNS
from examples.reference_fleet.store import ResultStore
from examples.reference_fleet.trainer import Trainer

RUN = RUNS["digits-classifier"].run_id
MODEL = {"layers": [64, 8, 10], "seed": 0}
BATCH = {"data": as_data(digits(np.random.default_rng(0), 8, 0)), "loss_fn": "cross_entropy"}
ADAM = {"adam_params": {"learning_rate": 0.01}}


@pytest.fixture
def make_trainer(redis_client, redis_url, tmp_path, monkeypatch):
    """Make a trainer of the classifiers' group; all of one test share their checkpoints."""
    monkeypatch.setenv("REDIS_URL", redis_url)
    options = parse_options(["--full-speed", "--state-dir", str(tmp_path)])
    return lambda: Trainer(options, "classify", threading.Event(), workers_client.NullRecorder())


@pytest.fixture
def ask(redis_client):
    """Queue commands (op, payload), have a trainer run one turn, and return their results."""

    def send(trainer, *requests):
        commands = [new_command(operation, RUN, payload) for operation, payload in requests]
        for command in commands:
            MessageQueue(redis_client).push(command_queue(RUN), command)
        trainer.run_turn()
        return [ResultStore(redis_client).load(command["request_id"]) for command in commands]

    return send


def test_batch_of_commands_is_answered_in_order(make_trainer, ask):
    created, learnt, stepped = ask(
        make_trainer(), ("create_model", MODEL), ("forward_backward", BATCH), ("optim_step", ADAM)
    )
    assert created["type"] == "model_created"
    assert learnt["metrics"]["loss:sum"] == pytest.approx(8 * learnt["metrics"]["loss:mean"])
    assert stepped["metrics"]["grad_norm:mean"] > 0


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (("optim_step", ADAM), "Model must be loaded first."),
        (("frobnicate", {}), "no op is called 'frobnicate'"),
        (("forward_backward", {}), "'data'"),
    ],
)
def test_op_that_raises_is_answered_with_a_failure(make_trainer, ask, request_, message):
    (result,) = ask(make_trainer(), request_)
    assert (result["type"], result["error_message"]) == ("RequestFailedResponse", message)


def test_failing_op_does_not_touch_its_neighbours(make_trainer, ask):
    bad = {**BATCH, "loss_fn": "cispo"}
    results = ask(make_trainer(), ("create_model", MODEL), ("forward_backward", bad), ("forward_backward", BATCH))
    assert [result["type"] for result in results] == [
        "model_created", "RequestFailedResponse", "forward_backward_completed",
    ]  # fmt: skip


def test_message_without_ids_costs_only_itself(redis_client, make_trainer, ask):
    MessageQueue(redis_client).push(command_queue(RUN), {"op": "optim_step"})
    assert ask(make_trainer(), ("create_model", MODEL))[0]["type"] == "model_created"


def test_restarted_trainer_goes_on_from_the_newest_checkpoint(make_trainer, ask):
    step = (("forward_backward", BATCH), ("optim_step", ADAM))
    ask(make_trainer(), ("create_model", MODEL), *step, ("save_state", {}))
    created, learnt, _ = ask(make_trainer(), ("create_model", MODEL), *step)
    assert created["step_count"] == 1
    again, _ = ask(make_trainer(), *step)
    assert again["metrics"] == learnt["metrics"]
