"""JSON in and out: msgspec where it is installed (ten times faster), the standard library otherwise.

Both write the same compact UTF-8. Writing refuses NaN and infinities, which JSON does not have; reading takes the bare
`NaN` and `Infinity` that other writers let through, so that a record is not lost for one of them.
"""

from __future__ import annotations

from typing import Any

from workers_client.exceptions import MalformedRecordError

__all__ = ["decode_object", "encode_object"]


def _encode_with_json(fields: Any) -> bytes:
    import json  # loaded where msgspec is not installed, or meets what it does not take

    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _decode_with_json(raw: bytes | str) -> Any:
    import json  # as above

    return json.loads(raw)


def _load_msgspec() -> Any:
    """Return msgspec, or None: the client's one dependency is redis-py. Loaded late: it takes longer than the rest."""
    try:
        import msgspec
    except ImportError:
        return None
    return msgspec


def _encode(fields: Any) -> bytes:
    """Stand in for the encoder until the first call."""
    global _encode
    msgspec = _load_msgspec()
    _encode = _encode_with_json if msgspec is None else msgspec.json.Encoder().encode
    return _encode(fields)


def _decode(raw: bytes | str) -> Any:
    """Stand in for the fast decoder until the first call; raises ValueError where there is none."""
    global _decode
    msgspec = _load_msgspec()
    _decode = _decode_with_json if msgspec is None else msgspec.json.Decoder().decode
    return _decode(raw)


def encode_object(fields: Any) -> bytes:
    """Encode a JSON object, or a list of them, compactly.

    Non-finite floats must not be in it: they raise or become null."""
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
    try:
        return _decode(raw)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        pass  # numbers beyond a double and bare NaN: the standard library takes them
    try:
        return _decode_with_json(raw)
    except (ValueError, RecursionError):
        raise MalformedRecordError("not_json") from None
