"""Commands as OpenRL writes them, `{request_id, op, payload, model_id, trace_context}`, and their results."""

from __future__ import annotations

import json
import secrets
import uuid
from typing import Any

Command = dict[str, Any]
Result = dict[str, Any]

FAILED = "RequestFailedResponse"


def new_command(operation: str, model_id: str, payload: dict[str, Any]) -> Command:
    """Return a command with a request id and a W3C trace of its own."""
    traceparent = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
    return {
        "request_id": str(uuid.uuid4()),
        "op": operation,
        "payload": payload,
        "model_id": model_id,
        "trace_context": {"traceparent": traceparent},
    }


def is_command(message: dict[str, Any]) -> bool:
    """Say whether a message can be answered: a bad one must not take its batch down with it."""
    return all(isinstance(message.get(name), str) for name in ("request_id", "op", "model_id"))


def failed_result(message: str, *, category: str = "server") -> Result:
    """Return the answer of a request that failed; `category` is "user" where the request itself was at fault."""
    return {"type": FAILED, "error_message": message, "category": category}


def has_failed(result: Result) -> bool:
    """Say whether a result is a failure."""
    return result.get("type") == FAILED


def encode(message: dict[str, Any]) -> str:
    """Return compact JSON.

    Raises:
        ValueError: a number in it is not finite, which JSON has no word for.
    """
    return json.dumps(message, separators=(",", ":"), allow_nan=False)


def decode(raw: bytes | str) -> dict[str, Any] | None:
    """Return the message, or None where it is not a JSON object: one bad message must not stop a worker."""
    try:
        message = json.loads(raw)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
