"""What all recorders of one process share: the events, the fold, the buffer, the flusher."""

from __future__ import annotations

import threading
from collections import deque
from time import perf_counter, time
from typing import TYPE_CHECKING, Any, NamedTuple

from workers_client import wire
from workers_client.buffer import Counters, Pending, RecordBuffer
from workers_client.commands import ErrorWords
from workers_client.config import Config
from workers_client.exits import CLOSED, EXIT
from workers_client.flush import Flush
from workers_client.flusher import Flusher
from workers_client.ledger import Fold
from workers_client.run_totals import Command
from workers_client.transport import Applied, Transport
from workers_client.worker_record import Identity, worker_fields

if TYPE_CHECKING:
    from workers_client.gpu_turn import GpuTurn, Span
    from workers_client.operation import Operation

EVENTS_BEFORE_WAKE = 5_000  # events that wait for the fold: more of them wake the flush thread early
EVENTS_BEFORE_HELP = 20_000  # more of them, and each hook folds a few: memory stays bounded where the thread starves
EVENTS_BETWEEN_LOOKS = 256  # between the two, not each hook looks after the thread
HELP_EVENTS = 8  # events that one hook folds
HOOK_COSTS_KEPT = 512
UNINTERRUPTED_SECONDS = 10e-6  # that three readings of a clock take at most


class Taken(NamedTuple):
    """All that goes into one flush."""

    records: list[Pending]
    total_commands: list[Command]
    runs: list[str]
    worker_record: dict[str, Any]


class Core:
    """The state of one recording process.

    Hooks touch the attributes of the first paragraph of `_begin` alone, and take no lock but one they can do without.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._begin(parent=None)

    def begin_anew_after_fork(self) -> None:
        """Become a worker of its own in a child: the parent's records, connection and thread stay the parent's."""
        self.transport.forget()
        self._begin(parent=self.worker)

    def _begin(self, *, parent: str | None) -> None:
        """Set all up. Quick, and without side effects: a child that never records does this, too."""
        config = self.config
        self.events: deque[tuple[Any, ...]] = deque()
        self.events_limit = -1  # more events than this, and a hook calls `relieve`; negative while no thread runs
        self.current: Operation | None = None  # the op that runs alone
        self.last_request_id: Any = object()  # of the op that ended last; at first, of none
        self.turns: dict[int, GpuTurn] = {}
        self.cost_due = 0.0  # on `perf_counter`: when the cost of a hook is measured again
        self.others: dict[Operation, None] = {}  # ops that run beside it
        self.spans: dict[int, Span] = {}
        self.hook_errors = 0
        self.hook_costs: deque[float] = deque(maxlen=HOOK_COSTS_KEPT)

        self.identity = Identity(config.role, parent)
        self.worker = self.identity.worker
        self.named_phase: tuple[str, float] = (wire.Phase.STARTING.value, self.identity.started_at)
        self.counters = Counters()
        # Held while events are folded and while a flush takes its records; never while anything is encoded or sent.
        # Not re-entrant: a signal handler that interrupts a fold must not fold within it.
        self.fold_lock = threading.Lock()
        self.fold = Fold(
            self.worker,
            RecordBuffer(max_records=config.max_records, max_bytes=config.max_bytes, counters=self.counters),
        )
        self.exited: tuple[float, str] | None = None
        self._closed: bool | None = None  # what `close` returned
        self.redelivered = self.flushes = self.failed_flushes = 0
        self.last_flush_seconds = 0.0
        self.clock_offset_seconds: float | None = None
        assert config.redis_url is not None, "without a URL there is a null recorder"
        self.transport = Transport(config.redis_url, socket_timeout=config.socket_timeout)
        self.flusher = Flusher(self, self.transport, interval_seconds=config.interval_seconds)

    # --- Hooks' side ------------------------------------------------------------------------------------------
    def record(self, event: tuple[Any, ...]) -> None:
        """Append one event."""
        self.events.append(event)
        if len(self.events) > self.events_limit:
            self.relieve()

    def relieve(self) -> None:
        """Start the thread where none runs; wake it where many events wait; help it where it starves."""
        if self.exited is None and not self.flusher.is_running:
            self.flusher.start()
        waiting = len(self.events)
        next_look = max(EVENTS_BEFORE_WAKE, min(waiting + EVENTS_BETWEEN_LOOKS, EVENTS_BEFORE_HELP))
        self.events_limit = next_look if self.flusher.is_running or self.exited is not None else -1
        if waiting > EVENTS_BEFORE_WAKE:
            self.flusher.wake()
        if waiting > EVENTS_BEFORE_HELP and self.fold_lock.acquire(blocking=False):
            try:
                self.fold_events(HELP_EVENTS)
            finally:
                self.fold_lock.release()

    def count_error(self) -> None:
        """Count a hook, or a flush, that met nonsense."""
        self.hook_errors += 1

    def is_running(self, request_id: Any) -> bool:
        """Return whether an op of this request runs right now."""
        running = [op.ids() for op in (self.current, *list(self.others)) if op is not None]
        return any(ids is not None and ids.request_id == request_id for ids in running)

    def note_in_turn(self, ids: Any, started_at: float, ended_at: float, failure: ErrorWords | None) -> None:
        """Tell the turn that an op ran inside."""
        status = wire.Status.SUCCEEDED.value if failure is None else failure.status
        for turn in list(self.turns.values()):
            turn.note_op(ids, started_at, ended_at, status)

    # --- Delivery ---------------------------------------------------------------------------------------------
    def flush(self, timeout: float | None) -> bool:
        """Send what is buffered now; False where it is not delivered in time."""
        if not self.flusher.is_needed:
            return True
        return self.flusher.flush(2 * self.config.interval_seconds if timeout is None else timeout)

    def close(self, timeout: float, reason: str | None) -> bool:
        """Send the last flush; return at once where an earlier close said how it went."""
        if self._closed is None and self.flusher.is_needed:
            self.exited = (time(), str(reason or CLOSED))
            self._closed = self.flusher.flush(timeout, is_last=True)
        return self._closed is not False

    def close_at_exit(self, timeout: float, reason: str) -> None:
        """Close where the host did not; where it did, and Redis answered, send what is new since.

        A host that closed without a reason, as in a `finally`, did not know that a signal or an exception ends it.
        """
        has_news = self.has_more
        if self.exited is not None and self.exited[1] == CLOSED and reason != EXIT:
            self.exited = (self.exited[0], reason)
            has_news = True
        if self._closed and has_news:
            self.flusher.flush(timeout, is_last=True)
        self.close(timeout, reason)

    def thread_ended(self) -> None:
        """Have the next hook look for a thread."""
        self.events_limit = -1 if self.exited is None else EVENTS_BEFORE_WAKE

    # --- Flush thread's side ----------------------------------------------------------------------------------
    @property
    def has_more(self) -> bool:
        """Whether records or events wait."""
        return bool(self.events) or len(self.fold.records) > 0

    def fold_events(self, limit: int = 1 << 62) -> None:
        """Fold what the hooks appended, `limit` events at most. The fold lock must be held."""
        popleft, apply = self.events.popleft, self.fold.apply
        self.fold.clock_offset_seconds = _clock_offset()
        try:
            for _ in range(min(limit, len(self.events))):
                event = popleft()
                try:
                    apply(event)
                except Exception:  # noqa: BLE001 - nonsense from a host costs one event, never the others
                    self.hook_errors += 1
        except IndexError:  # others fold too
            pass
        if self.events_limit > EVENTS_BEFORE_WAKE:  # a hook that sets it meanwhile is heard at the next fold
            self.events_limit = EVENTS_BEFORE_WAKE

    def take(self, *, max_records: int, max_bytes: int) -> Taken:
        """Take records and all totals for one flush. The fold lock must be held."""
        now = time()
        self.fold.close_sampling_windows(now)
        records = self.fold.records.take(max_records=max_records, max_bytes=max_bytes, is_ready=_has_step_base)
        commands, runs = self.fold.take_totals(records)
        return Taken(records, commands, runs, worker_fields(self, now))

    def refuse(self, record: Pending) -> None:
        """Count a record that has no JSON."""
        with self.fold_lock:
            self.fold.records.refuse(record)

    def flush_applied(self, flush: Flush, applied: Applied, *, seconds: float) -> None:
        """Count what Redis has, and learn its clock and the runs' step counts."""
        refused = [flush.commands[index] for index in applied.refused]
        refused_keys = {command[1] for command in refused if command[0] == "PUSH"}
        with self.fold_lock:
            for (kind, key), count in flush.record_counts.items():
                if key in refused_keys:
                    self.counters.drop(kind, wire.DropReason.REFUSED, count)
                else:
                    self.counters.sent[kind] += count
            for key, steps in applied.steps.items():
                totals = self.fold.runs.get(key[len(wire.steps_key("")) :])
                if totals is not None:
                    totals.steps_known = max(steps, totals.steps_known)
            if applied.was_empty:
                self.fold.restore_steps()
            self.fold.records.settle()
            self.redelivered += sum(flush.record_counts.values()) if applied.was_redelivered else 0
            self.flushes += 1
            self.last_flush_seconds = seconds
            self.clock_offset_seconds = applied.clock_offset_seconds

    def flush_failed(self) -> None:
        """Count a flush without an answer, and go on folding: totals must not wait in the events."""
        self.failed_flushes += 1
        with self.fold_lock:
            self.fold_events()

    # --- Counters ---------------------------------------------------------------------------------------------
    def stats(self) -> dict[str, Any]:
        """Return the counters, with everything folded that hooks appended so far."""
        has_lock = self.fold_lock.acquire(timeout=1.0)  # a signal handler must not wait for what it interrupted
        try:
            if has_lock:
                self.fold_events()
            fields = self.buffer_fields()
            fields["buffered"] = fields.pop("pending")
        finally:
            if has_lock:
                self.fold_lock.release()
        errors = self.hook_errors + self.fold.bad_values_count
        return {**fields, "hook_errors": errors, "flush_seconds": self.last_flush_seconds}

    def buffer_fields(self) -> dict[str, Any]:
        """Return the counters as the worker record has them."""
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


def _clock_offset() -> float:
    """Return the wall clock minus `perf_counter`, from the first of a few readings that nothing interrupted."""
    for _ in range(3):
        before, at, after = perf_counter(), time(), perf_counter()
        if after - before < UNINTERRUPTED_SECONDS:
            break
    return at - (before + after) / 2


def _has_step_base(record: Pending) -> bool:
    return record.totals is None or record.totals.steps_base is not None
