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


def run(redis_url: str, source: str, **options: str) -> tuple[int, str, str]:
    """Run the program and a source; return its exit code, and what it printed and complained."""
    done = run_script(f"{PROGRAM}\n{source}", redis_url, **options)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("python", PYTHONS.values(), ids=PYTHONS.keys())
@pytest.mark.parametrize(("handler", "order"), [("leave", "before"), ("leave_by_raising", "after")])
def test_a_handler_that_exits_is_an_end_by_signal(
    redis_client: redis.Redis, redis_url: str, tmp_path: Path, python: str, handler: str, order: str
) -> None:
    steps = [f"install({handler})", "exec(START)"]
    source = "\n".join(
        [*(steps if order == "before" else steps[::-1]), "for n in range(10): record(n)", "get_signal()"]
    )
    ended = run(redis_url, source, python=python, PYTHONPATH=python_path(tmp_path))
    assert ended == (7, "handled\n", "")
    assert len(stored_ids(redis_client)) == 10
    assert reason_of(redis_client) == "signal"


def ends_of(client: redis.Redis, redis_url: str, cases: list[str]) -> tuple[dict[str, tuple[int, str]], str]:
    """Run each case in a process of its own; return its exit code and reason by case, and what they complained.

    One program forks them all before anything of the recorder's is made, which is quicker than a start of each.
    """
    fork = f"""
import json, redis.connection
pids = {{}}
for lines in {cases!r}:
    pid = os.fork()
    if pid == 0:
        break
    pids[pid] = lines
else:
    lines = "print(json.dumps({{pid: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids}}))"
exec(lines)
"""
    done = run_script(f"{PROGRAM}\n{fork}", redis_url)
    *_, codes = done.stdout.splitlines()
    reasons = {}
    for name in client.zrange(wire.WORKERS_KEY, 0, -1):
        record = json.loads(client.get(wire.worker_key(name.decode())))
        reasons[str(record["pid"])] = record["exit_reason"]
    ended = [(code, reasons[pid]) for pid, code in json.loads(codes).items()]  # in the order of the cases
    return dict(zip(cases, ended, strict=True)), done.stderr


def lines(*steps: str) -> str:
    """Return a case that starts, records one op and takes these steps."""
    return "\n".join(["exec(START)", "record(0)", *steps])


def test_a_handler_of_any_shape_is_known(redis_client: redis.Redis, redis_url: str) -> None:
    exit_codes = {
        "set_flag": 0,
        "fail": 1,
        "Stopper().stop": 7,
        "Stopper()": 7,
        "functools.partial(functools.partial(leave))": 7,
        "decorated(leave)": 7,
        "lambda *both: leave(*both)": 7,
    }
    expected = {lines(f"install({name})", "get_signal()"): (code, "signal") for name, code in exit_codes.items()}
    expected[lines("signal.signal(signal.SIGINT, fail)", "install(leave)", "get_signal()")] = (7, "signal")
    ended, noise = ends_of(redis_client, redis_url, list(expected))
    assert ended == expected
    assert noise.splitlines()[-1] == "LookupError: told to stop"
    assert "workers_client" not in noise


def test_a_handler_that_never_ran_says_nothing(redis_client: redis.Redis, redis_url: str) -> None:
    get_another = ("signal.signal(signal.SIGUSR1, set_flag)", "os.kill(os.getpid(), signal.SIGUSR1)")
    expected = {
        lines("install(leave)"): (0, "exit"),
        lines("install(leave)", "sys.exit(3)"): (3, "exit"),
        lines("install(leave)", "set_flag(0, None)"): (0, "exit"),
        lines("install(decorated(leave))", "decorated(print)()"): (0, "exit"),
        lines("install(leave)", "raise ValueError('of the host')"): (1, "exception"),
        lines("install(leave)", *get_another, "stopped.wait(20)"): (0, "exit"),
        lines("install(signal.SIG_IGN)", "os.kill(os.getpid(), signal.SIGTERM)"): (0, "exit"),
    }
    assert ends_of(redis_client, redis_url, list(expected))[0] == expected


def test_a_host_that_closes_in_a_finally_is_told_apart_from_a_clean_end(
    redis_client: redis.Redis, redis_url: str
) -> None:
    def closing(ending: str, arguments: str = "") -> str:
        return lines("install(leave)", f"try:\n    {ending}\nfinally:\n    recorder.close({arguments})")

    expected = {
        closing("get_signal()"): (7, "signal"),
        closing("os.kill(os.getpid(), signal.SIGINT); stopped.wait(20)"): (-2, "signal"),
        closing("raise ValueError('of the host')"): (1, "exception"),
        closing("sys.exit(3)"): (3, "closed"),
        closing("pass"): (0, "closed"),
        closing("get_signal()", "reason='drained'"): (7, "drained"),
    }
    assert ends_of(redis_client, redis_url, list(expected))[0] == expected


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
    source = "install(leave)\ncode = leave.__code__\nexec(START)\nrecord(0)\nassert recorder.close(10)\n"
    code, _, noise = run(redis_url, source + "assert signal.getsignal(15) is leave\nassert leave.__code__ is code")
    assert (code, noise) == (0, "")
