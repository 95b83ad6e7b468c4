"""A process that a signal ends says so, whatever the host's handler does, and nothing of the host's is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis

from tests.support.interpreters import present_interpreters, python_path
from tests.support.workers import RUN, run_script, stored_ids
from workers_client import wire

pytestmark = pytest.mark.processes

PYTHONS = present_interpreters()

PROGRAM = f"""
import functools, os, signal, sys, threading, time
import workers_client

stopped = threading.Event()

def leave(number, frame):
    print("handled")
    sys.exit(7)

def leave_by_raising(number, frame):
    print("handled")
    raise SystemExit(7)

def set_flag(number, frame):
    print("handled")
    stopped.set()

def fail(number, frame):
    print("handled")
    raise LookupError("told to stop")

class Stopper:
    def stop(self, number, frame):
        leave(number, frame)
    def __call__(self, number, frame):
        leave(number, frame)

def decorated(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)
    return wrapper

def install(handler):
    signal.signal(signal.SIGTERM, handler)

def get_signal():
    os.kill(os.getpid(), signal.SIGTERM)
    stopped.wait(20)

def record(number):
    command = {{"request_id": f"req-{{number}}", "op": "forward_backward", "model_id": {RUN!r}}}
    with recorder.operation(command) as op:
        op.finish({{"type": "done"}})

START = 'recorder = workers_client.start("trainer", interval_seconds=60)'
"""


def reason_of(client: redis.Redis) -> str:
    """Return why the one worker there was says that it ended."""
    [worker] = client.zrange(wire.WORKERS_KEY, 0, -1)
    record = json.loads(client.get(wire.worker_key(worker.decode())))
    assert record["phase"] == "exited"
    return str(record["exit_reason"])


def run(redis_url: str, lines: str, **options: str) -> tuple[int, str, str]:
    """Run the program and these lines; return its exit code, and what it printed and complained."""
    done = run_script(f"{PROGRAM}\n{lines}", redis_url, **options)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("python", PYTHONS.values(), ids=PYTHONS.keys())
@pytest.mark.parametrize(("handler", "order"), [("leave", "before"), ("leave_by_raising", "after")])
def test_a_handler_that_exits_is_an_end_by_signal(
    redis_client: redis.Redis, redis_url: str, tmp_path: Path, python: str, handler: str, order: str
) -> None:
    steps = [f"install({handler})", "exec(START)"]
    lines = "\n".join([*(steps if order == "before" else steps[::-1]), "for n in range(10): record(n)", "get_signal()"])
    ended = run(redis_url, lines, python=python, PYTHONPATH=python_path(tmp_path))
    assert ended == (7, "handled\n", "")
    assert len(stored_ids(redis_client)) == 10
    assert reason_of(redis_client) == "signal"


@pytest.mark.parametrize(
    ("handler", "exit_code"),
    [
        ("set_flag", 0),
        ("fail", 1),
        ("Stopper().stop", 7),
        ("Stopper()", 7),
        ("functools.partial(functools.partial(leave))", 7),
        ("decorated(leave)", 7),
        ("lambda *both: leave(*both)", 7),
    ],
)
def test_a_handler_of_any_shape_is_known(
    redis_client: redis.Redis, redis_url: str, handler: str, exit_code: int
) -> None:
    code, told, noise = run(redis_url, f"exec(START)\nrecord(0)\ninstall({handler})\nget_signal()")
    assert (code, told) == (exit_code, "handled\n")
    assert noise.splitlines()[-1:] == (["LookupError: told to stop"] if handler == "fail" else [])
    assert "workers_client" not in noise
    assert reason_of(redis_client) == "signal"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("install(leave)", "exit"),
        ("install(leave)\nsys.exit(3)", "exit"),
        ("install(leave)\nset_flag(0, None)", "exit"),
        ("install(decorated(leave))\ndecorated(print)()", "exit"),
        ("install(leave)\nraise ValueError('of the host')", "exception"),
        ("signal.signal(signal.SIGUSR1, set_flag)\nos.kill(os.getpid(), signal.SIGUSR1)\nstopped.wait(20)", "exit"),
        ("install(signal.SIG_IGN)\nos.kill(os.getpid(), signal.SIGTERM)", "exit"),
    ],
)
def test_a_handler_that_never_ran_says_nothing(
    redis_client: redis.Redis, redis_url: str, lines: str, reason: str
) -> None:
    run(redis_url, f"exec(START)\nrecord(0)\n{lines}")
    assert reason_of(redis_client) == reason


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ("get_signal()", "signal"),
        ("os.kill(os.getpid(), signal.SIGINT)\n    stopped.wait(20)", "signal"),
        ("raise ValueError('of the host')", "exception"),
        ("sys.exit(3)", "closed"),
        ("pass", "closed"),
    ],
)
def test_a_host_that_closes_in_a_finally_is_told_apart_from_a_clean_end(
    redis_client: redis.Redis, redis_url: str, ending: str, reason: str
) -> None:
    run(redis_url, f"exec(START)\nrecord(0)\ninstall(leave)\ntry:\n    {ending}\nfinally:\n    recorder.close()")
    assert reason_of(redis_client) == reason


def test_a_reason_of_the_hosts_own_stays(redis_client: redis.Redis, redis_url: str) -> None:
    lines = (
        "exec(START)\nrecord(0)\ninstall(leave)\ntry:\n    get_signal()\nfinally:\n    recorder.close(reason='drained')"
    )
    assert run(redis_url, lines)[0] == 7
    assert reason_of(redis_client) == "drained"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_of_multiprocessing_says_it_too(
    redis_client: redis.Redis, redis_url: str, tmp_path: Path, method: str
) -> None:
    # Sent to itself: a signal from the parent could come before the child's handler.
    source = f"""
import multiprocessing, sys
{PROGRAM}
def work():
    exec(START, globals())
    record(0)
    install(leave)
    get_signal()
if __name__ == "__main__":
    child = multiprocessing.get_context({method!r}).Process(target=work)
    child.start()
    child.join(20)
    sys.exit(child.exitcode)
"""
    program = tmp_path / "program.py"
    program.write_text(source)
    run_it = f"import subprocess, sys\nsys.exit(subprocess.call([sys.executable, {str(program)!r}]))"
    done = run_script(run_it, redis_url, PYTHONPATH=".")
    assert (done.returncode, done.stdout, done.stderr) == (7, "handled\n", "")
    assert reason_of(redis_client) == "signal"


def test_the_hosts_handler_stays_the_same_object(redis_client: redis.Redis, redis_url: str) -> None:
    lines = "install(leave)\ncode = leave.__code__\nexec(START)\nrecord(0)\nassert recorder.close(10)\n"
    code, _, noise = run(redis_url, lines + "assert signal.getsignal(15) is leave\nassert leave.__code__ is code")
    assert (code, noise) == (0, "")
