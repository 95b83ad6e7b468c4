"""The one thread of a process that records: fold, encode, send; it is the worker's heartbeat too.

Encoding and sending happen outside every lock that a hook takes. A flush that failed is sent again as it was, with its
number, until Redis answers; what comes meanwhile waits in the bounded buffer.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workers_client import wire
from workers_client.buffer import Pending
from workers_client.codec import encode_object
from workers_client.transport import VALUES_PER_COMMAND, Applied, Command, Transport, load_redis

if TYPE_CHECKING:
    from workers_client.core import Core

logger = logging.getLogger(__name__)

FLUSH_RECORDS = 5_000  # records of one flush at most: the return after an outage must stall nobody
FLUSH_BYTES = 4 * 1024 * 1024
BACK_OFF_SECONDS = 0.5  # after the first failure; doubles
BACK_OFF_LIMIT_SECONDS = 10.0
LOG_INTERVAL_SECONDS = 60.0


@dataclass
class Flush:
    """One numbered set of commands; kept and sent again as it is until Redis answers."""

    number: int
    commands: list[Command] = field(default_factory=list)
    records: list[Pending] = field(default_factory=list)
    step_runs: list[str] = field(default_factory=list)  # runs of the STEPS commands, in order
    attempts: int = 0


class Flusher:
    """Sends what a recorder folded, every `interval_seconds` or when asked."""

    def __init__(self, recorder: Core, transport: Transport, *, interval_seconds: float) -> None:
        self._recorder = recorder
        self._transport = transport
        self._interval_seconds = interval_seconds
        self._number = 0
        self._kept: Flush | None = None  # sent, and not answered yet
        self._send_lock = threading.Lock()  # one sender: the thread, or at shutdown whoever calls flush()
        self._wake = threading.Event()
        # Held to count requests for a flush and their answers; never while anything is encoded or sent.
        self._served = threading.Condition()
        self._requested_count = self._served_count = 0
        self._stopped = False
        self._failures = 0
        self._log = LogLimiter()
        self._thread: threading.Thread | None = None

    # --- The thread -------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Start the thread, or one in place of a thread that died. Never raises: at shutdown no thread can start."""
        if self._thread is not None and self._thread.is_alive():
            return
        try:
            thread = threading.Thread(target=self._run, name="workers-client-flush", daemon=True)
            thread.start()
            self._thread = thread
        except RuntimeError:  # "can't start new thread at interpreter shutdown": close() sends what there is
            self._thread = None

    @property
    def is_running(self) -> bool:
        """Whether the thread lives."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_needed(self) -> bool:
        """Whether anything was ever recorded: without it there is no worker to say that it exited."""
        return self._number > 0 or self._thread is not None or self._recorder.has_more

    def wake(self) -> None:
        """Have the thread fold and send soon."""
        self._wake.set()

    def stop(self) -> None:
        """Have the thread end after what it does now."""
        self._stopped = True
        self._wake.set()

    def _run(self) -> None:
        try:
            load_redis()
        except Exception:  # noqa: BLE001 - without redis-py nothing can be sent; each flush will say so
            self._recorder.count_error()
        self._wait(min(1.0, self._interval_seconds))  # the first flush soon, so that a new worker is seen
        while True:
            requested = self._requested_count
            is_last = self._stopped
            try:
                if self._flush_all(deadline=None):
                    self._serve(requested)
            except Exception:  # noqa: BLE001 - the outermost line of the thread: counted, logged, and on
                self._recorder.count_error()
                self._log.warn("flush thread", "a flush failed unexpectedly", exc_info=True)
            if is_last and self._served_count >= self._requested_count:
                return
            self._wait(self._pause())

    def _serve(self, requested: int) -> None:
        with self._served:
            self._served_count = max(self._served_count, requested)
            self._served.notify_all()

    def _wait(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def _pause(self) -> float:
        """Return the seconds to the next flush: the interval less up to a tenth, or the back-off with jitter."""
        if not self._failures:
            return self._interval_seconds * random.uniform(0.9, 1.0)
        back_off = min(BACK_OFF_LIMIT_SECONDS, BACK_OFF_SECONDS * 2 ** min(self._failures - 1, 10))
        if self._requested_count > self._served_count:
            back_off = BACK_OFF_SECONDS  # somebody waits for it
        return float(back_off) * random.uniform(0.5, 1.0)

    # --- One flush --------------------------------------------------------------------------------------------
    def flush(self, timeout: float | None) -> bool:
        """Send all there is now; False where it is not delivered within `timeout` seconds in total.

        The thread sends and the caller waits, so that no socket's time-outs, address lists or retries add to it.
        """
        seconds = timeout if timeout is not None else 2 * self._interval_seconds
        self.start()
        if not self.is_running:
            return self._flush_all(deadline=time.monotonic() + seconds)  # the interpreter shuts down: no thread starts
        with self._served:
            self._requested_count += 1
            mine = self._requested_count
            self._wake.set()
            return self._served.wait_for(lambda: self._served_count >= mine, seconds)

    def _flush_all(self, deadline: float | None) -> bool:
        with self._send_lock:
            return self._send_all(deadline)

    def _send_all(self, deadline: float | None) -> bool:
        """Send flush after flush until nothing waits; the heartbeat goes out even where there is nothing.

        A flush kept from an earlier try goes first, and never counts as the one that was asked for.
        """
        is_fresh = False
        while not is_fresh or self._recorder.has_more:
            is_fresh = self._kept is None
            if (deadline is not None and time.monotonic() >= deadline) or not self._send_one():
                return False
        return True

    def _send_one(self) -> bool:
        started = time.monotonic()
        try:
            flush = self._kept or self._make()
            self._kept = flush
            flush.attempts += 1
            applied = self._transport.apply(wire.flush_guard_key(self._recorder.worker), flush.number, flush.commands)
        except Exception as error:  # noqa: BLE001 - whatever redis-py or the network raises, the host goes on
            self._failures += 1
            self._transport.close()
            self._recorder.flush_failed()
            self._log.warn(type(error).__name__, f"telemetry can't be sent: {type(error).__name__}")
            return False
        self._kept = None
        self._failures = 0
        self._recorder.flush_applied(flush, applied, seconds=time.monotonic() - started)
        return True

    def _make(self) -> Flush:
        """Number the next flush and encode it. Asks Redis for the step base of runs seen for the first time.

        Raises:
            Exception: Redis can't be asked; nothing was taken.
        """
        recorder = self._recorder
        with recorder.fold_lock:
            recorder.fold_events()
            unknown = [run_id for run_id, totals in recorder.fold.runs.items() if totals.steps_base is None]
        if unknown:
            bases = self._transport.read_steps([wire.steps_key(run_id) for run_id in unknown])
            with recorder.fold_lock:
                for run_id, base in zip(unknown, bases):  # noqa: B905 - Python 3.10's zip too
                    totals = recorder.fold.runs[run_id]
                    totals.steps_base = totals.steps_known = base
        self._number += 1
        flush = Flush(self._number)
        with recorder.fold_lock:
            taken = recorder.take(max_records=FLUSH_RECORDS, max_bytes=FLUSH_BYTES)
        flush.records = taken.records
        flush.commands = _record_commands(taken.records, recorder.refuse)
        flush.commands += taken.total_commands
        flush.step_runs = taken.step_runs
        record = taken.worker_record
        flush.commands += [
            ("ZADD", wire.WORKERS_KEY, "GT", record["at"], record["worker"]),
            ("SET", wire.worker_key(record["worker"]), encode_object(record), "EX", wire.WORKER_TTL_SECONDS),
            ("PUBLISH", wire.FLUSHED_CHANNEL, encode_object({"worker": record["worker"], "runs": taken.runs})),
        ]
        return flush


def _record_commands(records: list[Pending], refuse: Callable[[Pending], None]) -> list[Command]:
    """Return one RPUSH for up to 1,000 records of a list, and one LTRIM a list; `refuse` gets what has no JSON."""
    by_key: dict[str, list[bytes]] = {}
    for record in list(records):
        try:
            by_key.setdefault(record.key, []).append(record.encode())
        except Exception:  # noqa: BLE001 - one odd value costs one record
            records.remove(record)
            refuse(record)
    commands: list[Command] = []
    for key, values in by_key.items():
        commands += [
            ("RPUSH", key, *values[start : start + VALUES_PER_COMMAND])
            for start in range(0, len(values), VALUES_PER_COMMAND)
        ]
        commands.append(("LTRIM", key, -wire.LIST_LIMIT, -1))
    return commands


class LogLimiter:
    """At most one line for a reason and minute, with how many were suppressed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, float] = {}
        self._suppressed: dict[str, int] = {}

    def warn(self, reason: str, message: str, **options: Any) -> None:
        """Log a warning unless one for the same reason was logged within the last minute."""
        now = self._clock()
        if now - self._last.get(reason, -LOG_INTERVAL_SECONDS) < LOG_INTERVAL_SECONDS:
            self._suppressed[reason] = self._suppressed.get(reason, 0) + 1
            return
        self._last[reason] = now
        logger.warning("%s (%s more like it since the last line)", message, self._suppressed.pop(reason, 0), **options)


__all__ = ["Applied", "Flush", "Flusher", "LogLimiter"]
