"""The hooks. Each appends an event to memory, swallows its own errors and returns nothing; none waits for anything."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter, time
from typing import Any

from workers_client import events, wire
from workers_client.commands import (
    FAILURE_TYPE,
    CommandIds,
    accepted_at_of,
    command_ids,
    failure_of,
    is_result,
    tokens_of,
)
from workers_client.core import Core
from workers_client.events import ANSWERED_LAST as _ANSWERED_LAST
from workers_client.gpu_turn import GpuTurn, Span
from workers_client.metrics import sanitize
from workers_client.operation import Operation, op_of_context


class Recorder:
    """What one process records through, under one role. `as_role` gives the same buffer under another."""

    __slots__ = ("_core", "role")

    def __init__(self, core: Core, role: str) -> None:
        self._core = core
        self.role = role

    @property
    def worker(self) -> str:
        """The worker id: new at each process start and after a fork."""
        return self._core.worker

    def as_role(self, role: str) -> Recorder:
        """Return a recorder with the same buffer and worker under another role: an API server that trains too.

        A role that is none counts as a hook error, and this recorder's own role stays.
        """
        try:
            return Recorder(self._core, wire.Role(role).value)
        except Exception:  # noqa: BLE001 - of an object without a name, even the error can't be told
            self._core.count_error()
            return self

    # --- Requests ---------------------------------------------------------------------------------------------
    def enqueued(self, command: Any) -> None:
        """Stamp a command with its enqueue time and count it (API server, before it is queued)."""
        try:
            at = time()
            ids = _counted_ids(command)
            _stamp(command, at)
            if ids is not None:
                self._core.record((events.ENQUEUED, ids, at))
        except Exception:  # noqa: BLE001 - a hook never raises into its host
            self._core.count_error()

    def popped(self, commands: Any) -> None:
        """Count commands taken from the queue; they are outstanding from here (trainer)."""
        core, at, found = self._core, time(), []
        try:
            for command in _each(commands):
                try:
                    ids = _counted_ids(command)
                    if ids is not None:
                        found.append(ids._replace(trace_context=None))
                except Exception:  # noqa: BLE001
                    core.count_error()
            if found:
                core.record((events.POPPED, found, at))
        except Exception:  # noqa: BLE001
            core.count_error()

    def operation(self, command: Any) -> Operation:
        """Return the context manager around one op (trainer)."""
        operation = Operation()
        operation._core = self._core
        operation._role = self.role
        operation._command = command
        operation._result = operation._work = operation._replaced = None
        return operation

    def answered(self, command: Any, result: Any = None) -> None:
        """Count the answer of a command; a failure whose op never ran gets its op record here."""
        core = self._core
        try:
            request_id = command["request_id"]
            if request_id is core.last_request_id and (result is None or result["type"] != FAILURE_TYPE):
                # Its op was recorded a moment ago: the fold knows the rest, and the op saw to the bound.
                core.events.append((_ANSWERED_LAST, request_id, perf_counter()))
                return
        except Exception:  # noqa: BLE001 - not the common case
            pass
        self._answered(command, result)

    def _answered(self, command: Any, result: Any) -> None:
        core = self._core
        try:
            ids = _counted_ids(command)
            if ids is None:
                return
            if not is_result(result):
                core.count_error()
            failure = failure_of(result)
            runs_now = failure is not None and core.is_running(ids.request_id)
            core.record((events.ANSWERED, self.role, ids, time(), failure, runs_now))
        except Exception:  # noqa: BLE001
            core.count_error()

    def delivered(self, request_id: Any, run_id: Any = None) -> None:
        """Say that a client got the answer of a request (API server).

        Where another process of the API server enqueued it, only `run_id` says whose request it was.
        """
        try:
            if not isinstance(request_id, str):
                raise TypeError("a request id is a string")
            self._core.record((events.DELIVERED, request_id, time(), run_id))
        except Exception:  # noqa: BLE001
            self._core.count_error()

    # --- Sampling ---------------------------------------------------------------------------------------------
    def sample_accepted(self, request: Any) -> None:
        """Say that a sampling request is open; its `accepted_at` is taken where it has one."""
        try:
            at = time()
            ids = _counted_ids(request)
            if ids is not None:
                self._core.record((events.SAMPLE_ACCEPTED, ids, accepted_at_of(request) or at, at))
        except Exception:  # noqa: BLE001
            self._core.count_error()

    def sample_answered(self, request: Any, result: Any, *, source: Any) -> None:
        """Count the first result of a sampling request, where it is saved; a loser of the race does not call this.

        `source` is `dispatcher`, `in_process`, `deadline` or `job_failure`.
        """
        core = self._core
        try:
            ids = _counted_ids(request)
            if ids is None:
                return
            word = wire.SampleSource(source).value if source in _SOURCES else None
            if word is None or not is_result(result):
                core.count_error()
            outcome = (failure_of(result), tokens_of(result))
            core.record((events.SAMPLE_ANSWERED, ids, accepted_at_of(request), time(), *outcome, word))
        except Exception:  # noqa: BLE001
            core.count_error()

    # --- Metrics, turns, phases -------------------------------------------------------------------------------
    def sanitize_metrics(self, metrics: Any) -> Any:
        """Return the metrics with finite stand-ins, having told the current op what was replaced (trainer).

        Something that is no mapping comes back as it is.
        """
        try:
            finite, replaced = sanitize(metrics)
            operation = op_of_context(self) if replaced else None
            if operation is not None:
                operation.note_replaced(replaced)
        except Exception:  # noqa: BLE001
            self._core.count_error()
            return metrics
        return finite

    def gpu_turn(self, workload: Any, lease: Any) -> GpuTurn:
        """Wrap a time slicer's lease: the wait before, the hold, and what ran inside (trainer, sampler)."""
        return GpuTurn(self._core, self.role, workload, lease)

    def span(self, name: Any, request: Any = None) -> Span:
        """Return the context manager around work that is no op: `wake_up`, `sleep`, `weight_sync`.

        `request` is the command or sampling request it is for, where it is for one alone: a sampler's turn then says
        which run it worked for.
        """
        return Span(self._core, name, request)

    def phase(self, name: Any) -> None:
        """Set the worker's phase where no other call implies it. A worker that only says its phase is seen, too."""
        core = self._core
        try:
            core.named_phase = (wire.Phase(name).value, time())
            if core.events_limit < 0:
                core.relieve()
        except Exception:  # noqa: BLE001
            core.count_error()

    # --- Delivery ---------------------------------------------------------------------------------------------
    def flush(self, timeout: float | None = None) -> bool:
        """Send what is buffered now; False where it is not delivered within `timeout` seconds in total
        (two flush intervals by default)."""
        return self._core.flush(timeout)

    def close(self, timeout: float = 5.0, reason: str | None = None) -> bool:
        """Send the last flush, whose worker record says `exited`, within `timeout` seconds in total.

        Idempotent: called again it returns at once what the first call returned. What is recorded after it waits,
        bounded as ever, for a `flush` or for the exit of the process.
        """
        return self._core.close(timeout, reason)

    def stats(self) -> dict[str, Any]:
        """Return counters: produced, sent, buffered and dropped by kind, redelivered, flushes, hook errors and cost."""
        return self._core.stats()


_SOURCES = tuple(source.value for source in wire.SampleSource)


def _counted_ids(command: Any) -> CommandIds | None:
    """Return what is kept of a command, or None for the shutdown sentinel, which belongs to no run."""
    ids = command_ids(command)
    return None if ids.request_id == wire.SHUTDOWN_REQUEST_ID else ids


def _stamp(command: Any, at: float) -> None:
    """Put the enqueue time into a command's trace context.

    Raises:
        TypeError: the command has a trace context that is no mapping.
    """
    is_object = hasattr(command, "trace_context")
    context = command.trace_context if is_object else command.get("trace_context")
    # A new dict: the old one may be shared with another command.
    stamped = {**({} if context is None else context), wire.ENQUEUED_AT_ENTRY: repr(at)}
    if is_object:
        command.trace_context = stamped
    else:
        command["trace_context"] = stamped


def _each(commands: Any) -> Iterable[Any]:
    if isinstance(commands, (list, tuple)):
        return commands
    return (commands,)
