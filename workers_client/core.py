"""What all recorders of one process share: the events, the fold, the buffer, the flusher."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workers_client import wire
from workers_client.buffer import Counters, Pending, RecordBuffer
from workers_client.config import Config
from workers_client.flusher import Flush, Flusher
from workers_client.ledger import Fold, RunTotals
from workers_client.transport import Applied, Command, Transport
from workers_client.worker_record import Identity, newest_runs, outstanding

if TYPE_CHECKING:
    from workers_client.gpu_turn import GpuTurn, Span
    from workers_client.operation import Operation

EVENTS_BEFORE_WAKE = 10_000  # events that wait for the fold: more of them wake the flush thread early
HOOK_COSTS_KEPT = 512


@dataclass
class Taken:
    """All that goes into one flush but the numbers Redis tells."""

    records: list[Pending]
    total_commands: list[Command]
    step_runs: list[str]
    runs: list[str]
    worker_record: dict[str, Any]


class Core:
    """The state of one recording process. Hooks touch `events`, `running`, `spans`, `turns` only, without a lock."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._begin(parent=None)

    def begin_anew_after_fork(self) -> None:
        """Become a worker of its own in a child: the parent's records, connection and thread stay the parent's."""
        self.transport.forget()
        self._begin(parent=self.worker)

    def _begin(self, *, parent: str | None) -> None:
        config = self.config
        self.identity = Identity(config.role, parent)
        self.worker = self.identity.worker
        self._constant_fields = self.identity.fields()
        self.events: deque[tuple[Any, ...]] = deque()
        self.running: dict[int, Operation] = {}
        self.spans: dict[int, Span] = {}
        self.turns: dict[int, GpuTurn] = {}
        self.hook_errors = 0
        self.hook_costs: deque[float] = deque(maxlen=HOOK_COSTS_KEPT)
        self.named_phase: tuple[str, float] = (wire.Phase.STARTING.value, self.identity.started_at)
        self.counters = Counters()
        # Held while events are folded and while a flush takes its records; never while anything is encoded or sent.
        self.fold_lock = threading.RLock()
        self.fold = Fold(
            self.worker,
            RecordBuffer(max_records=config.max_records, max_bytes=config.max_bytes, counters=self.counters),
        )
        self.exited: tuple[float, str] | None = None
        self.redelivered = self.flushes = self.failed_flushes = 0
        self.last_flush_seconds = 0.0
        self.clock_offset_seconds: float | None = None
        url = config.redis_url
        assert url is not None, "without a URL there is a null recorder"
        self.transport = Transport(url, socket_timeout=config.socket_timeout)
        self.flusher = Flusher(self, self.transport, interval_seconds=config.interval_seconds)

    # --- Hooks' side ------------------------------------------------------------------------------------------
    def record(self, event: tuple[Any, ...]) -> None:
        """Append one event; start the thread at the first, and one in place of a thread that died."""
        self.events.append(event)
        if not self.flusher.is_running and self.exited is None:
            self.begin()
        if len(self.events) > EVENTS_BEFORE_WAKE:
            self._relieve()

    def _relieve(self) -> None:
        """Wake the flush thread; where it starves, or is gone, fold here: totals stay exact and memory bounded."""
        self.flusher.wake()
        if len(self.events) > self.config.max_records and self.fold_lock.acquire(blocking=False):
            try:
                self.fold_events()
            finally:
                self.fold_lock.release()

    def begin(self) -> None:
        """Start the flush thread."""
        from workers_client import exits  # not loaded before there is anything to send at exit

        exits.register_process_exit(self)
        self.flusher.start()

    def count_error(self) -> None:
        """Count a hook, or a flush, that met nonsense."""
        self.hook_errors += 1

    # --- Flush thread's side ----------------------------------------------------------------------------------
    @property
    def has_more(self) -> bool:
        """Whether records or events wait."""
        return bool(self.events) or len(self.fold.records) > 0

    def fold_events(self) -> None:
        """Fold what the hooks appended. The fold lock must be held."""
        events = self.events
        while True:
            try:
                event = events.popleft()
            except IndexError:
                return
            try:
                self.fold.apply(event)
            except Exception:  # noqa: BLE001 - nonsense from a host costs one event, never the others
                self.hook_errors += 1

    def take(self, *, max_records: int, max_bytes: int) -> Taken:
        """Take records and all totals for one flush. The fold lock must be held."""
        now = time.time()
        self.fold.close_sampling_windows(now)
        records = self.fold.records.take(max_records=max_records, max_bytes=max_bytes)
        commands: list[Command] = []
        step_runs: list[str] = []
        runs: list[str] = []
        for run_id, totals in self.fold.runs.items():
            moved = _run_commands(run_id, totals)
            if moved:
                runs.append(run_id)
                step_runs += [run_id] if any(command[0] == "STEPS" for command in moved) else []
                commands += moved
        commands += [("ZADD", wire.WORKLOADS_KEY, "GT", at, name) for name, at in self.fold.workload_times.items()]
        self.fold.workload_times = {}
        return Taken(records, commands, step_runs, runs, self.worker_fields(now))

    def refuse(self, record: Pending) -> None:
        """Count a record that has no JSON."""
        with self.fold_lock:
            self.fold.records.refuse(record)

    def flush_applied(self, flush: Flush, applied: Applied, *, seconds: float) -> None:
        """Count what Redis has, and learn its clock and the runs' step counts."""
        with self.fold_lock:
            refused_keys = {
                flush.commands[index][1] for index in applied.refused if flush.commands[index][0] == "RPUSH"
            }
            for record in flush.records:
                if record.key in refused_keys:
                    self.counters.drop(record.kind, wire.DropReason.REFUSED)
                else:
                    self.counters.sent[record.kind] += 1
            for run_id, steps in zip(flush.step_runs, applied.steps):  # noqa: B905 - Python 3.10's zip too
                self.fold.runs[run_id].steps_known = steps
            self.fold.records.settle()
            self.redelivered += len(flush.records) if applied.was_redelivered else 0
            self.flushes += 1
            self.last_flush_seconds = seconds
            self.clock_offset_seconds = time.time() - seconds / 2 - applied.redis_time

    def flush_failed(self) -> None:
        """Count a flush without an answer, and go on folding: totals must not wait in the events."""
        self.failed_flushes += 1
        with self.fold_lock:
            self.fold_events()

    # --- The worker record ------------------------------------------------------------------------------------
    def worker_fields(self, now: float) -> dict[str, Any]:
        """Return the worker record of this moment."""
        phase, phase_since = self._phase()
        fields: dict[str, Any] = {
            **self._constant_fields,
            "at": now,
            "interval_seconds": self.config.interval_seconds,
            "phase": phase,
            "phase_since": phase_since,
            "runs": newest_runs(self.fold),
            "outstanding": outstanding({**self.fold.undelivered, **self.fold.open_requests}),
            "turns": dict(self.fold.turn_totals),
            "buffer": self._buffer_fields(),
        }
        optional = {
            "last_progress_at": self.fold.last_progress_at,
            "current": self._current(),
            "turn": self._turn(),
            "clock_offset_seconds": self.clock_offset_seconds,
        }
        fields.update({name: value for name, value in optional.items() if value is not None})
        if self.exited is not None:
            fields["exited_at"], fields["exit_reason"] = self.exited
        return fields

    def stats(self) -> dict[str, Any]:
        """Return the counters, with everything folded that hooks appended so far."""
        with self.fold_lock:
            self.fold_events()
            fields = self._buffer_fields()
            fields["buffered"] = fields.pop("pending")
        return {**fields, "hook_errors": self.hook_errors, "flush_seconds": self.last_flush_seconds}

    def _buffer_fields(self) -> dict[str, Any]:
        costs = sorted(self.hook_costs)
        return {
            "produced": dict(self.counters.produced),
            "sent": dict(self.counters.sent),
            "dropped": {kind: dict(reasons) for kind, reasons in self.counters.dropped.items() if reasons},
            "pending": self.fold.records.counts(),
            "redelivered": self.redelivered,
            "flushes": self.flushes,
            "failed_flushes": self.failed_flushes,
            "last_flush_seconds": self.last_flush_seconds,
            "bytes": self.fold.records.size_bytes,
            "hook_last_us": (costs and self.hook_costs[-1] * 1e6) or 0.0,
            "hook_p99_us": costs[len(costs) * 99 // 100] * 1e6 if costs else 0.0,
        }

    def _phase(self) -> tuple[str, float]:
        """Return the worker's phase and since when, from what runs now."""
        if self.exited is not None:
            return wire.Phase.EXITED.value, self.exited[0]
        for turn in list(self.turns.values()):
            if turn.started_at is None:
                return wire.Phase.WAITING_FOR_GPU.value, turn.requested_at
        for span in list(self.spans.values()):
            return span.phase, span.started_at
        for operation in list(self.running.values()):
            return operation.phase, operation.started_at
        name, since = self.named_phase
        if name == wire.Phase.STARTING.value and self.fold.last_progress_at is not None:
            name = wire.Phase.IDLE.value
        return name, max(since, self.fold.last_progress_at or 0.0)

    def _current(self) -> dict[str, Any] | None:
        for operation in list(self.running.values()):
            command = operation.command
            if command is not None:
                return {
                    "run_id": command.run_id,
                    "operation": command.operation,
                    "request_id": command.request_id,
                    "started_at": operation.started_at,
                }
        return None

    def _turn(self) -> dict[str, Any] | None:
        for turn in list(self.turns.values()):
            fields = {"workload": turn.workload, "requested_at": turn.requested_at}
            return fields if turn.started_at is None else {**fields, "started_at": turn.started_at}
        return None


def _run_commands(run_id: str, totals: RunTotals) -> list[Command]:
    """Move a run's unsent totals into commands: they live on in the flush until Redis has them."""
    commands: list[Command] = []
    for name, count in totals.counts.items():
        commands.append(("HINCRBY", wire.ledger_key(run_id), name, count))
    for name, at in totals.instants.items():
        commands.append(("HSET", wire.ledger_key(run_id), name, repr(at)))
    if totals.step_times:
        commands.append(("STEPS", wire.steps_key(run_id), totals.steps_known, len(totals.step_times)))
        for start in range(0, len(totals.step_times), 1_000):
            times = [repr(at) for at in totals.step_times[start : start + 1_000]]
            commands.append(("RPUSH", wire.step_times_key(run_id), *times))
        commands.append(("LTRIM", wire.step_times_key(run_id), -wire.LIST_LIMIT, -1))
    if commands:
        commands.append(("ZADD", wire.RUNS_KEY, "GT", totals.last_activity_at, run_id))
    totals.counts, totals.instants, totals.step_times = {}, {}, []
    return commands
