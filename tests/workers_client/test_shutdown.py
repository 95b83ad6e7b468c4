"""What is recorded while the interpreter shuts down, in each Python that is supported and present."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from tests.support.interpreters import present_interpreters, python_path
from tests.support.workers import RUN, run_script, stored_ids

pytestmark = pytest.mark.processes

PYTHONS = present_interpreters()
# From Python 3.12 on no thread can be started any more once the program has ended: the flush has none of its own then.
PROGRAM = f"""
import atexit, sys, threading
import workers_client

def record(number):
    command = {{"request_id": f"req-{{number}}", "op": "forward_backward", "model_id": {RUN!r}, "payload": {{}}}}
    recorder.popped([command])
    with recorder.operation(command) as op:
        op.finish({{"type": "done"}})
    recorder.answered(command)

def record_when_the_program_has_ended():
    threading.main_thread().join()
    record(1)

recorder = workers_client.start("trainer", interval_seconds=60)
"""


@pytest.mark.parametrize("python", PYTHONS.values(), ids=PYTHONS.keys())
@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("record(1)", 1),
        ("atexit.register(record, 1)", 1),
        ("threading.Thread(target=record_when_the_program_has_ended).start()", 1),
        ("record(0)\nassert recorder.close(20)\nthreading.Thread(target=record_when_the_program_has_ended).start()", 2),
    ],
    ids=["last line", "atexit", "late thread", "late thread after close"],
)
def test_each_op_arrives_without_noise(
    redis_client: redis.Redis, redis_url: str, tmp_path: Path, python: str, lines: str, count: int
) -> None:
    done = run_script(PROGRAM + lines, redis_url, python=python, PYTHONPATH=python_path(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(stored_ids(redis_client)) == count
