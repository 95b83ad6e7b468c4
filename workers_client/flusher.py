"""The one thread of a process that records: fold, encode, send; it is the worker's heartbeat too.

Encoding and sending happen outside every lock that a hook takes. A flush that failed is sent again as it was, with its
number, until Redis answers; what comes meanwhile waits in the bounded buffer. Hooks and the thread speak through a
`SimpleQueue`, whose `put` a signal handler may call whatever it interrupted.
"""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from workers_client import exits, wire
from workers_client.flush import FLUSH_BYTES, FLUSH_RECORDS, Flush, add_records, add_worker
from workers_client.log_limiter import LogLimiter
from workers_client.transport import Transport, load_redis

if TYPE_CHECKING:
    from workers_client.core import Core

BACK_OFF_SECONDS = 0.5  # after the first failure; doubles
BACK_OFF_LIMIT_SECONDS = 5.0
START_AGAIN_SECONDS = 1.0  # after a thread could not be started
FOLD_EVENTS = 64  # events folded between two pauses
PAUSE_SECONDS = 50e-6  # see `_pause`
LOOK_SECONDS = 0.5  # a caller that waits looks so often whether the thread still lives
NEXT_TRY_SECONDS = 0.2  # between two tries at least, however often one is asked for
BETWEEN_FLUSHES_SECONDS = 0.001  # of a backlog: lets the host and other clients of Redis in


class Request:
    """Somebody waits for what is buffered now to be delivered, until `deadline` (monotonic).

    The thread ends with the last one.
    """

    def __init__(self, deadline: float, *, is_last: bool = False) -> None:
        self.deadline = deadline
        self.is_last = is_last
        self.reply: SimpleQueue[bool] = SimpleQueue()


class Flusher:
    """Sends what a recorder folded, every `interval_seconds` or when asked."""

    def __init__(self, core: Core, transport: Transport, *, interval_seconds: float) -> None:
        self._core = core
        self._transport = transport
        self._interval_seconds = interval_seconds
        # A flush kept for long must leave room: what it holds can't be dropped any more.
        self._max_records = max(1, min(FLUSH_RECORDS, core.config.max_records // 4))
        self._max_bytes = max(1, min(FLUSH_BYTES, core.config.max_bytes // 4))
        self._number = 0
        self._kept: Flush | None = None  # sent, and not answered yet
        self._send_lock = threading.Lock()  # one sender: the thread, or at shutdown whoever calls flush()
        self._inbox: SimpleQueue[Request | None] = SimpleQueue()
        self._woken = False  # a wake is on its way: more are not needed
        self._is_hurried = False  # a caller waits
        self._failures = 0
        self._log = LogLimiter()
        self._thread: threading.Thread | None = None
        self._start_at = 0.0  # monotonic; not before this is a thread started again

    # --- Callers' side ----------------------------------------------------------------------------------------
    def start(self) -> None:
        """Start the thread, or one in place of a thread that died. Never raises: at shutdown no thread can start."""
        if self.is_running or time.monotonic() < self._start_at:
            return
        exits.register_process_exit()
        thread = threading.Thread(target=self._run, name="workers-client-flush", daemon=True)
        self._thread = thread
        try:
            thread.start()
        except RuntimeError:  # "can't start new thread at interpreter shutdown": close() sends what there is
            self._thread = None
            self._start_at = time.monotonic() + START_AGAIN_SECONDS

    @property
    def is_running(self) -> bool:
        """Whether the thread lives."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_needed(self) -> bool:
        """Whether anything was ever recorded: without it there is no worker to say that it exited."""
        return self._number > 0 or self._thread is not None or self._core.has_more

    def wake(self) -> None:
        """Have the thread fold soon, and send where a whole flush waits."""
        if not self._woken:
            self._woken = True
            self._inbox.put(None)

    def stop(self) -> None:
        """Have the thread end after what it does now and what is asked of it already."""
        self._inbox.put(Request(0.0, is_last=True))

    def flush(self, timeout: float, *, is_last: bool = False) -> bool:
        """Send all there is now; False where it is not delivered within `timeout` seconds in total.

        The thread sends and the caller waits, so that no socket's time-outs, address lists or retries add to it.
        """
        if threading.current_thread() is self._thread:
            return False  # a finalizer that runs in the flush thread would wait for itself
        request = Request(time.monotonic() + timeout, is_last=is_last)
        while True:
            if not self.is_running:
                self._start_at = 0.0
                self.start()
            if not self.is_running:  # the interpreter shuts down: no thread starts
                return self._flush_here(request.deadline)
            self._inbox.put(request)
            self._is_hurried = True  # a flush that is under way, too: the asked one comes after it
            thread = self._thread
            while thread is not None and thread.is_alive():
                remaining = request.deadline - time.monotonic()
                try:
                    return request.reply.get(timeout=max(0.0, min(remaining, LOOK_SECONDS)))
                except Empty:
                    if remaining <= LOOK_SECONDS:
                        return False

    def _flush_here(self, deadline: float) -> bool:
        if not self._send_lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return False
        self._is_hurried = True
        try:
            return self._send_all(deadline)
        finally:
            self._send_lock.release()

    # --- The thread -------------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            try:
                load_redis()
            except Exception:  # noqa: BLE001 - without redis-py nothing can be sent; each flush will say so
                self._core.count_error()
            self._serve()
        finally:
            self._core.thread_ended()

    def _serve(self) -> None:
        """Send at each interval and whatever is asked for, until stopped."""
        tried_at = 0.0
        next_at = time.monotonic() + min(1.0, self._interval_seconds)  # soon, so that a new worker is seen
        requests: list[Request] = []
        while True:
            received = self._receive(next_at)
            requests += received
            if received and self._failures:
                next_at = min(next_at, tried_at + NEXT_TRY_SECONDS)
            now = time.monotonic()
            if (now < next_at and (not requests or self._failures)) and not self._must_send():
                is_sent = False
            else:
                tried_at = now
                self._is_hurried = bool(requests)
                is_sent = self._try()
                next_at = time.monotonic() + self._seconds_to_next(is_asked=not is_sent and bool(requests))
            if is_sent:
                for request in requests:
                    request.reply.put(True)
            now = time.monotonic()
            ended = requests if is_sent else [request for request in requests if request.deadline <= now]
            if any(request.is_last for request in ended):
                return
            requests = [] if is_sent else [request for request in requests if request.deadline > now]

    def _try(self) -> bool:
        """Send all there is; whatever goes wrong costs this try alone."""
        try:
            with self._send_lock:
                return self._send_all(None)
        except Exception as error:  # noqa: BLE001 - the outermost line of the thread: counted, logged, and on
            self._core.count_error()
            self._failures += 1
            self._log.warn("flush thread", f"a flush failed unexpectedly: {type(error).__name__}")
            return False

    def _receive(self, until: float) -> list[Request]:
        """Wait for a wake, a request or the time; return the requests that came."""
        received: list[Request] = []
        try:
            item = self._inbox.get(timeout=max(0.0, until - time.monotonic()))
            while True:
                if item is not None:
                    received.append(item)
                item = self._inbox.get_nowait()
        except Empty:
            self._woken = False
            return received

    def _must_send(self) -> bool:
        """Fold; return whether a whole flush waits and Redis answered the last one."""
        self._fold_in_parts()
        return not self._failures and len(self._core.fold.records) >= self._max_records

    def _fold_in_parts(self) -> None:
        """Fold what waits, with a pause every few events."""
        core = self._core
        for _ in range(len(core.events) // FOLD_EVENTS):
            with core.fold_lock:
                core.fold_events(FOLD_EVENTS)
            self._pause()
        with core.fold_lock:
            core.fold_events()

    def _pause(self) -> None:
        """Let the host's threads run, unless somebody waits.

        A thread that computes keeps Python's global lock for 5 ms where another waits for it, which is a whole step of
        a small model. Giving it up for a moment every few records keeps the host's wait below one such moment.
        """
        if not self._is_hurried:
            time.sleep(PAUSE_SECONDS)

    def _seconds_to_next(self, *, is_asked: bool) -> float:
        """Return the seconds to the next flush: the interval less up to a tenth, or the back-off with jitter."""
        if not self._failures:
            return self._interval_seconds * _jitter(0.9)
        back_off = min(BACK_OFF_LIMIT_SECONDS, BACK_OFF_SECONDS * 2.0 ** min(self._failures - 1, 10))
        if is_asked:
            back_off = BACK_OFF_SECONDS  # somebody waits for it
        return back_off * _jitter(0.5)

    # --- One flush --------------------------------------------------------------------------------------------
    def _send_all(self, deadline: float | None) -> bool:
        """Send flush after flush until what was recorded before is sent; a heartbeat goes out in any case.

        A flush kept from an earlier try goes first, and never counts as the one that was asked for.
        """
        core = self._core
        self._fold_in_parts()
        with core.fold_lock:
            core.fold_events()
            newest = core.fold.newest_number
        is_fresh = False
        while not is_fresh or core.fold.records.has_before(newest):
            is_fresh = self._kept is None
            if (deadline is not None and time.monotonic() >= deadline) or not self._send_one(deadline):
                return False
            time.sleep(BETWEEN_FLUSHES_SECONDS)
        return True

    def _send_one(self, deadline: float | None) -> bool:
        core = self._core
        started = time.monotonic()
        try:
            flush = self._kept or self._make()
            self._kept = flush
            guard = wire.flush_guard_key(core.worker)
            applied = self._transport.apply(guard, flush.number, flush.commands, deadline=deadline)
        except Exception as error:  # noqa: BLE001 - whatever redis-py or the network raises, the host goes on
            self._failures += 1
            self._transport.close()
            core.flush_failed()
            self._log.warn(type(error).__name__, f"telemetry can't be sent: {type(error).__name__}")
            return False
        self._kept = None
        self._failures = 0
        core.flush_applied(flush, applied, seconds=time.monotonic() - started)
        return True

    def _make(self) -> Flush:
        """Number the next flush and encode it. Asks Redis for the step base of runs seen for the first time.

        Raises:
            Exception: Redis can't be asked; nothing was taken.
        """
        core = self._core
        with core.fold_lock:
            core.fold_events()
            unknown = [totals for totals in core.fold.changed.values() if totals.steps_base is None]
        if unknown:
            bases = self._transport.read_steps([wire.steps_key(totals.run_id) for totals in unknown])
            with core.fold_lock:
                for totals, base in zip(unknown, bases):  # noqa: B905 - both have one entry a run
                    totals.steps_base = totals.steps_known = base
        with core.fold_lock:
            taken = core.take(max_records=self._max_records, max_bytes=self._max_bytes)
        self._number += 1
        flush = Flush(self._number)
        add_records(flush, taken.records, core.refuse, self._pause)
        flush.commands += taken.total_commands
        add_worker(flush, taken.worker_record, taken.runs)
        return flush


def _jitter(lowest: float) -> float:
    """Return a factor between `lowest` and 1. Not of `random`: a draw would change what the host's seed gives."""
    return lowest + (1 - lowest) * (time.perf_counter_ns() // 64 % 1_000) / 1_000
