"""Where a page ended, as an opaque word that belongs to its query: one from another filter is refused."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Any

from django.http import QueryDict

from telemetry_app.exceptions import InvalidQueryError
from workers_client import wire_values as values


def encode_cursor(position: list[Any], *, path: str, query: QueryDict) -> str:
    """Return the cursor of a position (JSON values) in one query."""
    content = json.dumps([_fingerprint(path, query), *position], separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(content.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def decode_cursor(raw: str, *, path: str, query: QueryDict, types: tuple[type | tuple[type, ...], ...]) -> list[Any]:
    """Return the position that a cursor holds, each value of its type.

    Raises:
        InvalidQueryError: it is no cursor, or belongs to another query.
    """
    try:
        content = json.loads(base64.urlsafe_b64decode(raw.encode() + b"=" * (-len(raw) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        content = None
    is_position = isinstance(content, list) and len(content) == len(types) + 1
    if not is_position or not all(map(isinstance, content[1:], types)) or not all(map(_is_storable, content[1:])):
        raise InvalidQueryError("cursor", "cursor is not one that this endpoint gave.")
    if content[0] != _fingerprint(path, query):
        raise InvalidQueryError("cursor", "cursor belongs to a query with other filters; start from the first page.")
    return list(content[1:])


def _is_storable(value: Any) -> bool:
    """Whether a value can be compared in a query: a finite number, or a text without NUL and lone surrogates."""
    if isinstance(value, str):
        return "\x00" not in value and value.encode("utf-8", "replace").decode() == value
    return values.number(value) is not None


def _fingerprint(path: str, query: QueryDict) -> str:
    """Name a query but for its paging."""
    filters = sorted((name, query.getlist(name)) for name in query if name not in ("cursor", "page_size"))
    return hashlib.blake2b(json.dumps([path, filters]).encode(), digest_size=6).hexdigest()
