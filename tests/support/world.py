"""A fleet on a set clock: real recorders write to a real Redis, snapshots and passes look at set instants.

Whoever acts is a generator that yields the seconds until it goes on; the world runs them in order. Processes have no
flush thread: the world flushes each when it is due, so that an hour takes as long as its reads and writes do.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from telemetry_app.exceptions import LiveDataUnavailableError
from telemetry_app.incidents import take_verdicts
from telemetry_app.models import Incident
from telemetry_app.snapshots import take_snapshot
from workers_client.config import make_config
from workers_client.core import Core
from workers_client.recorder import Recorder
from workers_client.worker_record import Identity

FLUSH_SECONDS = 5.0
SNAPSHOT_SECONDS = 10.0
PASS_SECONDS = 5.0

Acting = Generator[float, Any, None]


class Process:
    """One process of the fleet: its recorder, and whether it lives, is stopped, or can't reach Redis."""

    def __init__(self, world: World, role: str, name: str, environment: dict[str, str]) -> None:
        config = make_config(
            role, redis_url=world.url, interval_seconds=FLUSH_SECONDS, max_records=50_000, max_bytes=2**26,
            socket_timeout=5.0,
        )  # fmt: skip
        core = Core(config)
        core.identity = Identity(role)
        core.identity.started_at, core.identity.pid = world.now, next(_pids)
        core.identity.environment = {"POD_NAME": name} | environment
        core.worker = core.fold.worker = core.identity.worker
        core.named_phase = ("starting", world.now)
        core.flusher.start = lambda: None  # the world flushes
        self.world, self.core, self.recorder = world, core, Recorder(core, role)
        self.is_alive, self.is_stopped = True, False
        self.recorder.phase("idle")

    @property
    def id(self) -> str:
        """The worker's id."""
        return self.core.worker

    def flush(self) -> None:
        """Send what is buffered, as the flush thread does when it is due."""
        if self.is_alive and not self.is_stopped and not self.world.is_redis_out:
            assert self.recorder.flush(timeout=20.0), "Redis did not answer"
            self.core.clock_offset_seconds = None  # the set clock is no clock of Redis's

    def kill(self) -> None:
        """End without a word (SIGKILL)."""
        self.is_alive = False

    def exit(self) -> None:
        """End cleanly: the last record says so."""
        self.recorder.close(timeout=20.0)
        self.is_alive = False


_pids = itertools.count(100)


class World:
    """The clock, what acts, and what the passes saw."""

    def __init__(self, url: str, start: float) -> None:
        self.url, self.now = url, start
        self.is_redis_out = False
        self.is_judged = True
        self.processes: list[Process] = []
        self.states: dict[str, str] = {}  # of each run at the newest pass
        self.outages: list[Callable[[], Any]] = []
        self.gpu_holder: object | None = None
        self._acting: list[tuple[float, int, Acting]] = []
        self._order = itertools.count()
        self.act(self._passes(), after=2.5)
        self.act(self._snapshots(), after=1.0)

    def start(self, role: str, name: str, **environment: str) -> Process:
        """Start a process with this in its environment; its first flush comes within a second, as the client's does."""
        process = Process(self, role, name, environment)
        self.processes.append(process)
        self.act(self._flushes(process), after=0.2 + 0.3 * (len(self.processes) % 3))
        return process

    def act(self, acting: Acting, *, after: float = 0.0) -> None:
        """Let something act from then on."""
        heapq.heappush(self._acting, (self.now + after, next(self._order), acting))

    def advance(self, seconds: float, *, judged: bool = True) -> None:
        """Let so much time go by; without judging, no snapshot and no pass looks at it."""
        until, self.is_judged = self.now + seconds, judged
        while self._acting and self._acting[0][0] <= until:
            at, _, acting = heapq.heappop(self._acting)
            self.now = at
            wait = next(acting, None)
            if wait is not None:
                self.act(acting, after=wait)
        self.now = until

    def codes(self, run_id: str, *, open_only: bool = True) -> set[str]:
        """Return the codes of a run's incidents, those that are open or all that ever were."""
        found = Incident.objects.filter(run_id=run_id)
        return set((found.filter(ended_at=None) if open_only else found).values_list("code", flat=True))

    # --- Ticks ------------------------------------------------------------------------------------------------
    def _flushes(self, process: Process) -> Acting:
        while process.is_alive:
            process.flush()
            yield FLUSH_SECONDS

    def _snapshots(self) -> Acting:
        while True:
            if self.is_judged and not self.is_redis_out:
                take_snapshot(now=datetime.fromtimestamp(self.now, UTC))
            yield SNAPSHOT_SECONDS

    def _passes(self) -> Acting:
        while True:
            if self.is_judged:
                self._pass()
            yield PASS_SECONDS

    def _pass(self) -> None:
        with ExitStack() as stack:
            if self.is_redis_out:
                error = LiveDataUnavailableError("Redis is out.")
                stack.enter_context(patch("telemetry_app.incidents.readers.read_run_index", side_effect=error))
            try:
                summary = take_verdicts(now=datetime.fromtimestamp(self.now, UTC))
                self.states = summary.states or self.states
            except LiveDataUnavailableError:
                assert self.is_redis_out


@contextmanager
def a_world(url: str, start: float) -> Iterator[World]:
    """Give a world whose clock is the client's, too."""
    world = World(url, start)

    def clock() -> float:
        return world.now

    with ExitStack() as stack:
        for name in ("recorder.time", "core.time", "core.perf_counter", "operation.time", "operation.perf_counter"):
            stack.enter_context(patch(f"workers_client.{name}", clock))
        for name in ("gpu_turn.time", "worker_record.time"):
            stack.enter_context(patch(f"workers_client.{name}", SimpleNamespace(time=clock)))
        yield world
        for process in world.processes:
            process.core.transport.close()
