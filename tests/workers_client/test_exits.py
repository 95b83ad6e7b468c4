"""The ends of a process: the last op arrives, and the host's exit code, traceback and handlers stay its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.support.workers import RUN, run_script, stored_ids
from workers_client import wire

pytestmark = pytest.mark.processes

# The first nine ops are flushed early or late; the tenth is recorded immediately before the end.
BEGIN = f"""
import os, signal, sys, threading, multiprocessing, time
import workers_client
{{before_start}}
recorder = workers_client.start(role="trainer", interval_seconds=60)
def record(number):
    command = {{{{"request_id": f"req-{{{{number}}}}", "op": "forward_backward", "model_id": {RUN!r}}}}}
    recorder.popped([command])
    with recorder.operation(command) as op:
        op.finish({{{{"type": "done", "metrics": {{{{"loss:sum": 1.0}}}}}}}})
    recorder.answered(command)
for number in range(9):
    record(number)
{{after_start}}
record(9)
"""
INTERRUPTED = subprocess.run(  # what Ctrl-C makes of a program without a recorder
    [sys.executable, "-c", "import os, signal\nos.kill(os.getpid(), signal.SIGINT)"], stderr=subprocess.DEVNULL
).returncode


def script(end: str, *, before_start: str = "", after_start: str = "") -> str:
    """Return a program that records ten ops and ends as it is told."""
    return BEGIN.format(before_start=before_start, after_start=after_start) + end


def worker_record(client: redis.Redis) -> dict:
    """Return the record of the one worker there was."""
    [worker] = client.zrange(wire.WORKERS_KEY, 0, -1)
    return json.loads(client.get(wire.worker_key(worker.decode())))


@pytest.mark.parametrize(
    ("end", "exit_code", "reason"),
    [
        ("", 0, "exit"),
        ("sys.exit(3)", 3, "exit"),
        ("raise ValueError('the host failed')", 1, "exception"),
        ("os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(30)", INTERRUPTED, "signal"),
        ("recorder.close(reason='drained')\nos._exit(5)", 5, "drained"),
    ],
)
def test_the_last_op_arrives_and_the_exit_is_the_hosts_own(
    redis_client: redis.Redis, redis_url: str, end: str, exit_code: int, reason: str
) -> None:
    done = run_script(script(end, after_start="recorder.flush(10)"), redis_url)
    assert done.returncode == exit_code
    assert ("the host failed" in done.stderr) is (reason == "exception")
    assert "workers_client" not in done.stderr
    assert len(stored_ids(redis_client)) == 10
    record = worker_record(redis_client)
    assert (record["phase"], record["exit_reason"]) == ("exited", reason)


def test_no_signal_handler_is_installed(redis_client: redis.Redis, redis_url: str) -> None:
    done = run_script(script("print([signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP)])"), redis_url)
    assert done.stdout.strip() == "[<Handlers.SIG_DFL: 0>, <Handlers.SIG_DFL: 0>]"


def test_a_process_that_vanishes_leaves_no_mark_of_an_exit(redis_client: redis.Redis, redis_url: str) -> None:
    done = run_script(script("os._exit(0)", after_start="assert recorder.flush(10)"), redis_url)
    assert done.returncode == 0
    assert len(stored_ids(redis_client)) == 9
    assert "exited_at" not in worker_record(redis_client)


def test_the_first_op_ever_in_the_last_line_arrives(redis_client: redis.Redis, redis_url: str) -> None:
    source = BEGIN.format(before_start="", after_start="").replace("range(9)", "range(0)")
    assert run_script(source, redis_url).returncode == 0
    assert len(stored_ids(redis_client)) == 1


def test_an_op_recorded_while_the_interpreter_shuts_down_arrives_or_is_no_noise(
    redis_client: redis.Redis, redis_url: str
) -> None:
    late = "import atexit\natexit.register(record, 10)"  # registered after ours, so it runs before it
    done = run_script(script(late), redis_url)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(stored_ids(redis_client)) == 11


def test_a_recorder_started_in_another_thread_sends_its_last_op(redis_client: redis.Redis, redis_url: str) -> None:
    source = script("").replace('recorder = workers_client.start(role="trainer", interval_seconds=60)', "")
    source = source.replace(
        "for number in range(9):",
        "def begin():\n    global recorder\n    recorder = workers_client.start('trainer', interval_seconds=60)\n"
        "thread = threading.Thread(target=begin)\nthread.start()\nthread.join()\nfor number in range(9):",
    )
    assert run_script(source, redis_url).returncode == 0
    assert len(stored_ids(redis_client)) == 10


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_of_multiprocessing_is_a_worker_of_its_own(
    redis_client: redis.Redis, redis_url: str, tmp_path: Path, method: str
) -> None:
    source = f"""
import multiprocessing, sys
import workers_client
def record(name):
    recorder = workers_client.start(role="trainer", interval_seconds=60)
    command = {{"request_id": name, "op": "forward_backward", "model_id": {RUN!r}, "payload": {{}}}}
    with recorder.operation(command) as op:
        op.finish({{"type": "done"}})
if __name__ == "__main__":
    record("parent")
    context = multiprocessing.get_context({method!r})
    children = [context.Process(target=record, args=(f"child-{{n}}",)) for n in range(2)]
    for child in children: child.start()
    for child in children: child.join()
    sys.exit(max(child.exitcode for child in children))
"""
    path = tmp_path / "program.py"
    path.write_text(source)
    run = f"import runpy, sys; sys.path.insert(0, {str(path.parent)!r}); sys.argv=[{str(path)!r}]"
    done = run_script(f"{run}\nimport subprocess\nsys.exit(subprocess.call([sys.executable, {str(path)!r}], "
                      "env={**__import__('os').environ, 'PYTHONPATH': '.'}))", redis_url)  # fmt: skip
    assert done.returncode == 0, done.stderr
    raw = redis_client.lrange(wire.operations_key(RUN), 0, -1)
    records = [wire.parse_operation(element, run_id=RUN) for element in raw]
    assert sorted(str(record.request_id) for record in records) == ["child-0", "child-1", "parent"]
    assert len({record.worker for record in records}) == 3


def test_importing_starts_nothing_and_loads_no_redis() -> None:
    source = (
        "import sys, threading, workers_client\n"
        "print('redis' in sys.modules, 'django' in sys.modules, threading.active_count())\n"
        "recorder = workers_client.start('trainer', redis_url='redis://127.0.0.1:1/0')\n"
        "print('redis' in sys.modules, threading.active_count())"
    )
    done = run_script(source, "")
    assert done.stdout.split("\n")[:2] == ["False False 1", "False 1"]
