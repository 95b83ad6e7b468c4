"""What the hooks read of a command, a request or a result. Anything may be missing or nonsense."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from workers_client import wire
from workers_client.wire_values import instant, text

FAILURE_TYPE = "RequestFailedResponse"
# Fields and values by which a command says that it is forward-only.
_FORWARD_ONLY = ("forward_only", "is_forward_only")


class CommandIds(NamedTuple):
    """The small part of a command that is kept: its payload may be megabytes and is never held."""

    run_id: str
    request_id: str
    operation: str
    trace_context: Any


class ErrorWords(NamedTuple):
    """How an op ended that did not succeed: a status, the error's class name and, where said, `user` or `server`.
    Never a message, which may hold a payload or a secret."""

    status: str
    error_type: str
    error_category: str | None = None


def command_ids(command: Any) -> CommandIds | None:
    """Return what is kept of a command, or None for the shutdown sentinel, which belongs to no run.

    Raises:
        ValueError: the command names no run that is allowed, or no request.
    """
    get = command.get
    request_id = get("request_id")
    if request_id == wire.SHUTDOWN_REQUEST_ID:
        return None
    run_id = wire.run_id_of(command)
    if run_id is None or not isinstance(request_id, str) or not request_id:
        raise ValueError("a command needs a run id and a request id")
    return CommandIds(run_id, request_id, _operation(command), get("trace_context"))


def command_fields(command: CommandIds, started_at: float) -> dict[str, Any]:
    """Return the fields of a record that come from the command: ids, queue time, trace."""
    fields: dict[str, Any] = {"operation": command.operation, "request_id": command.request_id}
    context = command.trace_context if isinstance(command.trace_context, Mapping) else {}
    enqueued_at = _stamp(context.get(wire.ENQUEUED_AT_ENTRY))
    if enqueued_at is not None:
        fields["enqueued_at"] = enqueued_at
        fields["queue_seconds"] = max(0.0, started_at - enqueued_at)
    parent = context.get("traceparent")
    parts = parent.split("-") if isinstance(parent, str) else []
    if len(parts) >= 4 and len(parts[1]) == 32 and len(parts[2]) == 16:  # W3C Trace Context, version 00
        fields["trace_id"], fields["span_id"] = parts[1], parts[2]
    return fields


def failure_of(result: Any) -> ErrorWords | None:
    """Return how a result failed, or None where it is no failure; results are mappings or objects."""
    kind = _attribute(result, "type")
    if kind != FAILURE_TYPE and type(result).__name__ != FAILURE_TYPE:
        return None
    error_type = text(_attribute(result, "error_type")) or FAILURE_TYPE
    category = text(_attribute(result, "error_category") or _attribute(result, "category"))
    return ErrorWords(wire.Status.FAILED.value, error_type, category)


def metrics_of(result: Any) -> dict[str, Any] | None:
    """Return a copy of a result's metrics, or None where it has none."""
    metrics = _attribute(result, "metrics")
    return dict(metrics) if isinstance(metrics, Mapping) else None


def tokens_of(result: Any) -> int:
    """Return how many tokens a sampling result holds, over its sequences."""
    sequences = _attribute(result, "sequences")
    if not isinstance(sequences, (list, tuple)):
        return 0
    return sum(
        len(tokens) for tokens in (_attribute(item, "tokens") for item in sequences) if hasattr(tokens, "__len__")
    )


def accepted_at_of(request: Any) -> float | None:
    """Return when a sampling request was accepted, where it says so."""
    return instant(_attribute(request, "accepted_at")) or _stamp(_attribute(request, "accepted_at"))


def without_nothing(**fields: Any) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _operation(command: Mapping[str, Any]) -> str:
    operation = text(command.get("op")) or text(command.get("operation")) or "unknown"
    if operation == wire.FORWARD_BACKWARD and _is_forward_only(command):
        return wire.FORWARD
    return operation


def _is_forward_only(command: Mapping[str, Any]) -> bool:
    payload = command.get("payload")
    sources = (command, payload) if isinstance(payload, Mapping) else (command,)
    return any(source.get(name) is True for source in sources for name in _FORWARD_ONLY)


def _stamp(value: Any) -> float | None:
    """Return the unix time of a stamp: trace_context maps strings to strings."""
    if isinstance(value, str) and len(value) <= 32:
        try:
            return instant(float(value))
        except ValueError:
            return None
    return instant(value)


def _attribute(source: Any, name: str) -> Any:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
