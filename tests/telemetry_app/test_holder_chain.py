"""Who is waited for, and whether that one moves."""

from __future__ import annotations

import pytest

from telemetry_app.health import Health
from telemetry_app.run_state import RunFacts, WorkerFact, run_state
from tests.support.records import RUN, START, worker
from workers_client.wire import FORWARD_BACKWARD, SAMPLE
from workers_client.wire_worker import CurrentTurn, Ledger, OutstandingWork

NOW = START


@pytest.mark.parametrize(
    ("sampled_for", "expected"), [(200, ("waiting_for_gpu",)), (500, ("stuck", "waiting_for_gpu"))]
)
def test_a_sampler_that_holds_the_gpu_is_stuck_by_what_sampling_takes(sampled_for, expected):
    asked_at = NOW - sampled_for
    sampler = worker(
        "sampler-1", at=NOW - 1, role="sampler", runs=("run-b",), node="n",
        turn=CurrentTurn("w-s", asked_at, asked_at), last_progress_at=asked_at,
        outstanding=(OutstandingWork("run-b", SAMPLE, 8, asked_at, ("s",)),),
    )  # fmt: skip
    trainer = worker(
        "trainer-1", at=NOW - 1, node="n", turn=CurrentTurn("w-t", asked_at + 1, None),
        outstanding=(OutstandingWork(RUN, FORWARD_BACKWARD, 1, asked_at + 1, ("q",)),),
    )  # fmt: skip
    facts = RunFacts(
        RUN, NOW, asked_at, Ledger(10, 10, 9, 9), expected_seconds={SAMPLE: 80.0},
        workers=[WorkerFact(sampler, Health.ALIVE), WorkerFact(trainer, Health.ALIVE)],
    )  # fmt: skip
    state = run_state(facts)
    assert (state.state, *state.also) == expected


@pytest.mark.parametrize(
    ("holders", "waiters", "is_named"),
    [("0", "1", False), ("0,1", "1", True), ("0", None, True), ("GPU-a", "1", True), ("GPU-a", "GPU-b", False)],
)
def test_a_worker_that_sees_other_devices_of_the_node_holds_none_that_is_waited_for(holders, waiters, is_named):
    def settings(devices):
        return {"CUDA_VISIBLE_DEVICES": devices} if devices else {}

    holder = worker(
        "trainer-2", at=NOW - 1, runs=("run-b",), node="n", settings=settings(holders),
        turn=CurrentTurn("w-2", NOW - 30, NOW - 30),
    )  # fmt: skip
    waiting = worker(
        "trainer-1", at=NOW - 1, node="n", settings=settings(waiters), turn=CurrentTurn("w-1", NOW - 20, None),
        outstanding=(OutstandingWork(RUN, FORWARD_BACKWARD, 1, NOW - 20, ("q",)),),
    )  # fmt: skip
    workers = [WorkerFact(holder, Health.ALIVE), WorkerFact(waiting, Health.ALIVE)]
    [condition, *_] = run_state(RunFacts(RUN, NOW, NOW - 20, Ledger(10, 10, 9, 9), workers=workers)).conditions
    assert condition.state == "waiting_for_gpu"
    assert [link.worker for link in condition.chain] == (["trainer-2"] if is_named else [])
