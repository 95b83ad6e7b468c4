"""What an earlier start left in the queues: the next one answers all of it."""

import json
import socket
from http.client import HTTPConnection

import pytest

from examples.reference_fleet.message_queue import command_queue
from examples.reference_fleet.runs import RUNS

pytestmark = pytest.mark.processes

DIGITS, SPIRALS = RUNS["digits-classifier"].run_id, RUNS["spirals-classifier"].run_id
MODEL = {"layers": [64, 8, 10], "seed": 0}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def leave_commands(start_fleet, state_dir, *commands):
    """Have an API server without a trainer take commands (run id, endpoint, payload), and stop it."""
    port = free_port()
    with start_fleet(state_dir, "--only", "api-server", "--port", str(port)) as server:
        assert "listens" in server.stdout.readline()
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        for run_id, endpoint, payload in commands:
            connection.request("POST", f"/api/v1/{endpoint}", json.dumps({"model_id": run_id, "payload": payload}))
            assert connection.getresponse().read()
        connection.close()
        server.terminate()
        server.communicate(timeout=5)


def test_queued_commands_are_answered_after_a_restart(tmp_path, redis_client, start_fleet, ledger_of):
    left = [(DIGITS, "create_model", MODEL), (DIGITS, "optim_step", {}), (SPIRALS, "optim_step", {})]
    leave_commands(start_fleet, tmp_path, *left)
    assert [redis_client.llen(command_queue(run_id)) for run_id in (DIGITS, SPIRALS)] == [2, 1]
    assert (ledger_of(DIGITS)["enqueued"], ledger_of(SPIRALS)["enqueued"]) == (2, 1)

    with start_fleet(tmp_path, "--runs", "digits-classifier", "--steps", "1", "--full-speed") as fleet:
        log, _ = fleet.communicate(timeout=40)

    own = 1 + 5 + 1  # create_model, a step, the last save
    served, refused = ledger_of(DIGITS), ledger_of(SPIRALS)
    assert [served[name] for name in ("enqueued", "popped", "answered", "delivered")] == [2 + own] * 3 + [own], log
    assert [refused[name] for name in ("enqueued", "popped", "answered", "failed")] == [1] * 4
    assert "commands refused that an earlier start had left: 1" in log
