"""What comes out of a list of Redis: each usable record once, and how many elements were none. Pure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from telemetry_app.wrong_clocks import by_receipt_time, is_ahead
from workers_client import wire
from workers_client.exceptions import MalformedRecordError

R = TypeVar("R", wire.OpRecord, wire.SampleRecord, wire.TurnRecord)


@dataclass(slots=True)
class Checked(Generic[R]):
    """Records of one list, oldest first and each once, with how many elements were no usable record."""

    records: list[R] = field(default_factory=list)
    malformed_count: int = 0
    length: int = 0  # elements in Redis, whether usable or not
    malformed_tail_count: int = 0  # of the malformed: those behind the newest usable record
    reached: bool = False  # the record that was looked for is in the list
    # As they were written, by identity: `records` has them as if they ended at this reading.
    of_wrong_clocks: dict[str, R] = field(default_factory=dict)


def checked(elements: Any, parse: Callable[[bytes], R], length: Any, now: float) -> Checked[R]:
    """Return the usable records of a list; `length` is how many elements it has in Redis, `now` is unix seconds.

    `elements` is what Redis replied: an error of a key of another type is one bad record.
    """
    if not isinstance(elements, list):
        return Checked(malformed_count=1)  # a key of another Redis type
    parsed = _parsed(elements, parse)
    records = first_told(parsed)
    result = Checked(records, len(elements) - len(parsed), length if isinstance(length, int) else len(elements))
    if records and is_ahead(max([record.at for record in records]), now):  # of a wrong clock: as if received now
        result.records, reported_at = by_receipt_time(records, now)
        result.of_wrong_clocks = {record.identity: record for record in records if record.identity in reported_at}
    return result


def _parsed(elements: list[bytes], parse: Callable[[bytes], R]) -> list[R]:
    """Return the usable records among elements."""
    try:
        return list(map(parse, elements))  # all are, as a rule: several times faster than one by one
    except MalformedRecordError:
        pass
    parsed: list[R] = []
    for element in elements:
        with suppress(MalformedRecordError):
            parsed.append(parse(element))
    return parsed


def first_told(records: list[R]) -> list[R]:
    """Return each record once, as it was told first: a record resent never changes what was said."""
    identities = [record.id or record.identity for record in records]
    if len(set(identities)) == len(records):
        return records
    unique: dict[str, R] = {}
    for identity, record in zip(identities, records, strict=True):
        unique.setdefault(identity, record)
    return list(unique.values())
