"""The fold: events of the hooks become totals, open requests and records.

Runs under the recorder's fold lock, in the flush thread (or in whoever asks for `stats`). Nothing here waits, and
nothing is encoded. Totals (the ledger, the step counts) are folded and never dropped; records go to the buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from workers_client import buffer, events, wire
from workers_client.buffer import Pending, RecordBuffer
from workers_client.commands import CommandIds, ErrorWords, held_trace
from workers_client.records import encode_fields, encode_operation, held_metrics, held_work, operation_size
from workers_client.requests import UNANSWERED, UNDELIVERED, UNSAMPLED, OpenRequests, RecentMarks
from workers_client.run_totals import Command, RunTotals
from workers_client.wire_values import TEXT_LIMIT, count, text

if TYPE_CHECKING:
    from workers_client.operation import Operation

RUNS_LIMIT = 10_000  # runs known at once; of too many, one that waited longest and has nothing unsent is forgotten
FIELDS_SIZE = 1_500  # bytes a small record takes in memory, about

# Marks of a request; each is counted once.
_ENQUEUED, _POPPED, _RAN, _ANSWERED, _DELIVERED, _SAMPLED = 1, 2, 4, 8, 16, 32
_FAILED = wire.Status.FAILED.value
_pending: Callable[[tuple[Any, ...]], Pending] = partial(tuple.__new__, Pending)  # half the cost of Pending(...)


class Fold:
    """All that one worker knows: totals by run, open requests, and the buffer of records."""

    def __init__(self, worker: str, records: RecordBuffer) -> None:
        self.worker = worker
        self.records = records
        self.runs: dict[str, RunTotals] = {}
        self.changed: dict[str, RunTotals] = {}  # runs with something that no flush has taken yet
        self.open_requests = OpenRequests()
        self.last_progress_at: float | None = None
        self.turn_totals: dict[str, float] = {}
        self.workload_times: dict[str, float] = {}  # newest turn of each workload that no flush has taken yet
        self.newest_number = 0
        self.clock_offset_seconds = 0.0  # the wall clock minus `perf_counter`, on which ops are timed
        self._marks = RecentMarks()
        self._totals_by_name: dict[Any, RunTotals] = {}  # runs by what commands call them
        self._last_ran: dict[str, RunTotals] = {}  # the runs of the ops recorded last
        self._handlers: dict[str, Callable[..., None]] = {
            events.ENQUEUED: self._enqueue,
            events.POPPED: self._pop,
            events.OPERATION: self._operation,
            events.ANSWERED: self._answer,
            events.ANSWERED_LAST: self._answer_last,
            events.DELIVERED: self._deliver,
            events.SAMPLE_ACCEPTED: self._accept_sample,
            events.SAMPLE_ANSWERED: self._answer_sample,
            events.TURN: self._turn,
        }

    def apply(self, event: tuple[Any, ...]) -> None:
        """Fold one event. Raises whatever nonsense in it raises; the caller counts that."""
        self._handlers[event[0]](*event[1:])

    def take_totals(self, records: list[Pending]) -> tuple[list[Command], list[str]]:
        """Move all totals into commands, what `records` adds included; return them and the runs they are of."""
        for record in records:
            if record.totals is not None:
                self.changed.setdefault(record.totals.run_id, record.totals)  # not over what a run counts since
        commands = [command for totals in self.changed.values() for command in totals.take()]
        runs = list(self.changed)
        self.changed = {}
        commands += [("ZADD", wire.WORKLOADS_KEY, "GT", at, name) for name, at in self.workload_times.items()]
        self.workload_times = {}
        return commands, runs

    def restore_steps(self) -> None:
        """Have the next flush tell the step count of every run: Redis came back without them."""
        self.changed.update({run_id: totals for run_id, totals in self.runs.items() if totals.steps_known})

    def close_sampling_windows(self, now: float) -> None:
        """Make one group record for each run whose sampling requests were answered since the last flush."""
        for totals in list(self.changed.values()):
            group = totals.sampling.close(now)
            if group is not None:
                self._keep(buffer.SAMPLE_GROUP, totals.samples_key, {"run_id": totals.run_id, **group}, totals)

    # --- The ledger -------------------------------------------------------------------------------------------
    def _enqueue(self, ids: CommandIds, at: float) -> None:
        if self._marks.add(ids.request_id, _ENQUEUED):
            totals = self._run(ids.run)
            totals.count("enqueued", at)
            self.open_requests.add(ids.request_id, totals.run_id, ids.operation, at, UNDELIVERED)

    def _pop(self, popped: list[CommandIds], at: float) -> None:
        for ids in popped:
            if self._marks.add(ids.request_id, _POPPED):
                totals = self._run(ids.run)
                totals.count("popped", at)
                self.open_requests.add(ids.request_id, totals.run_id, ids.operation, at, UNANSWERED)

    def _answer(self, role: str, ids: CommandIds, at: float, error: ErrorWords | None, runs_now: bool) -> None:
        totals = self._run(ids.run)
        if not self._count_answer(ids.request_id, totals, at) or error is None or runs_now:
            return
        if not self._marks.has(ids.request_id, _RAN):  # answered before its op ran, and recorded here alone
            self._finish(role, ids, totals, (None, at, None), error, None, None, None)

    def _answer_last(self, request_id: str, answered: float) -> None:
        if request_id == wire.SHUTDOWN_REQUEST_ID:
            return
        totals = self._run(self._last_ran[request_id].run_id)  # a flush since has taken what had changed
        self._count_answer(request_id, totals, answered + self.clock_offset_seconds)

    def _count_answer(self, request_id: str, totals: RunTotals, at: float) -> bool:
        self.open_requests.end(request_id, UNANSWERED)
        if not self._marks.add(request_id, _ANSWERED):
            return False
        totals.count("answered", at)
        self.last_progress_at = at
        return True

    def _deliver(self, request_id: str, at: float, run_id: Any) -> None:
        request = self.open_requests.end(request_id, UNDELIVERED)
        name = run_id if request is None else request.run_id
        if name is not None and self._marks.add(request_id, _DELIVERED):
            self._run(name).count("delivered", at)

    # --- Records ----------------------------------------------------------------------------------------------
    def _operation(
        self, op: Operation, request_id: Any, operation: Any, run: Any, trace_context: Any, started: float,
        ended: float, error: ErrorWords | None, metrics: Any, replaced: dict[str, str] | None,
        work: tuple[Any, Any, Any] | None,
    ) -> None:  # fmt: skip
        """Fold one op that ran. `error` is None of success; `work` is tokens, datums and batch.

        Both its times are of the monotonic clock: a wall clock that is set meanwhile gives no negative time.
        """
        if request_id == wire.SHUTDOWN_REQUEST_ID:
            return
        if type(request_id) is not str or not 0 < len(request_id) <= TEXT_LIMIT:
            raise ValueError("a command needs a request id")
        if metrics is not None and not isinstance(metrics, dict):
            self.bad_values_count += 1
            metrics = None
        totals = self._run(run)
        self._marks.add(request_id, _RAN)
        if len(self._last_ran) > 64:
            self._last_ran = {}
        self._last_ran[request_id] = totals
        at = ended + self.clock_offset_seconds
        ids = (request_id, operation, run, trace_context)
        elapsed_seconds = ended - started
        self._finish(op._role, ids, totals, (at - elapsed_seconds, at, elapsed_seconds), error, metrics, replaced, work)

    bad_values_count = 0  # values found unusable here and left out: hook errors that the hooks could not see

    def _finish(
        self, role: str, ids: Any, totals: RunTotals, times: tuple[float | None, float, float | None],
        error: ErrorWords | None, metrics: Any, replaced: Any, work: Any,
    ) -> None:  # fmt: skip
        """Count a finished op and keep its record."""
        request_id, operation, _, trace_context = ids
        started_at, at, elapsed_seconds = times
        if type(operation) is not str or not operation.isprintable() or not 0 < len(operation) <= TEXT_LIMIT:
            operation = text(operation) or "unknown"
        self.changed[totals.run_id] = totals
        if at > totals.last_activity_at:
            totals.last_activity_at = at
        self.last_progress_at = at
        is_failed = error is not None and error.status == _FAILED
        if is_failed:
            totals.counts["failed"] = totals.counts.get("failed", 0) + 1
        if operation == wire.SAMPLE:
            self._in_process_sample(request_id, totals, times, error, work)
            return
        own_step = totals.steps_own
        if operation == wire.OPTIM_STEP and error is None:
            totals.step(at)
        kind = buffer.FAILURE if is_failed else buffer.OPERATION
        trace = None if trace_context is None else held_trace(trace_context)
        held = None if metrics is None else held_metrics(metrics)
        work = None if work is None else held_work(work)
        data = (
            self._next_id(), totals, own_step, role, request_id, operation, trace, started_at, at,
            elapsed_seconds, error, held, replaced, work,
        )  # fmt: skip
        size = operation_size(metrics)
        self.records.add(
            _pending((self.newest_number, kind, totals.operations_key, size, encode_operation, data, totals))
        )

    def _in_process_sample(
        self, request_id: str, totals: RunTotals, times: tuple[float | None, float, float | None],
        error: ErrorWords | None, work: Any,
    ) -> None:  # fmt: skip
        """A sample op of a trainer goes to the samples; a cancelled one was not answered."""
        if error is not None and error.status == wire.Status.CANCELLED.value:
            return
        tokens = (count(work[0]) if work is not None else None) or 0
        source = wire.SampleSource.IN_PROCESS.value
        self._count_sample(request_id, totals, times[0], times[1], error=error, tokens=tokens, source=source)

    def _accept_sample(self, ids: CommandIds, accepted_at: float, at: float) -> None:
        if self._marks.has(ids.request_id, _SAMPLED):
            return
        totals = self._run(ids.run)
        if self.open_requests.add(ids.request_id, totals.run_id, wire.SAMPLE, accepted_at, UNSAMPLED):
            totals.sampling.accept(accepted_at, at)
        totals.last_activity_at = max(totals.last_activity_at, at)

    def _answer_sample(
        self, ids: CommandIds, accepted_at: float | None, at: float, error: ErrorWords | None, tokens: int,
        source: str | None,
    ) -> None:  # fmt: skip
        totals = self._run(ids.run)
        self._count_sample(ids.request_id, totals, accepted_at, at, error=error, tokens=tokens, source=source)

    def _count_sample(
        self, request_id: str, totals: RunTotals, accepted_at: float | None, at: float,
        *, error: ErrorWords | None, tokens: int, source: str | None,
    ) -> None:  # fmt: skip
        """Count the answer of a sampling request, once, whether its op or who saved its result says it first."""
        if not self._marks.add(request_id, _SAMPLED):
            return
        request = self.open_requests.end(request_id, UNSAMPLED)
        if request is not None:
            totals.sampling.release(at)
            accepted_at = request.since if accepted_at is None else min(accepted_at, request.since)
        totals.last_activity_at = max(totals.last_activity_at, at)
        self.last_progress_at = at
        if error is None:
            totals.sampling.answer(accepted_at, at, tokens)
            return
        failure = {
            "run_id": totals.run_id, "kind": "failure", "request_id": text(request_id), "source": source,
            "accepted_at": accepted_at, "at": at, "error_type": text(error.error_type) or "Exception",
        }  # fmt: skip
        known = {name: value for name, value in failure.items() if value is not None}
        self._keep(buffer.SAMPLE_FAILURE, totals.samples_key, known, totals)

    def _turn(self, workload: str, fields: dict[str, Any], seconds: dict[str, float]) -> None:
        for name, value in seconds.items():
            self.turn_totals[name] = self.turn_totals.get(name, 0) + value
        self.workload_times[workload] = max(self.workload_times.get(workload, 0.0), fields["at"])
        record = {"operation": "gpu_turn", "workload": workload, **fields}
        self._keep(buffer.GPU_TURN, wire.turns_key(workload), record, None)

    def _keep(self, kind: str, key: str, record: dict[str, Any], totals: RunTotals | None) -> None:
        """Number a record and give it to the buffer."""
        full = {"id": self._next_id(), "worker": self.worker, **record}
        size = FIELDS_SIZE + 300 * len(record.get("ops", ()))
        self.records.add(Pending(self.newest_number, kind, key, size, encode_fields, full, totals))

    def _next_id(self) -> str:
        """Return the id of the next record: numbers count from 1, so that dropped ones leave gaps to be seen."""
        self.newest_number += 1
        return f"{self.worker}:{self.newest_number}"

    # --- Runs -------------------------------------------------------------------------------------------------
    def _run(self, name: Any) -> RunTotals:
        """Return the totals of the run that a command calls so, made at first sight; they count as changed.

        Raises:
            ValueError: no run may be called so.
        """
        totals = self._totals_by_name.get(name)
        if totals is None:
            run_id = wire.checked_run_id(name) if isinstance(name, str) else None
            if run_id is None:
                raise ValueError("a command needs a run id")
            run_id.encode()  # a lone surrogate has no UTF-8, and a key of Redis needs it
            totals = self.runs.get(run_id) or self._add_run(run_id)
            if len(self._totals_by_name) > 4 * RUNS_LIMIT:
                self._totals_by_name = {}
            self._totals_by_name[name] = totals
        self.changed[totals.run_id] = totals
        return totals

    def _add_run(self, run_id: str) -> RunTotals:
        if len(self.runs) >= RUNS_LIMIT:
            self._forget_runs()
        totals = self.runs[run_id] = RunTotals(run_id, self.worker)
        return totals

    def _forget_runs(self) -> None:
        """Forget the half of the runs that were quiet longest. Redis has their steps: they are asked for again.

        A record that still waits keeps its run's totals with it.
        """
        idle = [totals for totals in self.runs.values() if totals.run_id not in self.changed and totals.is_idle]
        for totals in sorted(idle, key=lambda totals: totals.last_activity_at)[: RUNS_LIMIT // 2]:
            del self.runs[totals.run_id]
        self._totals_by_name = {}
