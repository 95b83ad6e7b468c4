"""The step clock against the fleet's own words: two runs share a device, and each process logs what it did.

`FLEET_STEPS=200 python -m pytest tests/test_step_clock_of_fleet.py` is the long form; see docs/step-clock.md.
The logs know nothing of `workers_client`, and the parts are told from them here, in another way than the site's.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
import redis

from examples.reference_fleet.runs import RUNS
from telemetry_app.inspection.time import run_time
from telemetry_app.step_clock import PARTS

pytestmark = [pytest.mark.processes, pytest.mark.django_db]

logger = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[1]
STEPS = int(os.environ.get("FLEET_STEPS", "20"))
NAMES = ("cartpole-policy", "digits-classifier")
TRAINING = ("forward_backward", "optim_step")
LOOKED_AT = [part for part in PARTS if part != "client"]  # what is none of them is the client's
SHARE = 0.01  # of the wall time: what a part may differ by


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Run the fleet until its clients are done; return the lines of all processes, and leave its records in Redis."""
    folder = tmp_path_factory.mktemp("intervals")
    flags = ("--runs", ",".join(NAMES), "--steps", str(STEPS), "--ops-per-second", "12", "--flush-seconds", "1")
    with redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5) as client:
        client.flushdb()
    command = [sys.executable, "-m", "examples.reference_fleet", "--state-dir", str(folder / "state"), *flags]
    done = subprocess.run(
        [*command, "--interval-log", str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=60 + 5 * STEPS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]


def parts_by_log(lines: list[dict], run_id: str) -> list[dict[str, float]]:
    """Return the seconds of each part of each step, told from the processes' lines alone."""
    own = [line for line in lines if run_id in line["runs"]]
    begun = {line["request_id"]: line["start"] for line in own if line["what"] in ("enqueued", "accepted")}
    true: dict[str, list[tuple[float, float]]] = {part: [] for part in PARTS}
    ends = []
    started = max(line["start"] for line in own if line["what"] == "started")
    for line in own:
        what, start, end, request = line["what"], line["start"], line["end"], line["request_id"]
        if what in ("gpu_wait", "gpu_switch"):
            true[what].append((start, end))
        elif what == "answered":
            true["sampling"].append((begun[request], end))
        elif what not in ("enqueued", "accepted", "started"):
            true["training" if what in TRAINING else "saving"].append((start, end))
            true["queue"].append((max(begun[request], started), start))
            true["no_worker"].append((begun[request], min(start, started)))
            if what == "optim_step":
                ends.append(end)
    edges = [min(begun.values()), *sorted(ends)]
    return [split(start, end, true) for start, end in pairwise(edges)]


def split(start: float, end: float, true: dict[str, list[tuple[float, float]]]) -> dict[str, float]:
    """Go through the instants between two ends at which anything changes, and give each stretch to the first part."""
    near = {part: [pair for pair in pairs if pair[0] < end and pair[1] > start] for part, pairs in true.items()}
    changes = {min(max(at, start), end) for pairs in near.values() for pair in pairs for at in pair}
    edges = sorted(changes | {start, end})
    found = dict.fromkeys(PARTS, 0.0)
    for first, last in pairwise(edges):
        middle = (first + last) / 2
        part = next((part for part in LOOKED_AT if any(a <= middle < b for a, b in near[part])), "client")
        found[part] += last - first
    return found


def total(steps: Iterable[dict[str, float]]) -> dict[str, float]:
    told = list(steps)
    return {part: sum(parts[part] for parts in told) for part in PARTS}


@pytest.mark.parametrize("name", NAMES)
def test_the_clock_agrees_with_what_the_processes_logged(logs, name):
    run_id = RUNS[name].run_id
    answer = run_time(run_id, last=STEPS, now=time.time())
    logged = parts_by_log(logs, run_id)
    told = [step["parts"] for step in answer.results[: STEPS - 1]]  # the last has its save, too
    assert len(told) == STEPS - 1 <= len(logged)
    clock, processes = total(told), total(logged[: STEPS - 1])
    wall = sum(processes.values())
    differences = {part: (clock[part] - processes[part]) / wall for part in PARTS}

    logger.info("%s, %.1f s: %s", name, wall, {part: f"{share:+.3%}" for part, share in differences.items()})
    assert sum(clock.values()) == pytest.approx(wall, rel=SHARE)
    assert {part: share for part, share in differences.items() if abs(share) > SHARE} == {}
    assert clock["untracked"] <= SHARE * wall
    assert min(clock["gpu_wait"], clock["training"], clock["gpu_switch"]) > 0.01 * wall  # there was something to tell
