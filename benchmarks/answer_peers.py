"""MLflow and Trackio, each with one run of 2,000 points, as servers on this machine: asked beside ours.

They live in an environment of their own (`benchmarks/peers.txt`), whose Python is given.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

POINTS = 2_000
START_SECONDS = 180.0  # MLflow's workers go on importing after the port is open
_FILL_MLFLOW = f"""
import sys, mlflow
from mlflow.entities import Metric
mlflow.set_tracking_uri(sys.argv[1])
with mlflow.start_run() as run:
    for first in range(0, {POINTS}, 1000):
        points = [Metric("loss", 3.0 / (n + 1), 1790000000000 + n, n) for n in range(first, first + 1000)]
        mlflow.MlflowClient().log_batch(run.info.run_id, points)
print("RUN", run.info.run_id)
"""
_FILL_TRACKIO = f"""
import trackio
trackio.init(project="benchmark", name="run", auto_log_gpu=False, auto_log_cpu=False, embed=False)
for number in range({POINTS}):
    trackio.log({{"loss": 3.0 / (number + 1), "grad_norm": 0.5, "reward": 0.1}}, step=number)
trackio.finish()
"""
_SERVE_TRACKIO = """
import sys, time, trackio
trackio.show(project="benchmark", open_browser=False, block_thread=False, host="127.0.0.1", share=False,
             server_port=int(sys.argv[1]))
while True:
    time.sleep(60)
"""


@dataclass(frozen=True)
class Target:
    """What is asked of one server: a path, or with a body a form of it."""

    name: str
    port: int
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None


@contextmanager
def peers(python: str, folder: Path) -> Iterator[list[Target]]:
    """Fill and start both; gives what to ask of them once they answer with all points."""
    with ExitStack() as stack:
        yield [stack.enter_context(start(python, folder)) for start in (_mlflow, _trackio)]


@contextmanager
def _mlflow(python: str, folder: Path) -> Iterator[Target]:
    store = f"sqlite:///{folder}/mlflow.db"
    told = subprocess.run(
        [python, "-c", _FILL_MLFLOW, store], capture_output=True, text=True, check=True, cwd=folder
    ).stdout
    [run] = re.findall(r"RUN (\w+)", told)
    port = free_port()
    # One process, as ours: several are restarted while the machine has no time for their first import.
    command = [python, "-m", "mlflow", "server", "--backend-store-uri", store, "--host", "127.0.0.1", "--port",
               str(port), "--workers", "1"]  # fmt: skip
    environment = {
        **os.environ,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }  # seven processes more that look for jobs
    path = f"/api/2.0/mlflow/metrics/get-history?run_id={run}&metric_key=loss"
    target = Target("MLflow `metrics/get-history`, 2,000 points of one metric", port, path)
    with _running(command, folder, target, environment):
        yield target


@contextmanager
def _trackio(python: str, folder: Path) -> Iterator[Target]:
    environment = {**os.environ, "TRACKIO_DIR": str(folder / "trackio"), "HF_HUB_OFFLINE": "1"}
    subprocess.run([python, "-c", _FILL_TRACKIO], check=True, capture_output=True, env=environment, cwd=folder)
    port = free_port()
    body = json.dumps({"project": "benchmark", "run": "run", "metric_name": "loss"})
    target = Target(
        "Trackio `get_metric_values`, 2,000 points of one metric", port, "/api/get_metric_values",
        {"Content-Type": "application/json"}, body,
    )  # fmt: skip
    with _running([python, "-c", _SERVE_TRACKIO, str(port)], folder, target, environment):
        yield target


@contextmanager
def _running(command: list[str], folder: Path, target: Target, environment: dict[str, str]) -> Iterator[None]:
    with open(folder / f"{target.port}.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment, start_new_session=True)
        try:
            _wait_for_answers(target)
            yield
        finally:
            os.killpg(process.pid, 15)  # its workers, too
            process.wait(30)


def _wait_for_answers(target: Target) -> None:
    """Wait until a server answers well several times in a row: its other workers go on importing meanwhile."""
    wait_for(target.port)
    deadline, answered = time.monotonic() + START_SECONDS, 0
    while answered < 5:
        connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=60)
        try:
            connection.request("POST" if target.body else "GET", target.path, target.body, target.headers)
            answered = answered + 1 if connection.getresponse().status == 200 else 0
        except (http.client.HTTPException, OSError):
            answered = 0
        finally:
            connection.close()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{target.name} does not answer")
        time.sleep(0.2)


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for(port: int) -> None:
    """Wait until someone listens at a port.

    Raises:
        OSError: nobody did within three minutes.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
