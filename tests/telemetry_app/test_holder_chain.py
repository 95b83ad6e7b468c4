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
