"""The contract between workers and readers: Redis keys, record types, limits, and how records are read back.

Workers write and the site reads through this module alone. Instants are unix seconds (UTC, float), durations are
seconds (float). Redis is shared and its content is not trusted: `parse_*` take anything and either return a checked
record or raise `MalformedRecordError`; a field that can't be used is left out, a record whose essentials are missing
is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from workers_client import wire_values as values
from workers_client.codec import decode_object
from workers_client.exceptions import MalformedRecordError
from workers_client.quick_parse import quick_operation
from workers_client.wire_records import OpRecord as OpRecord
from workers_client.wire_records import Record as Record
from workers_client.wire_records import SampleFailure as SampleFailure
from workers_client.wire_records import SampleGroup as SampleGroup
from workers_client.wire_records import SampleRecord as SampleRecord
from workers_client.wire_records import TurnOp as TurnOp
from workers_client.wire_records import TurnRecord as TurnRecord
from workers_client.wire_records import encode as encode
from workers_client.wire_records import to_wire as to_wire

WIRE_VERSION = 1

# --- Limits ---------------------------------------------------------------------------------------------------
LIST_LIMIT = 2_000  # newest records a list keeps (operations, samples, turns, step times)
RUN_ID_LIMIT = 256  # characters
METRICS_LIMIT = values.METRICS_LIMIT
METRIC_NAME_LIMIT = values.METRIC_NAME_LIMIT
TURN_OPS_LIMIT = 64  # entries of one turn's `ops`
OUTSTANDING_LIMIT = 20  # entries of a worker's `outstanding`, and request ids in each
SETTING_VALUE_LIMIT = 256  # characters
WORD_LIMIT = 32  # characters of a worker's role or phase
WORKER_TTL_SECONDS = 24 * 3600  # a worker record lives this long after its last heartbeat
HEARTBEAT_INTERVAL_SECONDS = 5.0

# --- Keys -----------------------------------------------------------------------------------------------------
RUNS_KEY = "open_rl:runs"
WORKERS_KEY = "open_rl:workers"
WORKLOADS_KEY = "open_rl:workloads"
FLUSHED_CHANNEL = "open_rl:flushed"
OPERATIONS_KEY_PREFIX = "open_rl:operations:"
SAMPLES_KEY_SUFFIX = ":samples"


def operations_key(run_id: str) -> str:
    """Return the key of the list of a run's op records, newest last."""
    return f"{OPERATIONS_KEY_PREFIX}{run_id}"


def samples_key(run_id: str) -> str:
    """Return the key of the list of a run's failed-answer and group records, newest last."""
    return f"{OPERATIONS_KEY_PREFIX}{run_id}{SAMPLES_KEY_SUFFIX}"


def ledger_key(run_id: str) -> str:
    """Return the key of the hash that counts a run's requests."""
    return f"open_rl:ledger:{run_id}"


def steps_key(run_id: str) -> str:
    """Return the key of the number of successful `optim_step`s of a run."""
    return f"open_rl:steps:{run_id}"


def step_times_key(run_id: str) -> str:
    """Return the key of the list of instants at which a run's steps finished, newest last."""
    return f"open_rl:step_times:{run_id}"


def worker_key(worker: str) -> str:
    """Return the key of a worker's record."""
    return f"open_rl:worker:{worker}"


def turns_key(workload: str) -> str:
    """Return the key of the list of a workload's GPU turn records, newest last."""
    return f"open_rl:turns:{workload}"


def flush_guard_key(worker: str) -> str:
    """Return the key of the number of the newest flush applied for a worker; it expires as the worker record does."""
    return f"open_rl:flush:{worker}"


def queue_key(run_id: str) -> str:
    """Return the key of OpenRL's own command queue of a run; only its length is ever read."""
    return f"open_rl:queue:{run_id}"


# --- Vocabulary -----------------------------------------------------------------------------------------------
class _Word(str, Enum):
    """A fixed word of the contract; its text is its value on every supported Python."""

    __str__ = str.__str__


class Role(_Word):
    API_SERVER = "api_server"
    TRAINER = "trainer"
    SAMPLER = "sampler"
    DISPATCHER = "dispatcher"


class Status(_Word):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class SampleSource(_Word):
    DISPATCHER = "dispatcher"
    IN_PROCESS = "in_process"
    DEADLINE = "deadline"
    JOB_FAILURE = "job_failure"


class Phase(_Word):
    STARTING = "starting"
    IDLE = "idle"
    WAITING_FOR_GPU = "waiting_for_gpu"
    WAKING = "waking"
    RUNNING = "running"
    SAVING = "saving"
    SLEEPING = "sleeping"
    EXITING = "exiting"
    EXITED = "exited"


class DropReason(_Word):
    QUEUE_FULL = "queue_full"
    BYTES_FULL = "bytes_full"
    EXIT = "exit"
    REFUSED = "refused"


OPTIM_STEP = "optim_step"
FORWARD = "forward"
FORWARD_BACKWARD = "forward_backward"
SAMPLE = "sample"
# Ops that train: one of them after the newest `optim_step` opens the next step; others belong to the step before.
TRAINING_OPERATIONS = frozenset({FORWARD_BACKWARD, OPTIM_STEP})
SHUTDOWN_REQUEST_ID = "SHUTDOWN_SENTINEL"  # `shutdown_workers`: belongs to no run and is never counted
ENQUEUED_AT_ENTRY = "openrl-enqueued-at"  # the entry of a command's trace_context that holds its enqueue time
LEDGER_COUNTS = ("enqueued", "popped", "answered", "delivered", "failed", "recorded", "samples_recorded")
LEDGER_INSTANTS = ("last_enqueued_at", "last_popped_at", "last_answered_at", "last_delivered_at")
_RUN_ID_FIELDS = ("logical_run_id", "adapter_id", "lora_id", "model_id")
_REFERENCE_SCHEME = "tinker://"


# --- Run ids --------------------------------------------------------------------------------------------------
def run_id_of(command: Mapping[str, Any]) -> str | None:
    """Return the run a command or request belongs to, or None where it names none that is allowed.

    The first of `logical_run_id`, `adapter_id`, `lora_id`, `model_id` that the command has, in itself or in its
    `payload`; `tinker://<run>/…` means `<run>`. The command's own fields go before its payload's.
    """
    payload = command.get("payload")
    for name in _RUN_ID_FIELDS:
        for source in (command, payload):
            run_id = source.get(name) if isinstance(source, Mapping) else None
            if isinstance(run_id, str) and run_id:
                return checked_run_id(run_id)
    return None


def checked_run_id(run_id: str) -> str | None:
    """Collapse a `tinker://` reference and return the run id, or None where no run may be called so.

    A run id has 1 to 256 characters and does not end in `:samples`, which would collide with another run's list.
    """
    if run_id.startswith(_REFERENCE_SCHEME):
        run_id = run_id[len(_REFERENCE_SCHEME) :].split("/", 1)[0]
    return run_id if is_run_id(run_id) else None


def is_run_id(text: str) -> bool:
    """Return whether a run may be called so; others than this project's workers may use references as they are."""
    is_storable = values.text(text) == text  # neither NUL nor lone surrogates
    return len(text) <= RUN_ID_LIMIT and not text.endswith(SAMPLES_KEY_SUFFIX) and is_storable


# --- Reading --------------------------------------------------------------------------------------------------
def parse_operation(raw: bytes | str, *, run_id: str) -> OpRecord:
    """Check one element of a run's operations list. `run_id` is the run whose list it stands in.

    Raises:
        MalformedRecordError: not JSON, of another run, or without a usable operation, status or finish time.
    """
    quick = quick_operation(raw, run_id)
    if quick is not None:
        return quick
    fields = decode_object(raw)
    _require_run(fields, run_id)
    status = fields.get("status")
    if not isinstance(status, str) or status not in _STATUSES:
        raise MalformedRecordError("bad_status")
    get = fields.get
    nonfinite = values.merged_nonfinite(get("metrics"), get("nonfinite"))
    return OpRecord(
        run_id=run_id,
        operation=_required_text(fields, "operation"),
        status=status,
        at=_required_instant(fields, "at"),
        id=values.text(get("id")),
        request_id=values.text(get("request_id")),
        role=values.text(get("role")),
        worker=values.text(get("worker")),
        error_type=values.text(get("error_type")),
        error_category=values.text(get("error_category")),
        enqueued_at=values.instant(get("enqueued_at")),
        queue_seconds=values.duration(get("queue_seconds")),
        started_at=values.instant(get("started_at")),
        elapsed_seconds=values.duration(get("elapsed_seconds")),
        step=values.count(get("step")),
        metrics=values.metrics(get("metrics"), without=nonfinite),
        nonfinite=nonfinite,
        tokens=values.count(get("tokens")),
        datums=values.count(get("datums")),
        batch=values.text(get("batch")),
        trace_id=values.text(get("trace_id")),
        span_id=values.text(get("span_id")),
        pod=values.text(get("pod")),
        pod_uid=values.text(get("pod_uid")),
        node=values.text(get("node")),
        runtime_id=values.text(get("runtime_id")),
    )


def parse_sample(raw: bytes | str, *, run_id: str) -> SampleRecord:
    """Check one element of a run's samples list.

    An in-process `sample` op of a trainer stands there too: it reads as a group of one, or as a failure.

    Raises:
        MalformedRecordError: not JSON, of another run, or neither a failure, a group nor a sample op.
    """
    fields = decode_object(raw)
    _require_run(fields, run_id)
    kind = fields.get("kind")
    if kind == "failure":
        return _sample_failure(fields, run_id, accepted_at=fields.get("accepted_at"), source=fields.get("source"))
    if kind == "group":
        return _sample_group(fields, run_id)
    if kind is None and fields.get("operation") == SAMPLE:
        return _sample_of_op(fields, run_id)
    raise MalformedRecordError("bad_kind")


def parse_turn(raw: bytes | str, *, workload: str) -> TurnRecord:
    """Check one element of a workload's turns list; ops that can't be used are left out, 64 at most are kept.

    Raises:
        MalformedRecordError: not JSON, of another workload, or without usable start and end.
    """
    fields = decode_object(raw)
    if fields.get("workload", workload) != workload:
        raise MalformedRecordError("other_workload")
    ops = fields.get("ops")
    parsed = (_turn_op(op) for op in (ops[:TURN_OPS_LIMIT] if isinstance(ops, list) else ()))
    return TurnRecord(
        workload=workload,
        started_at=_required_instant(fields, "started_at"),
        at=_required_instant(fields, "at"),
        id=values.text(fields.get("id")),
        role=values.text(fields.get("role")),
        worker=values.text(fields.get("worker")),
        runtime_id=values.text(fields.get("runtime_id")),
        node=values.text(fields.get("node")),
        pod_uid=values.text(fields.get("pod_uid")),
        requested_at=values.instant(fields.get("requested_at")),
        ops=tuple(op for op in parsed if op is not None),
    )


_STATUSES = frozenset(status.value for status in Status)


def _require_run(fields: Mapping[str, Any], run_id: str) -> None:
    if fields.get("run_id", run_id) != run_id:
        raise MalformedRecordError("other_run")


def _required_text(fields: Mapping[str, Any], name: str) -> str:
    value = values.text(fields.get(name))
    if value is None:
        raise MalformedRecordError(f"bad_{name}")
    return value


def _required_instant(fields: Mapping[str, Any], name: str) -> float:
    value = values.instant(fields.get(name))
    if value is None:
        raise MalformedRecordError(f"bad_{name}")
    return value


def _sample_failure(fields: Mapping[str, Any], run_id: str, *, accepted_at: Any, source: Any) -> SampleFailure:
    return SampleFailure(
        run_id=run_id,
        at=_required_instant(fields, "at"),
        id=values.text(fields.get("id")),
        request_id=values.text(fields.get("request_id")),
        worker=values.text(fields.get("worker")),
        source=values.text(source),
        accepted_at=values.instant(accepted_at),
        error_type=values.text(fields.get("error_type")),
    )


def _sample_group(fields: Mapping[str, Any], run_id: str) -> SampleGroup:
    count = values.count(fields.get("count"))
    if not count:
        raise MalformedRecordError("bad_count")
    return SampleGroup(
        run_id=run_id,
        at=_required_instant(fields, "at"),
        count=count,
        id=values.text(fields.get("id")),
        worker=values.text(fields.get("worker")),
        first_accepted_at=values.instant(fields.get("first_accepted_at")),
        first_answered_at=values.instant(fields.get("first_answered_at")),
        seconds_sum=values.duration(fields.get("seconds_sum")),
        seconds_max=values.duration(fields.get("seconds_max")),
        tokens_sum=values.count(fields.get("tokens_sum")),
        busy_seconds=values.duration(fields.get("busy_seconds")),
    )


def _sample_of_op(fields: Mapping[str, Any], run_id: str) -> SampleRecord:
    status = fields.get("status")
    accepted_at = fields.get("enqueued_at", fields.get("started_at"))
    if status == Status.FAILED.value:
        return _sample_failure(fields, run_id, accepted_at=accepted_at, source=SampleSource.IN_PROCESS.value)
    if status != Status.SUCCEEDED.value:
        raise MalformedRecordError("bad_status")
    at = _required_instant(fields, "at")
    accepted = values.instant(accepted_at)
    seconds = None if accepted is None else max(0.0, at - accepted)
    return SampleGroup(
        run_id=run_id,
        at=at,
        count=1,
        id=values.text(fields.get("id")),
        worker=values.text(fields.get("worker")),
        first_accepted_at=accepted,
        first_answered_at=at,
        seconds_sum=seconds,
        seconds_max=seconds,
        tokens_sum=values.count(fields.get("tokens")),
        busy_seconds=values.duration(fields.get("elapsed_seconds")),
    )


def _turn_op(op: Any) -> TurnOp | None:
    if not isinstance(op, Mapping):
        return None
    name, start, end = values.text(op.get("name")), values.instant(op.get("start")), values.instant(op.get("end"))
    if name is None or start is None or end is None:
        return None
    return TurnOp(
        name=name,
        start=start,
        end=end,
        count=values.count(op.get("count")) or 1,
        status=values.text(op.get("status")),
        run_id=values.text(op.get("run_id")),
        request_id=values.text(op.get("request_id")),
    )
