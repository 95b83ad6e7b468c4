"""A reference fleet of real processes on a real site, which signals and faults strike, and what the site says of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import numpy as np
import redis

from examples.reference_fleet.api_client import ApiClient
from examples.reference_fleet.datasets import DATASETS, as_data
from examples.reference_fleet.message_queue import MessageQueue, command_queue
from examples.reference_fleet.runs import RUNS, RunPlan, groups_of
from examples.reference_fleet.tensors import encode_array
from tests.scenarios.labels import is_right, words
from tests.support.running_site import ROOT, RunningSite, free_port
from tests.support.tcp_proxy import TcpProxy

FLUSH_SECONDS = 2.0
LATE_SECONDS, LOST_SECONDS = 3 * FLUSH_SECONDS, 12 * FLUSH_SECONDS
STUCK_SECONDS = 60.0  # the floor below which nothing is overdue
IDLE_SECONDS = 900.0
SNAPSHOT_SECONDS = 10.0
TROUBLES = ("lost", "stuck", "failing", "diverging")
DIGITS, SPIRALS, POLE = "digits-classifier", "spirals-classifier", "cartpole-policy"
_LOOK_SECONDS = 1.0
_READY_SECONDS = 60.0  # processes of a slow, busy machine


@dataclass(frozen=True)
class Told:
    """What was expected of a run and what was given, `seconds` after what happened; `answer` is the verdict."""

    situation: str
    expected: str
    given: str
    seconds: float | None
    answer: dict[str, Any] = field(default_factory=dict, repr=False)


class RunningFleet:
    """The processes of one fleet, on a node and with a GPU of its own. Use as a context: nothing is left of it."""

    def __init__(self, name: str, site: RunningSite, database: int) -> None:
        self.name, self.told = name, list[Told]()
        self._site, self._token = site, site.access["token"]
        self._folder = site.folder / "fleets" / name.replace(" ", "-")
        self._folder.mkdir(parents=True)
        self._redis_url = json.loads((site.folder / "servers.json").read_text())["redis_url"]
        self._database, self._port = database, free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._names: tuple[str, ...] = ()
        self._apis: dict[str, ApiClient] = {}
        self._answer: dict[str, Any] = {}  # the newest verdict
        self._seen: dict[str, set[str]] = {}  # troubled states of each run
        self._stack = ExitStack()
        self.work_url = self._redis_url.replace("db=0", f"db={database}")
        self.records_url = self._redis_url

    def __enter__(self) -> RunningFleet:
        with redis.Redis.from_url(self.work_url, socket_timeout=5) as client:
            client.flushdb()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        for api in self._apis.values():
            api.close()
        self._stack.close()

    # --- Its processes ----------------------------------------------------------------------------------------
    def proxied(self, *, work: bool) -> TcpProxy:
        """Have records, and with `work` all that is done too, go through a proxy, and return it."""
        proxy = self._stack.enter_context(TcpProxy(self._redis_url.removeprefix("unix://").partition("?")[0]))
        self.records_url = proxy.url
        if work:
            self.work_url = proxy.url.removesuffix("/0") + f"/{self._database}"
        return proxy

    def serve(self, *names: str, **flags: float | str) -> None:
        """Start all that serves these runs but their clients."""
        self._names = names
        duties = ["api-server", *(f"trainer:{group}" for group in groups_of(names))]
        for duty in [*duties, "dispatcher", "sampler"] if POLE in names else duties:
            self.start(duty, **flags)
        for name in names:
            self.call(name, "create_model", {"layers": list(self.plan(name).layers), "seed": 0})

    def start(self, duty: str, **flags: float | str) -> None:
        """Start a process with flags beside those of all, such as `device_seconds=5`; `clock_ahead` sets its clock."""
        ahead = str(flags.pop("clock_ahead", 0))
        told = {"runs": ",".join(self._names), "flush_seconds": FLUSH_SECONDS, "request_timeout": 600, **flags}
        words = [word for flag, value in told.items() for word in (f"--{flag.replace('_', '-')}", str(value))]
        module = ["-m", "tests.scenarios.fleet_process", self.name, self.records_url, ahead]
        common = ["--only", duty, "--port", str(self._port), "--state-dir", str(self._folder), "--fleet-id", self.name]
        kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "VAR_DIR")}
        pod = duty.partition(":")[2] or duty
        names = {"REDIS_URL": self.work_url, "POD_NAME": f"{pod}-0", "NODE_NAME": self.name.replace(" ", "-")}
        with (self._folder / f"{duty.replace(':', '-')}.log").open("ab") as log:
            self._processes[duty] = subprocess.Popen(
                [sys.executable, *module, *common, *words],
                cwd=ROOT,
                env=kept | names | {"OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def send(self, duty: str, number: signal.Signals) -> None:
        """Send a signal; where it ends the process, wait for that."""
        self._processes[duty].send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._processes[duty].wait(_READY_SECONDS)

    def restart(self, duty: str, number: signal.Signals = signal.SIGTERM, **flags: float | str) -> None:
        """End a process and start one like it."""
        self.send(duty, number)
        self.start(duty, **flags)

    def wait_for_end(self, duty: str) -> None:
        """Wait until a process has done its work and ended."""
        assert self._processes[duty].wait(_READY_SECONDS) == 0, f"{self.name}: {duty} failed"

    # --- What a client asks -----------------------------------------------------------------------------------
    def plan(self, name: str) -> RunPlan:
        """Return what one trains, with the id that it has in this fleet."""
        return replace(RUNS[name], run_id=f"{self.name}/{RUNS[name].run_id}")

    def ask(self, name: str, endpoint: str, payload: dict[str, Any] | None = None) -> str:
        """Send a request, and return its id."""
        return self._api(name).submit(endpoint, payload or {})

    def call(self, name: str, endpoint: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and fetch its answer, which may be a failure."""
        api = self._api(name)
        return api.results([api.submit(endpoint, payload or {})])[0]

    def batch(self, name: str, *, loss: str = "cross_entropy") -> dict[str, Any]:
        """Return what a classifier learns from; nothing, where a loss weighs it by its advantages, which are all 0."""
        data = as_data(DATASETS[RUNS[name].task](np.random.default_rng(0), 8, 0))
        nothing = encode_array(np.zeros(1))
        for datum in data:
            datum["loss_fn_inputs"] |= {"logprobs": nothing, "advantages": nothing}
        return {"data": data, "loss_fn": loss}

    def train(self, name: str, *, steps: int, loss: str = "cross_entropy") -> None:
        """Do whole steps of a classifier."""
        for _ in range(steps):
            self.call(name, "forward_backward", self.batch(name, loss=loss))
            self.call(name, "optim_step", {"adam_params": {"learning_rate": 0.01}})

    def queue(self, name: str, command: dict[str, Any]) -> None:
        """Put a command into a run's queue, which may have been there before."""
        with redis.Redis.from_url(self.work_url, socket_timeout=5) as client:
            MessageQueue(client).push(command_queue(self.plan(name).run_id), command)

    def wait_for_result(self, request_id: str) -> None:
        """Wait until a request is answered, and forget the answer."""
        with redis.Redis.from_url(self.work_url, socket_timeout=5) as client:
            self.until(lambda: client.delete(f"open_rl:future:{request_id}"), "an answer")

    def lose_queue(self, name: str) -> None:
        """Take away what is in a run's queue."""
        with redis.Redis.from_url(self.work_url, socket_timeout=5) as client:
            assert client.delete(command_queue(self.plan(name).run_id)), f"{self.name}: nothing was queued"

    def _api(self, name: str) -> ApiClient:
        if name not in self._apis:
            self._apis[name] = ApiClient(self._port, self.plan(name).run_id, request_timeout=_READY_SECONDS)
        return self._apis[name]

    # --- What the site says -----------------------------------------------------------------------------------
    def get(self, path: str) -> dict[str, Any]:
        """Ask the site."""
        status, body = self._site.get(f"/api/v1/inspect{path}", token=self._token)
        return json.loads(body) if status == 200 else {}

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + _READY_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"{self.name}: {what} did not come about"
            pause()

    def until_it_runs(self, name: str) -> None:
        """Wait until the site knows of an op of this run that runs."""
        self.until(lambda: any(op["run_id"] == self.plan(name).run_id for op in self._current(name)), "an op that runs")

    def until_state(self, name: str, state: str) -> None:
        """Wait until the site says this of a run."""
        self.until(lambda: self.get(f"/runs/{self._path(name)}/verdict").get("state") == state, state)

    def send_to_redis(self, number: signal.Signals) -> None:
        """Send a signal to the Redis of the site."""
        os.kill(int((self._site.folder / "redis.pid").read_text()), number)

    def _path(self, name: str) -> str:
        return quote(self.plan(name).run_id, safe="")

    def _current(self, name: str) -> Iterable[dict[str, Any]]:
        workers = self.get(f"/workers?run={self._path(name)}").get("results", [])
        return [worker["current"] for worker in workers if worker["current"]]

    def expect(
        self, state: str, *incidents: str, of: str = DIGITS, due: float = 0.0, passed: Iterable[str] = (),
        behind: str | None = None,
    ) -> None:  # fmt: skip
        """Look until the site says so, and still does a snapshot later, or until two snapshots after it is due.

        `due`: seconds from now; `passed`: incidents that may have come and gone; `behind`: what it waits for, as
        `workload operation condition`. States that are all right are joined by `or`.
        """
        began, told_at = time.monotonic(), None
        expected = _with_chain(words(state, incidents), behind)
        while True:
            given, now = self._label(of, set(incidents) | set(passed), behind), time.monotonic()
            if not is_right(expected, given):
                told_at = None
                if now > began + due + 2 * SNAPSHOT_SECONDS:
                    break
            elif told_at is None:
                told_at = now
            elif now > told_at + SNAPSHOT_SECONDS:
                break
            pause()
        seconds = None if told_at is None else told_at - began
        self.told.append(Told(self.name, expected, given, seconds, self._answer))

    def watch(self, state: str, *, of: str = DIGITS, seconds: float, passed: Iterable[str] = ()) -> None:
        """Look all the while: no trouble may be told, and the state has to be right at the end."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._label(of, set(passed), None)
            pause()
        self.expect(state, of=of, passed=passed)

    def _label(self, name: str, allowed: set[str], behind: str | None) -> str:
        run_id = self._path(name)
        verdict = self._answer = self.get(f"/runs/{run_id}/verdict")
        rows = self.get(f"/incidents?run={run_id}&page_size=100").get("results", [])
        state = verdict.get("state", "not told")
        seen = self._seen.setdefault(name, set())
        seen.update({state} & set(TROUBLES))
        is_open = {row["code"] for row in rows if row["ended_at"] is None}
        came = {row["code"] for row in rows} | (seen - {state})
        told = words(state, is_open, came - is_open - allowed)
        chain = verdict.get("chain", [])[:1]
        return told if behind is None else _with_chain(told, " ".join(_link(link) for link in chain) or "nothing")


def pause() -> None:
    """Let a moment go by."""
    threading.Event().wait(_LOOK_SECONDS)


def _with_chain(label: str, behind: str | None) -> str:
    return label if behind is None else f"{label} behind {behind}"


def _link(link: dict[str, Any]) -> str:
    return f"{link['workload']} {link['operation']} {link['condition'] or 'that moves'}"
