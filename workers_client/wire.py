"""The contract between workers and readers: Redis keys, record types, limits, and how records are read back.

Workers write and the site reads through this module alone. Instants are unix seconds (UTC, float), durations are
seconds (float). Redis is shared and its content is not trusted: `parse_*` take anything and either return a checked
record or raise `MalformedRecordError`; a field that can't be used is left out, a record whose essentials are missing
is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from workers_client import wire_values as values

if TYPE_CHECKING:
    from workers_client.wire_parse import parse_operation as parse_operation
    from workers_client.wire_parse import parse_operations as parse_operations
    from workers_client.wire_parse import parse_sample as parse_sample
    from workers_client.wire_parse import parse_turn as parse_turn
    from workers_client.wire_records import OpRecord as OpRecord
    from workers_client.wire_records import Record as Record
    from workers_client.wire_records import SampleFailure as SampleFailure
    from workers_client.wire_records import SampleGroup as SampleGroup
    from workers_client.wire_records import SampleRecord as SampleRecord
    from workers_client.wire_records import TurnOp as TurnOp
    from workers_client.wire_records import TurnRecord as TurnRecord
    from workers_client.wire_records import encode as encode
    from workers_client.wire_records import to_wire as to_wire
else:

    def __getattr__(name: str) -> Any:
        """Load what readers alone need when one asks for it: it takes as long to import as a worker's whole part."""
        if not name.startswith("_"):
            from workers_client import wire_parse, wire_records

            for module in (wire_parse, wire_records):
                if name in vars(module):
                    return globals().setdefault(name, vars(module)[name])
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
