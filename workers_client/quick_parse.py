"""The common op record, read several times faster: typed decoding, then a few checks over the whole record.

What is not common (a field of another writer, a text that can't be kept as it is, a number of another type, a
non-finite metric) is left to `wire.parse_operation`, which checks field by field. Both give the same record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from itertools import starmap
from typing import Annotated, Any, Literal, Optional

from workers_client.wire_records import OpRecord
from workers_client.wire_values import COUNT_LIMIT, LAST_INSTANT, METRIC_NAME_LIMIT, METRICS_LIMIT, TEXT_LIMIT

# The fields of our own workers' records; they come first in `OpRecord`.
_NAMES = [field.name for field in fields(OpRecord)][:22]
_KNOWN_NAMES_LIMIT = 4_096
_ELEMENTS_AT_ONCE = 100  # what is made of so many fits into a processor's own cache
_known_names: set[str] = set()  # metric names that were found good
_INSTANTS = [_NAMES.index(name) for name in ("at", "started_at", "enqueued_at")]
_RUN_ID, _METRICS, _NONFINITE = map(_NAMES.index, ("run_id", "metrics", "nonfinite"))
_decode: Callable[[bytes | str], Any] | None = None
_decode_lines: Callable[[bytes], list[Any]] | None = None
_astuple: Callable[[Any], tuple[Any, ...]] = tuple


def quick_operation(raw: bytes | str, run_id: str) -> OpRecord | None:
    """Return the op record, or None where it is not a common one: that says nothing against it."""
    decode = _decode or _load()
    try:
        common = decode(raw)
    except (ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None
    if common.run_id != run_id or common.nonfinite or not _has_common_instants(common):
        return None
    if not (_is_plain(raw) or _has_common_texts(common)):
        return None
    if not (_known_names.issuperset(common.metrics) or _are_names(common.metrics)):
        return None
    return OpRecord(*_astuple(common))


def quick_operations(elements: Sequence[bytes], run_id: str) -> list[OpRecord] | None:
    """Return the op records of many elements at once, or None where not all are common ones."""
    if _decode is None:
        _load()
    records: list[OpRecord] = []
    for start in range(0, len(elements), _ELEMENTS_AT_ONCE):
        some = _some_operations(elements[start : start + _ELEMENTS_AT_ONCE], run_id)
        if some is None:
            return None
        records += some
    return records


def _some_operations(elements: Sequence[bytes], run_id: str) -> Iterable[OpRecord] | None:
    # Nothing that is within an object begins behind an object's end: so each element is one object at least, and of
    # one that holds several there are more objects than elements.
    if _decode_lines is None or {element[:1] + element[-1:] for element in elements} != {b"{}"}:
        return None
    lines = b"\n".join(elements)
    try:
        commons = _decode_lines(lines)
    except (ValueError, RecursionError):
        return None
    if len(commons) != len(elements):
        return None
    values = list(map(_astuple, commons))
    columns = list(zip(*values, strict=True))
    if {*columns[_RUN_ID]} != {run_id} or any(columns[_NONFINITE]):
        return None
    if not all(_are_common_instants(columns[place]) for place in _INSTANTS):
        return None
    if not (_is_plain(lines) or all(map(_has_common_texts, commons))):
        return None
    names: set[str] = set().union(*columns[_METRICS])
    if not (_known_names.issuperset(names) or _are_names(names)):
        return None
    return starmap(OpRecord, values)


def _load() -> Callable[[bytes | str], Any]:
    """Make the decoder at the first record: importing msgspec takes longer than the rest of the package."""
    global _decode, _decode_lines, _astuple
    try:
        import msgspec
        import msgspec.structs
    except ImportError:
        _decode = _refuse
        return _decode
    meta = msgspec.Meta
    text = Annotated[str, meta(min_length=1, max_length=TEXT_LIMIT)]
    seconds = Optional[Annotated[float, meta(ge=0)]]
    count = Optional[Annotated[int, meta(ge=0, le=COUNT_LIMIT)]]
    instant = Annotated[float, meta(gt=0, le=LAST_INSTANT)]
    name = Annotated[str, meta(min_length=1, max_length=METRIC_NAME_LIMIT)]
    types = {
        "run_id": str, "operation": text, "status": Literal["succeeded", "failed", "cancelled"], "at": instant,
        "enqueued_at": Optional[instant], "started_at": Optional[instant], "queue_seconds": seconds,
        "elapsed_seconds": seconds, "step": count, "tokens": count, "datums": count,
        "metrics": Annotated[dict[name, float], meta(max_length=METRICS_LIMIT)], "nonfinite": dict[str, str],
    }  # fmt: skip
    struct = msgspec.defstruct(
        "CommonOperation",
        [
            (each, types.get(each, Optional[text]))
            if each in ("run_id", "operation", "status", "at")
            else (each, types.get(each, Optional[text]), msgspec.field(default_factory=dict))
            if each in ("metrics", "nonfinite")
            else (each, types.get(each, Optional[text]), None)
            for each in _NAMES
        ],
        forbid_unknown_fields=True,
        gc=False,
    )
    decoder = msgspec.json.Decoder(struct)
    # The one that says that all are there comes last: threads may read their first records at the same time.
    _astuple, _decode_lines, _decode = msgspec.structs.astuple, decoder.decode_lines, decoder.decode
    return _decode


def _refuse(raw: bytes | str) -> Any:
    raise ValueError("msgspec is not installed")


def _has_common_instants(common: Any) -> bool:
    """Return whether instants are whole microseconds, to which `wire_values.instant` rounds: ours are."""
    at, started_at, enqueued_at = common.at, common.started_at, common.enqueued_at
    return (
        int(at * 1e6 + 0.5) / 1e6 == at
        and (started_at is None or int(started_at * 1e6 + 0.5) / 1e6 == started_at)
        and (enqueued_at is None or int(enqueued_at * 1e6 + 0.5) / 1e6 == enqueued_at)
    )


def _are_common_instants(column: Sequence[float | None]) -> bool:
    """Return whether that is so of all of a column."""
    instants = [at for at in column if at is not None]
    return [int(at * 1e6 + 0.5) / 1e6 for at in instants] == instants


# `wire_values.text` changes NUL and lone surrogates alone.
def _is_plain(raw: bytes | str) -> bool:
    """Return whether no text can hold either: both would need an escape."""
    return isinstance(raw, bytes) and raw.isascii() and b"\\" not in raw


def _has_common_texts(common: Any) -> bool:
    """Return whether all texts can be kept as they are."""
    texts = (
        f"{common.operation}{common.id}{common.request_id}{common.role}{common.worker}{common.batch}"
        f"{common.error_type}{common.error_category}{common.trace_id}{common.span_id}"
    )
    return "\x00" not in texts and (texts.isascii() or texts.isprintable())


def _are_names(names: Collection[str]) -> bool:
    if not all(map(str.isprintable, names)):
        return False
    if len(_known_names) < _KNOWN_NAMES_LIMIT:
        _known_names.update(names)
    return True
