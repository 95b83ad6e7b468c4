"""JSON in and out: msgspec where it is installed (ten times faster), the standard library otherwise.

Both write the same compact UTF-8. Writing refuses NaN and infinities, which JSON does not have; reading takes the bare
`NaN` and `Infinity` that other writers let through, so that a record is not lost for one of them.
"""

from __future__ import annotations

import json
from typing import Any

from workers_client.exceptions import MalformedRecordError

try:
    import msgspec
except ImportError:  # the client's one dependency is redis-py
    msgspec = None  # type: ignore[assignment]

__all__ = ["decode_object", "encode_object"]


def _encode_with_json(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


_encode = _encode_with_json if msgspec is None else msgspec.json.Encoder().encode
_decode = None if msgspec is None else msgspec.json.Decoder().decode


def encode_object(fields: dict[str, Any]) -> bytes:
    """Encode a JSON object compactly. Non-finite floats must not be in it: they raise or become null."""
    return _encode(fields)


def decode_object(raw: bytes | str) -> dict[str, Any]:
    """Decode one JSON object.

    Raises:
        MalformedRecordError: not JSON (`not_json`) or JSON of another type (`not_an_object`).
    """
    value = _decode_any(raw)
    if not isinstance(value, dict):
        raise MalformedRecordError("not_an_object")
    return value


def _decode_any(raw: bytes | str) -> Any:
    if _decode is not None:
        try:
            return _decode(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            pass  # numbers beyond a double and bare NaN: the standard library takes them
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise MalformedRecordError("not_json") from None
