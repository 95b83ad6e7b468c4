"""The hooks. Each appends an event to memory, swallows its own errors and returns nothing; none waits for anything."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from workers_client import ledger, wire
from workers_client.commands import (
    ErrorWords,
    accepted_at_of,
    command_ids,
    failure_of,
    tokens_of,
)
from workers_client.core import Core
from workers_client.gpu_turn import GpuTurn, Span
from workers_client.metrics import sanitize
from workers_client.operation import Operation, current_operation


class Recorder:
    """What one process records through, under one role. `as_role` gives the same buffer under another."""

    def __init__(self, core: Core, role: str) -> None:
        self._core = core
        self.role = role

    @property
    def worker(self) -> str:
        """The worker id: new at each process start and after a fork."""
        return self._core.worker

    def as_role(self, role: str) -> Recorder:
        """Return a recorder with the same buffer and worker under another role: an API server that trains too."""
        return Recorder(self._core, str(role))

    # --- Requests ---------------------------------------------------------------------------------------------
    def enqueued(self, command: Any) -> None:
        """Stamp a command with its enqueue time and count it (API server, before it is queued)."""
        try:
            at = time.time()
            ids = command_ids(command)
            context = command.get("trace_context")
            # A new dict: the old one may be shared with another command.
            command["trace_context"] = {
                **(context if isinstance(context, dict) else {}),
                wire.ENQUEUED_AT_ENTRY: repr(at),
            }
            if ids is not None:
                self._core.record((ledger.ENQUEUED, ids._replace(trace_context=None), at))
        except Exception:  # noqa: BLE001 - a hook never raises into its host
            self._core.count_error()

    def popped(self, commands: Any) -> None:
        """Count commands taken from the queue; they are outstanding from here (trainer)."""
        at = time.time()
        for command in _each(commands):
            try:
                ids = command_ids(command)
                if ids is not None:
                    self._core.record((ledger.POPPED, ids._replace(trace_context=None), at))
            except Exception:  # noqa: BLE001
                self._core.count_error()

    def operation(self, command: Any) -> Operation:
        """Return the context manager around one op (trainer)."""
        return Operation(self._core, self.role, command)

    def answered(self, command: Any, result: Any = None) -> None:
        """Count the answer of a command; a failure whose op never ran gets its op record here."""
        try:
            ids = command_ids(command)
            if ids is not None:
                self._core.record((ledger.ANSWERED, self.role, ids, time.time(), failure_of(result)))
        except Exception:  # noqa: BLE001
            self._core.count_error()

    def delivered(self, request_id: Any) -> None:
        """Say that a client got the answer of a request (API server)."""
        try:
            if not isinstance(request_id, str):
                raise TypeError("a request id is a string")
            self._core.record((ledger.DELIVERED, request_id, time.time()))
        except Exception:  # noqa: BLE001
            self._core.count_error()

    # --- Sampling ---------------------------------------------------------------------------------------------
    def sample_accepted(self, request: Any) -> None:
        """Say that a sampling request is open; its `accepted_at` is taken where it has one."""
        try:
            at = time.time()
            ids = command_ids(request)
            if ids is not None:
                accepted_at = accepted_at_of(request) or at
                self._core.record((ledger.SAMPLE_ACCEPTED, ids.run_id, ids.request_id, accepted_at, at))
        except Exception:  # noqa: BLE001
            self._core.count_error()

    def sample_answered(self, request: Any, result: Any, *, source: Any) -> None:
        """Count the first result of a sampling request, where it is saved; a loser of the race does not call this.

        `source` is `dispatcher`, `in_process`, `deadline` or `job_failure`.
        """
        try:
            ids = command_ids(request)
            if ids is None:
                return
            word = wire.SampleSource(source).value
            failure = failure_of(result)
            if failure is None and isinstance(result, BaseException):
                failure = ErrorWords(wire.Status.FAILED.value, type(result).__name__)
            outcome = (None, tokens_of(result)) if failure is None else (failure.error_type, 0)
            accepted_at = accepted_at_of(request)
            self._core.record(
                (ledger.SAMPLE_ANSWERED, ids.run_id, ids.request_id, accepted_at, time.time(), outcome, word)
            )
        except Exception:  # noqa: BLE001
            self._core.count_error()

    # --- Metrics, turns, phases -------------------------------------------------------------------------------
    def sanitize_metrics(self, metrics: Any) -> Any:
        """Return the metrics with finite stand-ins, having told the current op what was replaced (trainer).

        Something that is no mapping comes back as it is.
        """
        try:
            finite, replaced = sanitize(metrics)
            operation = current_operation.get()
            if replaced and operation is not None:
                operation.note_replaced(replaced)
        except Exception:  # noqa: BLE001
            self._core.count_error()
            return metrics
        return finite

    def gpu_turn(self, workload: Any, lease: Any) -> GpuTurn:
        """Wrap a time slicer's lease: the wait before, the hold, and what ran inside (trainer, sampler)."""
        return GpuTurn(self._core, self.role, workload, lease)

    def span(self, name: Any) -> Span:
        """Return the context manager around work that is no request: `wake_up`, `sleep`, `weight_sync`."""
        return Span(self._core, name)

    def phase(self, name: Any) -> None:
        """Set the worker's phase where no other call implies it."""
        try:
            self._core.named_phase = (wire.Phase(name).value, time.time())
            if not self._core.flusher.is_running and self._core.exited is None:
                self._core.begin()  # a worker that only says its phase is seen, too
        except Exception:  # noqa: BLE001
            self._core.count_error()

    # --- Delivery ---------------------------------------------------------------------------------------------
    def flush(self, timeout: float | None = None) -> bool:
        """Send what is buffered now; False where it is not delivered within `timeout` seconds in total
        (two flush intervals by default)."""
        return self._core.flusher.flush(timeout)

    def close(self, timeout: float = 5.0, reason: str | None = None) -> bool:
        """Send the last flush, whose worker record says `exited`, within `timeout` seconds in total; idempotent."""
        core = self._core
        if not core.flusher.is_needed:
            return True  # nothing was ever recorded: there is no worker to say that it exited
        if core.exited is None:
            core.exited = (time.time(), reason or "closed")
            core.flusher.stop()
        return core.flusher.flush(timeout)

    def stats(self) -> dict[str, Any]:
        """Return counters: produced, sent, buffered and dropped by kind, redelivered, flushes, hook errors and cost."""
        return self._core.stats()


def _each(commands: Any) -> Iterable[Any]:
    if isinstance(commands, (list, tuple)):
        return commands
    return (commands,)
