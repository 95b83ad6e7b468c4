"""Rows as PostgreSQL's binary COPY takes them, packed a column at a time: several times faster than value by value.

The format is told in PostgreSQL's documentation of COPY, the format of each type in the `recv` function of its source.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby, islice, repeat
from operator import add
from struct import Struct
from typing import Any

from msgspec import json

HEADER, END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
ROWS_PER_BLOCK = 250
_POSTGRES_EPOCH = 946_684_800.0  # 2000-01-01 in unix seconds
_VARCHAR_OID, _FLOAT8_OID = 1043, 701  # of PostgreSQL's catalogue pg_type.dat
_length, _count, _json_head, _array, _dimension = (Struct(form).pack for form in (">i", ">h", ">ib", ">iii", ">ii"))
_NULL = _length(-1)
_encode, _encode_lines = json.Encoder().encode, json.Encoder().encode_lines

Column = Sequence[Any]


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A column of values of one size, or of nulls alone: packed in one call with those that stand beside it."""

    form: str  # of one value, as `struct` has it
    values: Sequence[Iterable[int | float | bytes]]


@dataclass(frozen=True, slots=True)
class _Same:
    """A column that has one value in all rows of a block, packed: joined with those that stand beside it."""

    value: bytes


Packed = Iterable[bytes] | _Fixed | _Same


def blocks(types: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """Return rows as blocks of bytes, which `HEADER` comes before and `END` behind.

    `types` are the columns' types by their names in `PACKERS`. Instants are unix seconds, JSONB is any JSON value.
    Columns of numbers, instants and ids are packed fastest where they stand side by side, and so are columns that have
    the same value in many rows.
    """
    packers = [PACKERS[name]() for name in types]
    fields = _Same(_count(len(packers)))
    remaining = iter(rows)
    while block := list(islice(remaining, ROWS_PER_BLOCK)):
        packed = [pack(column) for pack, column in zip(packers, zip(*block, strict=True), strict=True)]
        yield b"".join(chain.from_iterable(zip(*_side_by_side([fields, *packed], len(block)), strict=True)))


def _side_by_side(packed: Iterable[Packed], rows_count: int) -> Iterator[Iterable[bytes]]:
    for kind, columns in groupby(packed, key=type):
        if kind is _Same:
            same: Iterable[_Same] = columns  # type: ignore[assignment]
            yield repeat(b"".join([column.value for column in same]), rows_count)
        elif kind is _Fixed:
            beside: list[_Fixed] = list(columns)  # type: ignore[arg-type]
            form = Struct(">" + "".join(fixed.form for fixed in beside))
            yield map(form.pack, *chain.from_iterable(fixed.values for fixed in beside))
        else:
            yield from columns  # type: ignore[misc]


class _Texts(dict[str | None, bytes]):
    """Texts by their packed form: workers, roles, names of ops and traces come again in nearly every row."""

    def __missing__(self, text: str) -> bytes:
        packed = self[text] = _sized(text.encode())
        return packed

    def __call__(self, column: Column) -> Packed:
        if column[0] == column[-1] and column.count(column[0]) == len(column):
            return _Same(self[column[0]])
        if 2 * len(set(column)) > len(column) and None not in column:  # ids: each comes once
            encoded = list(map(str.encode, column))
            sizes = list(map(len, encoded))
            if sizes.count(sizes[0]) == len(sizes):
                return _Fixed(f"i{sizes[0]}s", (sizes, encoded))
            return map(add, map(_length, sizes), encoded)
        return map(self.__getitem__, column)


def _sized(value: bytes) -> bytes:
    return _length(len(value)) + value


def _wholes(column: Column) -> Packed:
    return _numbers("q", column)


def _floats(column: Column) -> Packed:
    return _numbers("d", column)


def _instants(column: Column) -> Packed:
    """Pack PostgreSQL's own count of an instant: microseconds since 2000.

    As exact as `from_unix` up to the year 2255, where a double ceases to hold all microseconds.
    """
    return _numbers("q", [None if at is None else round((at - _POSTGRES_EPOCH) * 1e6) for at in column])


def _numbers(form: str, column: Column) -> Packed:
    if None not in column:
        return _Fixed("i" + form, (repeat(8), column))
    if column.count(None) == len(column):
        return _Fixed("i", (repeat(-1, len(column)),))
    pack = Struct(">i" + form).pack
    return [_NULL if value is None else pack(8, value) for value in column]


def _jsons(column: Column) -> Packed:
    """Pack the version of the format, then the JSON, which has no line ends of its own."""
    if not any(column):
        line = _encode(column[0])
        return _Same(_json_head(len(line) + 1, 1) + line)
    lines = _encode_lines(column).splitlines()
    return map(add, [_json_head(len(line) + 1, 1) for line in lines], lines)


# Arrays have one dimension: its length and its lowest index stand before the values; an empty one has none.
class _TextArrays(dict[tuple[str, ...], bytes]):
    """Arrays of texts by their packed form: the names of metrics come again in nearly every row."""

    def __missing__(self, texts: tuple[str, ...]) -> bytes:
        head = _array(1, 0, _VARCHAR_OID) + _dimension(len(texts), 1) if texts else _array(0, 0, _VARCHAR_OID)
        packed = self[texts] = _sized(head + b"".join([_sized(text.encode()) for text in texts]))
        return packed

    def __call__(self, column: Column) -> Packed:
        return list(map(self.__getitem__, map(tuple, column)))


def _float_arrays(column: Column) -> Packed:
    return [_float_array(len(numbers))(numbers) for numbers in column]


@lru_cache(128)
def _float_array(size: int) -> Callable[[Sequence[float]], bytes]:
    """Return what packs so many numbers; those of a row's metrics are as many as the row's before."""
    if not size:
        return lambda _: _sized(_array(0, 0, _FLOAT8_OID))
    form = Struct(">6i" + "id" * size)
    values: list[float] = [form.size - 4, 1, 0, _FLOAT8_OID, size, 1, *[8] * (2 * size)]

    def pack(numbers: Sequence[float]) -> bytes:
        own = values.copy()
        own[7::2] = numbers
        return form.pack(*own)

    return pack


PACKERS: dict[str, Callable[[], Callable[[Column], Packed]]] = {
    "varchar": lambda: _Texts({None: _NULL}),
    "bigint": lambda: _wholes,
    "double precision": lambda: _floats,
    "timestamp with time zone": lambda: _instants,
    "jsonb": lambda: _jsons,
    "varchar[]": _TextArrays,
    "double precision[]": lambda: _float_arrays,
}
