"""The context manager around one op: the hottest path of the package.

Entering, finishing and leaving an op cost about as much as a dozen appends to a list, so the code below is written for
that: no parsing beyond one lookup of the envelope's fields, no context variable while one op runs at a time, and the
slow ways apart. What an op appends is read by `ledger.Fold`.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar, Token
from time import perf_counter, time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from workers_client import wire
from workers_client.commands import (
    ENVELOPE_SIZE,
    FAILURE_TYPE,
    CommandIds,
    ErrorWords,
    attribute,
    command_ids,
    failure_of,
    is_result,
)
from workers_client.events import OPERATION as _OPERATION

if TYPE_CHECKING:
    from workers_client.core import Core
    from workers_client.recorder import Recorder

_CANCELLED = ErrorWords(wire.Status.CANCELLED.value, "CancelledError")
_CANCELLATIONS = {"CancelledError", "Cancelled"}  # of asyncio, concurrent.futures and trio, none of them imported here
COST_EVERY_SECONDS = 0.1  # the cost of a hook is measured so often at most
# The op of this context, set where another op runs at the same time.
_op_of_context: ContextVar[Operation | None] = ContextVar("workers_client_operation", default=None)
# Without a global interpreter lock, two threads could both find that nothing else runs.
HAS_GIL: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


class Operation:
    """One op while it runs. Use with `with` or `async with`; call `finish` with the worker's result.

    `Recorder.operation` makes it and sets all but `_clock` and `_token`, which is cheaper than an `__init__`.
    """

    __slots__ = ("_clock", "_command", "_core", "_replaced", "_result", "_role", "_token", "_work")
    _clock: float
    _command: Any
    _core: Core
    _replaced: dict[str, str] | None
    _result: Any
    _role: str
    _token: Token[Operation | None]  # where other ops ran when it was entered
    _work: tuple[Any, Any, Any] | None

    @property
    def started_at(self) -> float:
        """When a running op started, in unix seconds: told by the monotonic clock, which saves one reading an op."""
        return time() - (perf_counter() - self._clock)

    # Without a `*`: a default of a keyword-only parameter is looked up by its name at each call.
    def finish(self, result: Any, tokens: Any = None, datums: Any = None, batch: Any = None) -> None:
        """Take the worker's result: its `metrics`, and whether it is a `RequestFailedResponse`.

        `tokens` and `datums` say how much work it was; `batch` is the same for ops that ran as one computation. What
        counts is the result as it is when the op ends; a tensor is read within a flush interval, so it must not change.
        """
        self._result = result
        if tokens is not None or datums is not None or batch is not None:
            self._work = (tokens, datums, batch)

    def __enter__(self) -> Operation:
        core = self._core
        # An op inside one of several is told apart by its context: it never runs alone, though the first has ended.
        if core.current is None and HAS_GIL and not core.others:
            core.current = self
        else:
            self._token = _op_of_context.set(self)
            core.others[self] = None
        self._clock = perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = perf_counter()
        core = self._core
        try:
            if core.current is self:
                core.current = None
            elif not self._leave():
                return
            command = self._command
            self._command = None
            try:
                request_id, name, run = command["request_id"], command["op"], command["model_id"]
                trace_context, payload = command["trace_context"], command["payload"]
                if (
                    len(command) != ENVELOPE_SIZE
                    or "logical_run_id" in payload
                    or "adapter_id" in payload
                    or "lora_id" in payload
                    or "forward_only" in payload
                ):
                    request_id, name, run, trace_context = command_ids(command)
            except (KeyError, TypeError):
                request_id, name, run, trace_context = command_ids(command)
            result = self._result
            failure: Any = kind
            metrics = None
            if result is not None:
                self._result = None
                try:
                    metrics = result["metrics"].copy()
                    if result["type"] == FAILURE_TYPE and kind is None:
                        failure = failure_of(result)
                except Exception:  # noqa: BLE001 - a result without metrics or type, an object, nonsense
                    metrics, failure = self._read(result, kind)
            if failure is not None:
                failure = failure_words(failure)
            waiting = core.events
            waiting.append(
                (
                    _OPERATION, self, request_id, name, run, trace_context, self._clock, ended, failure, metrics,
                    self._replaced, self._work,
                )
            )  # fmt: skip
            core.last_request_id = request_id  # not before: the fold must meet the op before its answer
            if len(waiting) > core.events_limit:
                core.relieve()
            if core.turns:
                at = time() - (perf_counter() - ended)
                core.note_in_turn(CommandIds(request_id, name, run), at - (ended - self._clock), at, failure)
            if ended > core.cost_due:
                core.cost_due = ended + COST_EVERY_SECONDS
                core.hook_costs.append(perf_counter() - ended)
        except Exception:  # noqa: BLE001 - a hook never raises into its host
            core.count_error()

    async def __aenter__(self) -> Operation:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def note_replaced(self, replaced: dict[str, str]) -> None:
        """Remember which metrics were not finite: their stand-ins are no values."""
        self._replaced = {**(self._replaced or {}), **replaced}

    def ids(self) -> CommandIds | None:
        """Return what runs, for the worker record; None where the command is nonsense or the op has ended."""
        try:
            return command_ids(self._command)
        except Exception:  # noqa: BLE001 - counted when the op ends
            return None

    def _leave(self) -> bool:
        """Leave where other ops run at the same time; False where the parent of a fork entered: it is its to record."""
        others = self._core.others
        if self not in others:
            return False  # a fork empties both places where an op of this process stands
        try:  # noqa: SIM105 - `contextlib` is not loaded for this
            _op_of_context.reset(self._token)
        except ValueError:  # left in another context than it was entered in: what that says of its own op stands
            pass
        del self._token  # it holds the host's context, and the op waits for the fold
        others.pop(self, None)
        return True

    def _read(self, result: Any, kind: type[BaseException] | None) -> tuple[dict[Any, Any] | None, Any]:
        """Return the metrics, and how the op failed, of a result that is not the common one."""
        if not is_result(result):
            self._core.count_error()
            return None, kind
        metrics = attribute(result, "metrics")
        try:
            copied = None if metrics is None else dict(metrics)
        except (TypeError, ValueError):
            self._core.count_error()
            copied = None
        return copied, kind if kind is not None else failure_of(result)


def failure_words(failure: Any) -> ErrorWords:
    """Return the words of an exception's class, or the words themselves."""
    if isinstance(failure, ErrorWords):
        return failure
    if any(ancestor.__name__ in _CANCELLATIONS for ancestor in failure.__mro__):
        return _CANCELLED
    return ErrorWords(wire.Status.FAILED.value, failure.__name__)


def op_of_context(recorder: Recorder) -> Operation | None:
    """Return the op that the caller runs in: the context's own, or the one that runs alone."""
    op = _op_of_context.get()
    if op is not None and op in recorder._core.others:
        return op
    return recorder._core.current
