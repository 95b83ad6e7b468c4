"""Starts the reference fleet as real processes, and reads what stands in Redis after it is done."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from examples.reference_fleet.runs import RUNS
from workers_client import wire

ROOT = Path(__file__).parents[2]
CARTPOLE = RUNS["cartpole-policy"].run_id


@dataclass
class Outcome:
    """What stands in Redis after a fleet is done."""

    exit_code: int
    log: str
    operations: dict[str, list[wire.OpRecord]]
    samples: list[wire.SampleRecord]  # of the one run that samples
    ledgers: dict[str, dict[str, int]]
    steps: dict[str, int]
    turns: dict[str, list[wire.TurnRecord]]
    troubles: dict[str, int]  # what the fleet counted itself, to bring its troubles in time


def _start_fleet(state_dir, *flags):
    """Start it as the leader of a process group of its own, as a shell would."""
    command = [sys.executable, "-m", "examples.reference_fleet", "--state-dir", str(state_dir), *flags]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def read_ledger(client, run_id):
    return {name.decode(): int(float(value)) for name, value in client.hgetall(wire.ledger_key(run_id)).items()}


def read_samples(client, run_id=CARTPOLE):
    return [wire.parse_sample(raw, run_id=run_id) for raw in client.lrange(wire.samples_key(run_id), 0, -1)]


def _read_outcome(client, exit_code, log):
    run_ids = [name.decode() for name in client.zrange(wire.RUNS_KEY, 0, -1)]
    workloads = [name.decode() for name in client.zrange(wire.WORKLOADS_KEY, 0, -1)]
    troubles = [client.hgetall(key) for key in client.scan_iter("reference_fleet:counts:*")]
    return Outcome(
        exit_code=exit_code,
        log=log,
        operations={
            run_id: [
                wire.parse_operation(raw, run_id=run_id) for raw in client.lrange(wire.operations_key(run_id), 0, -1)
            ]
            for run_id in run_ids
        },
        samples=read_samples(client),
        ledgers={run_id: read_ledger(client, run_id) for run_id in run_ids},
        steps={run_id: int(client.get(wire.steps_key(run_id)) or 0) for run_id in run_ids},
        turns={
            workload: [
                wire.parse_turn(raw, workload=workload) for raw in client.lrange(wire.turns_key(workload), 0, -1)
            ]
            for workload in workloads
        },
        troubles={name.decode(): int(count) for found in troubles for name, count in found.items()},
    )


@pytest.fixture(scope="session")
def start_fleet():
    """Start the fleet on a state folder with flags; the caller stops it."""
    return _start_fleet


@pytest.fixture(scope="module")
def run_fleet(tmp_path_factory):
    """Run the fleet on an empty Redis until its clients are done, and return the outcome."""

    def run(*flags):
        with redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5) as client:
            client.flushdb()
            with _start_fleet(tmp_path_factory.mktemp("fleet"), *flags) as fleet:
                try:
                    log, _ = fleet.communicate(timeout=60)
                finally:
                    fleet.terminate()
            return _read_outcome(client, fleet.returncode, log)

    return run


@pytest.fixture
def ledger_of(redis_client):
    """Read a run's ledger."""
    return lambda run_id: read_ledger(redis_client, run_id)


@pytest.fixture
def samples_of(redis_client):
    """Read a run's samples list."""
    return lambda run_id: read_samples(redis_client, run_id)
