"""A forked child is a worker of its own; the parent's records, connection and thread stay the parent's."""

from __future__ import annotations

import json

import pytest
import redis

from tests.support.workers import RUN, run_script
from workers_client import wire

pytestmark = pytest.mark.processes

ROUNDS = 50
CHILDREN = 4

# Forks while a flush is under way: the flush thread holds its locks, or is about to.
PROGRAM = f"""
import json, os, sys
import workers_client
recorder = workers_client.start(role="trainer", interval_seconds=0.01)
def record(name):
    command = {{"request_id": name, "op": "forward_backward", "model_id": {RUN!r}, "payload": {{}}}}
    recorder.popped([command])
    with recorder.operation(command) as op:
        op.finish({{"type": "done"}})
    recorder.answered(command)
for round in range({ROUNDS}):
    for number in range(5):
        record(f"parent-{{round}}-{{number}}")
    recorder._core.flusher.wake()
    pids = []
    for child in range({CHILDREN} if round % 10 == 0 else 1):
        pid = os.fork()
        if pid == 0:
            record(f"child-{{round}}-{{child}}")
            if child == 0 and os.fork() == 0:
                record(f"grandchild-{{round}}")
                os._exit(0 if recorder.close(10) else 9)
            if child == 0:
                os.wait()
            os._exit(0 if recorder.close(10) else 9)
        pids.append(pid)
    for pid in pids:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert recorder.close(20)
print(json.dumps([recorder.stats(), recorder.worker]))
"""


def test_children_and_grandchildren_of_a_flushing_parent_record_once_each(
    redis_client: redis.Redis, redis_url: str
) -> None:
    done = run_script(PROGRAM, redis_url)
    assert done.returncode == 0, done.stderr
    stats, parent = json.loads(done.stdout)
    raw = redis_client.lrange(wire.operations_key(RUN), 0, -1)
    records = [wire.parse_operation(element, run_id=RUN) for element in raw]
    children = ROUNDS // 10 * CHILDREN + ROUNDS - ROUNDS // 10
    assert len({record.request_id for record in records}) == len(records) == ROUNDS * 5 + children + ROUNDS
    assert sum(record.worker == parent for record in records) == ROUNDS * 5 == stats["sent"]["operation"]
    workers = [json.loads(redis_client.get(wire.worker_key(name.decode()))) for name in _workers(redis_client)]
    assert len(workers) == 1 + children + ROUNDS
    by_id = {worker["worker"]: worker for worker in workers}
    assert all(worker["worker"] == parent or worker["parent"] in by_id for worker in workers)
    assert len({worker["worker"] for worker in workers}) == len(workers)


def _workers(client: redis.Redis) -> list[bytes]:
    return client.zrange(wire.WORKERS_KEY, 0, -1)
