"""What the hooks read of a command, a request or a result. Anything may be missing or nonsense."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from workers_client import wire
from workers_client.wire_values import LAST_INSTANT, TEXT_LIMIT, instant, text

FAILURE_TYPE = "RequestFailedResponse"
ENVELOPE_SIZE = 5  # entries of OpenRL's envelope: op, request_id, model_id, trace_context, payload


class CommandIds(NamedTuple):
    """The small part of a command that is kept: its payload may be megabytes and is never held."""

    request_id: Any
    operation: Any
    run: Any
    trace_context: Any = None


class ErrorWords(NamedTuple):
    """How an op ended that did not succeed: a status, the error's class name and, where said, `user` or `server`.
    Never a message, which may hold a payload or a secret."""

    status: str
    error_type: str
    error_category: str | None = None


def command_ids(command: Any) -> CommandIds:
    """Return what is kept of a command, a mapping or an object.

    Raises:
        ValueError: the command names no run that is allowed, or no request.
    """
    if not isinstance(command, Mapping):
        command = {name: getattr(command, name) for name in _COMMAND_FIELDS if hasattr(command, name)}
    request_id = command.get("request_id")
    run_id = wire.run_id_of(command)
    if not isinstance(request_id, str) or not 0 < len(request_id) <= TEXT_LIMIT:
        raise ValueError("a command needs a request id")
    if run_id is None and request_id != wire.SHUTDOWN_REQUEST_ID:
        raise ValueError("a command needs a run id")
    return CommandIds(request_id, _operation(command), run_id, command.get("trace_context"))


def held_trace(trace_context: Any) -> tuple[float | None, str | None] | None:
    """Return what a record takes from a command's trace context: when it was enqueued, and its `traceparent`.

    The rest, as baggage, is of any size.
    """
    if type(trace_context) is not dict and not isinstance(trace_context, Mapping):
        return None
    stamp, parent = trace_context.get(wire.ENQUEUED_AT_ENTRY), trace_context.get("traceparent")
    is_parent = isinstance(parent, str) and len(parent) <= _TRACEPARENT_LIMIT
    return None if stamp is None else _stamp(stamp), parent if is_parent else None


def add_trace(fields: dict[str, Any], trace: tuple[float | None, str | None], started_at: float) -> None:
    """Add to a record what `held_trace` kept: queue time and trace."""
    enqueued_at, parent = trace
    if enqueued_at is not None:
        fields["enqueued_at"] = enqueued_at
        fields["queue_seconds"] = max(0.0, int((started_at - enqueued_at) * 1e6) / 1e6)
    if parent is not None:
        parts = parent.split("-")
        if len(parts) >= 4 and len(parts[1]) == 32 and len(parts[2]) == 16 and parent.isascii():  # W3C Trace Context
            fields["trace_id"], fields["span_id"] = parts[1], parts[2]


def failure_of(result: Any) -> ErrorWords | None:
    """Return how a result failed, or None where it is no failure; results are mappings, objects or exceptions."""
    if isinstance(result, BaseException):
        return ErrorWords(wire.Status.FAILED.value, type(result).__name__)
    if attribute(result, "type") != FAILURE_TYPE and type(result).__name__ != FAILURE_TYPE:
        return None
    error_type = text(attribute(result, "error_type")) or FAILURE_TYPE
    category = text(attribute(result, "error_category")) or text(attribute(result, "category"))
    return ErrorWords(wire.Status.FAILED.value, error_type, category)


def is_result(value: Any) -> bool:
    """Return whether a value can be a worker's result: a mapping, an object with a type, an exception, or None."""
    return value is None or isinstance(value, (Mapping, BaseException)) or hasattr(value, "type")


def tokens_of(result: Any) -> int:
    """Return how many tokens a sampling result holds, over its sequences."""
    sequences = attribute(result, "sequences")
    if not isinstance(sequences, (list, tuple)):
        return 0
    found = (attribute(item, "tokens") for item in sequences)
    return sum(len(tokens) for tokens in found if hasattr(tokens, "__len__"))


def accepted_at_of(request: Any) -> float | None:
    """Return when a sampling request was accepted, where it says so."""
    return _stamp(attribute(request, "accepted_at"))


def attribute(source: Any, name: str) -> Any:
    """Return an entry of a mapping or an attribute of an object, None where there is none."""
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


_COMMAND_FIELDS = (
    "request_id", "op", "operation", "model_id", "trace_context", "payload", "logical_run_id", "adapter_id", "lora_id",
    "forward_only",
)  # fmt: skip
_STAMP_LIMIT = 32  # characters
_TRACEPARENT_LIMIT = 128  # characters; 55 in version 00


def _operation(command: Mapping[str, Any]) -> str:
    operation = text(command.get("op")) or text(command.get("operation")) or "unknown"
    if operation == wire.FORWARD_BACKWARD and _is_forward_only(command):
        return wire.FORWARD
    return operation


def _is_forward_only(command: Mapping[str, Any]) -> bool:
    payload = command.get("payload")
    return any(isinstance(source, Mapping) and source.get("forward_only") is True for source in (command, payload))


def _stamp(value: Any) -> float | None:
    """Return the unix time of a stamp: trace_context maps strings to strings."""
    if type(value) is str and len(value) <= _STAMP_LIMIT:
        try:
            at = float(value)
        except ValueError:
            return None
        return at if 0 < at <= LAST_INSTANT else None
    return instant(value)
