"""The fold: events of the hooks become totals, outstanding requests and records.

Runs under the recorder's fold lock, in the flush thread (or in whoever asks for `stats`). Nothing here waits.
Totals (the ledger, the step counts) are folded and never dropped; records go to the buffer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from workers_client import buffer, wire
from workers_client.buffer import Pending, RecordBuffer, estimate_bytes
from workers_client.codec import encode_object
from workers_client.commands import CommandIds, ErrorWords, command_fields, without_nothing
from workers_client.metrics import kind_of, plain_number
from workers_client.sampling import SamplingWindow

HELD_REQUESTS = 100_000  # open requests remembered of each kind: more than any worker holds, and bounded
REMEMBERED_IDS = 200_000  # request ids remembered so that each counts once

# Events are tuples that start with one of these words; hooks append nothing else.
ENQUEUED = "enqueued"
POPPED = "popped"
OP = "op"
ANSWERED = "answered"
DELIVERED = "delivered"
SAMPLE_ACCEPTED = "sample_accepted"
SAMPLE_ANSWERED = "sample_answered"
TURN = "turn"


@dataclass
class OpenRequest:
    """A request this worker holds unanswered, since `since` (unix seconds)."""

    run_id: str
    operation: str
    since: float


@dataclass
class RunTotals:
    """What is counted of one run and not yet acknowledged by Redis, and the run's steps as this worker knows them.

    `steps_base` is the run's count when this worker first asked; None until then, and its records wait.
    """

    counts: dict[str, int] = field(default_factory=dict)
    instants: dict[str, float] = field(default_factory=dict)
    steps_base: int | None = None
    steps_own: int = 0  # successful optim_steps of this worker
    steps_known: int = 0  # the highest count Redis ever told
    step_times: list[float] = field(default_factory=list)
    last_activity_at: float = 0.0
    sampling: SamplingWindow = field(default_factory=SamplingWindow)

    def count(self, name: str, at: float) -> None:
        """Count one request and keep the newest instant."""
        self.counts[name] = self.counts.get(name, 0) + 1
        instant = f"last_{name}_at"
        if instant in wire.LEDGER_INSTANTS:
            self.instants[instant] = max(self.instants.get(instant, 0.0), at)
        self.last_activity_at = max(self.last_activity_at, at)


class RecentIds:
    """The newest ids seen, so that each counts once; the oldest are forgotten."""

    def __init__(self, limit: int = REMEMBERED_IDS) -> None:
        self._ids: OrderedDict[Any, None] = OrderedDict()
        self._limit = limit

    def add(self, key: Any) -> bool:
        """Remember an id; False where it was there already."""
        if key in self._ids:
            return False
        self._ids[key] = None
        if len(self._ids) > self._limit:
            self._ids.popitem(last=False)
        return True

    def __contains__(self, key: Any) -> bool:
        return key in self._ids


class Fold:
    """All that one worker knows: totals by run, open requests, and the buffer of records."""

    def __init__(self, worker: str, records: RecordBuffer) -> None:
        self.worker = worker
        self.records = records
        self.runs: dict[str, RunTotals] = {}
        self.open_requests: dict[str, OpenRequest] = {}
        self.undelivered: dict[str, OpenRequest] = {}  # enqueued here and not delivered: an API server's own list
        self.last_progress_at: float | None = None
        self.turn_totals: dict[str, float] = {}
        self.workload_times: dict[str, float] = {}  # newest turn of each workload that no flush has taken yet
        self._numbers = 0
        self._enqueued, self._popped, self._answered = RecentIds(), RecentIds(), RecentIds()
        self._delivered, self._ran = RecentIds(), RecentIds()
        self._handlers: dict[str, Callable[..., None]] = {
            ENQUEUED: self._enqueue,
            POPPED: self._pop,
            OP: self._op,
            ANSWERED: self._answer,
            DELIVERED: self._deliver,
            SAMPLE_ACCEPTED: self._accept_sample,
            SAMPLE_ANSWERED: self._answer_sample,
            TURN: self._turn,
        }

    def apply(self, event: tuple[Any, ...]) -> None:
        """Fold one event. Raises whatever nonsense in it raises; the caller counts that."""
        self._handlers[event[0]](*event[1:])

    def run(self, run_id: str) -> RunTotals:
        """Return the totals of a run, made at first sight."""
        totals = self.runs.get(run_id)
        if totals is None:
            totals = self.runs[run_id] = RunTotals()
        return totals

    def close_sampling_windows(self, now: float) -> None:
        """Make one group record for each run whose sampling requests were answered since the last flush."""
        for run_id, totals in self.runs.items():
            group = totals.sampling.close(now)
            if group is not None:
                self._keep(buffer.SAMPLE_GROUP, wire.samples_key(run_id), {"run_id": run_id, **group}, run_id)

    # --- The ledger -------------------------------------------------------------------------------------------
    def _enqueue(self, command: CommandIds, at: float) -> None:
        if self._enqueued.add(command.request_id):
            self.run(command.run_id).count("enqueued", at)
            _hold(self.undelivered, command.request_id, OpenRequest(command.run_id, command.operation, at))

    def _pop(self, command: CommandIds, at: float) -> None:
        if self._popped.add(command.request_id):
            self.run(command.run_id).count("popped", at)
            _hold(self.open_requests, command.request_id, OpenRequest(command.run_id, command.operation, at))

    def _answer(self, role: str, command: CommandIds, at: float, error: ErrorWords | None) -> None:
        self.open_requests.pop(command.request_id, None)
        if not self._answered.add(command.request_id):
            return
        self.run(command.run_id).count("answered", at)
        self.last_progress_at = at
        if error is not None and command.request_id not in self._ran:
            self._finish(command.run_id, {**command_fields(command, at), "role": role, "at": at}, error)

    def _deliver(self, request_id: str, at: float) -> None:
        request = self.undelivered.pop(request_id, None)
        if request is not None and self._delivered.add(request_id):
            self.run(request.run_id).count("delivered", at)

    # --- Records ----------------------------------------------------------------------------------------------
    def _op(
        self, role: str, command: CommandIds, started_at: float, at: float, elapsed_seconds: float,
        error: ErrorWords | None, metrics: dict[str, Any] | None, replaced: dict[str, str] | None,
        work: tuple[Any, Any, Any],
    ) -> None:  # fmt: skip
        """Fold one op that ran. `error` is None of success; `work` is tokens, datums and batch."""
        fields = command_fields(command, started_at)
        fields["role"] = role
        fields["at"] = at
        fields["started_at"] = started_at
        fields["elapsed_seconds"] = elapsed_seconds
        tokens, datums, batch = work
        fields.update(without_nothing(tokens=tokens, datums=datums, batch=None if batch is None else str(batch)))
        self._finish(command.run_id, fields, error, metrics, replaced)

    def _finish(
        self, run_id: str, fields: dict[str, Any], error: ErrorWords | None,
        metrics: dict[str, Any] | None = None, replaced: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Count a finished op and keep its record."""
        at, status = fields["at"], wire.Status.SUCCEEDED.value
        if error is not None:
            status = error.status
            fields.update(without_nothing(error_type=error.error_type, error_category=error.error_category))
        fields["status"] = status
        self._ran.add(fields.get("request_id"))
        totals = self.run(run_id)
        totals.last_activity_at = max(totals.last_activity_at, at)
        self.last_progress_at = at
        failed = status == wire.Status.FAILED.value
        if failed:
            totals.counts["failed"] = totals.counts.get("failed", 0) + 1
        if fields["operation"] == wire.SAMPLE:
            if status != wire.Status.CANCELLED.value:
                self._in_process_sample(run_id, fields, failed=failed)
            return
        own_step = totals.steps_own
        if fields["operation"] == wire.OPTIM_STEP and status == wire.Status.SUCCEEDED.value:
            totals.steps_own += 1
            totals.step_times.append(at)
        totals.counts["recorded"] = totals.counts.get("recorded", 0) + 1
        finite, nonfinite = _split_metrics(metrics, replaced)
        fields.update(without_nothing(metrics=finite or None, nonfinite=nonfinite or None))
        record = {"id": self._next_id(), "run_id": run_id, "worker": self.worker, **fields}
        kind = buffer.FAILURE if failed else buffer.OPERATION
        encode = partial(_encode_op, record, totals, own_step)
        self.records.add(Pending(kind, wire.operations_key(run_id), encode, estimate_bytes(finite), run_id))

    def _in_process_sample(self, run_id: str, fields: dict[str, Any], *, failed: bool) -> None:
        accepted_at = fields.get("enqueued_at") or fields.get("started_at") or fields["at"]
        self._count_sample(
            run_id, str(fields.get("request_id")), accepted_at, fields["at"],
            error_type=fields.get("error_type", "Exception") if failed else None,
            tokens=fields.get("tokens") or 0, source=wire.SampleSource.IN_PROCESS.value,
        )  # fmt: skip

    def _accept_sample(self, run_id: str, request_id: str, accepted_at: float, at: float) -> None:
        if request_id in self.open_requests:
            return
        _hold(self.open_requests, request_id, OpenRequest(run_id, wire.SAMPLE, accepted_at))
        totals = self.run(run_id)
        totals.sampling.accept(at)
        totals.last_activity_at = max(totals.last_activity_at, at)

    def _answer_sample(
        self, run_id: str, request_id: str, accepted_at: float | None, at: float,
        outcome: tuple[str | None, int], source: str,
    ) -> None:  # fmt: skip
        if not self._answered.add(("sample", request_id)):
            return
        was_open = self.open_requests.pop(request_id, None)
        if was_open is not None:
            self.run(run_id).sampling.release(at)
        error_type, tokens = outcome
        since = accepted_at if accepted_at is not None else (was_open.since if was_open else None)
        self._count_sample(run_id, request_id, since, at, error_type=error_type, tokens=tokens, source=source)

    def _count_sample(
        self, run_id: str, request_id: str, accepted_at: float | None, at: float,
        *, error_type: str | None, tokens: int, source: str,
    ) -> None:  # fmt: skip
        totals = self.run(run_id)
        totals.last_activity_at = max(totals.last_activity_at, at)
        self.last_progress_at = at
        if error_type is None:
            totals.sampling.answer(accepted_at, at, tokens)
            return
        failure = {
            "run_id": run_id, "kind": "failure", "request_id": request_id, "source": source, "at": at,
            "error_type": error_type, **({} if accepted_at is None else {"accepted_at": accepted_at}),
        }  # fmt: skip
        self._keep(buffer.SAMPLE_FAILURE, wire.samples_key(run_id), failure, run_id)

    def _turn(self, workload: str, fields: dict[str, Any], seconds: dict[str, float]) -> None:
        for name, value in seconds.items():
            self.turn_totals[name] = self.turn_totals.get(name, 0) + value
        self.workload_times[workload] = max(self.workload_times.get(workload, 0.0), fields["at"])
        record = {"operation": "gpu_turn", "workload": workload, **fields}
        self._keep(buffer.GPU_TURN, wire.turns_key(workload), record, None)

    def _keep(self, kind: str, key: str, record: dict[str, Any], run_id: str | None) -> None:
        """Number a record and give it to the buffer."""
        if run_id is not None:
            counts = self.run(run_id).counts
            counts["samples_recorded"] = counts.get("samples_recorded", 0) + 1
        full = {"id": self._next_id(), "worker": self.worker, **record}
        self.records.add(Pending(kind, key, partial(encode_object, full), 600, run_id))

    def _next_id(self) -> str:
        """Return the id of the next record: numbers count from 1, so that dropped ones leave gaps to be seen."""
        self._numbers += 1
        return f"{self.worker}:{self._numbers}"


def _hold(requests: dict[str, OpenRequest], request_id: str, request: OpenRequest) -> None:
    """Remember an open request; of too many the oldest is forgotten, and stays in the ledger alone."""
    requests[request_id] = request
    if len(requests) > HELD_REQUESTS:
        del requests[next(iter(requests))]


def _encode_op(record: dict[str, Any], totals: RunTotals, own_step: int) -> bytes:
    """Encode an op record once the run's step base is known: its step is the base and the worker's own steps before."""
    return encode_object({**record, "step": (totals.steps_base or 0) + own_step})


def _split_metrics(
    metrics: dict[str, Any] | None, replaced: dict[str, str] | None
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the finite metrics, and the kinds of the others; a stand-in told by `sanitize_metrics` is no value."""
    finite: dict[str, float] = {}
    nonfinite: dict[str, str] = dict(replaced or {})
    for name, value in (metrics or {}).items():
        if not isinstance(name, str) or not 0 < len(name) <= wire.METRIC_NAME_LIMIT or name in nonfinite:
            continue
        number = plain_number(value)
        if number is None:
            continue
        kind = kind_of(number)
        if kind is not None:
            nonfinite[name] = kind
        elif len(finite) < wire.METRICS_LIMIT:
            finite[name] = number
    return finite, nonfinite
