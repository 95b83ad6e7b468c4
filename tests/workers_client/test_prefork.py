"""A real pre-fork server that made its recorder before it forked: each of its processes is a worker of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from tests.support.workers import ROOT, RUN, WAIT_SECONDS, ledger, wait_until
from workers_client import wire

pytestmark = pytest.mark.processes

# Loaded once, in gunicorn's master: it has a flush thread and unsent events when it forks.
APPLICATION = f"""
import itertools, os, threading
import workers_client

recorder = workers_client.start("api_server", interval_seconds=60)
numbers = itertools.count()

def enqueue():
    name = f"{{os.getpid()}}-{{next(numbers)}}"
    recorder.enqueued({{"request_id": name, "op": "forward_backward", "model_id": {RUN!r}, "payload": {{}}}})

enqueue()
assert threading.active_count() == 2

def application(environ, start_response):
    enqueue()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
"""
PROCESSES = 2


def is_listening(path: Path) -> bool:
    """Return whether somebody takes connections; the request that is never sent counts as none."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


def ask(path: Path) -> str:
    """Send one request and return the id of the process that answered."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(WAIT_SECONDS)
        connection.connect(str(path))
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(4_096), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b" 200 " in head, answer
    return body.decode()


def test_each_process_of_a_preloading_server_records_its_own_once(
    redis_client: redis.Redis, redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / "served.py").write_text(APPLICATION)
    bind = tmp_path / "socket"
    master = subprocess.Popen(
        [
            sys.executable, "-m", "gunicorn", "--preload", "--workers", str(PROCESSES), "--bind", f"unix:{bind}",
            "--pythonpath", f"{ROOT},{tmp_path}", "--worker-tmp-dir", str(tmp_path), "--no-control-socket",
            "served:application",
        ],
        env={**os.environ, "REDIS_URL": redis_url},
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )  # fmt: skip
    asked: list[str] = []
    try:
        wait_until(lambda: is_listening(bind), "the server")
        wait_until(lambda: asked.append(ask(bind)) or len(set(asked)) == PROCESSES, "an answer of each process")
        master.send_signal(signal.SIGTERM)
        log = master.communicate(timeout=WAIT_SECONDS)[1]
    finally:
        if master.poll() is None:  # a failed test; it takes its workers with it
            master.terminate()
            master.communicate(timeout=WAIT_SECONDS)
    assert master.returncode == 0, log
    assert "Traceback" not in log
    workers = [
        json.loads(redis_client.get(wire.worker_key(name.decode())))
        for name in redis_client.zrange(wire.WORKERS_KEY, 0, -1)
    ]
    by_pid = {str(worker["pid"]): worker for worker in workers}
    assert set(by_pid) == {str(master.pid), *asked}
    assert len(workers) == PROCESSES + 1
    assert {worker.get("parent") for worker in workers} == {None, by_pid[str(master.pid)]["worker"]}
    assert ledger(redis_client)["enqueued"] == 1 + len(asked)
    told = {pid: [entry["count"] for entry in worker["outstanding"]] for pid, worker in by_pid.items()}
    assert told == {str(master.pid): [1], **{pid: [asked.count(pid)] for pid in asked}}
    assert {(worker["phase"], worker["exit_reason"]) for worker in workers} == {("exited", "signal")}
