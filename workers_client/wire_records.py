"""The types of the records that lists of Redis hold, and how one is written.

Their fields have the names of the wire; instants are unix seconds (UTC), durations are seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from workers_client.codec import encode_object


@dataclass(slots=True)
class OpRecord:
    """One finished op of a run (`open_rl:operations:<run>`). Nobody changes one.

    Not frozen: that makes building one ten times slower, and readers build thousands for one answer.
    """

    run_id: str
    operation: str
    status: str
    at: float
    id: str | None = None
    request_id: str | None = None
    role: str | None = None
    worker: str | None = None
    error_type: str | None = None
    error_category: str | None = None
    enqueued_at: float | None = None
    queue_seconds: float | None = None
    started_at: float | None = None
    elapsed_seconds: float | None = None
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    nonfinite: Mapping[str, str] = field(default_factory=dict)
    tokens: int | None = None
    datums: int | None = None
    batch: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    pod: str | None = None
    pod_uid: str | None = None
    node: str | None = None
    runtime_id: str | None = None

    @property
    def identity(self) -> str:
        """What makes the record count once: its id, or `request_id|operation|at` in records of others."""
        return self.id or f"{self.request_id}|{self.operation}|{self.at!r}"


@dataclass(frozen=True, slots=True)
class SampleFailure:
    """One sampling request that was answered with a failure."""

    run_id: str
    at: float
    id: str | None = None
    kind: str = "failure"
    request_id: str | None = None
    worker: str | None = None
    source: str | None = None
    accepted_at: float | None = None
    error_type: str | None = None

    @property
    def identity(self) -> str:
        """What makes the record count once."""
        return self.id or f"{self.request_id}|failure|{self.at!r}"


@dataclass(frozen=True, slots=True)
class SampleGroup:
    """What one worker answered of one run's sampling requests between two flushes; `count` requests."""

    run_id: str
    at: float
    count: int
    id: str | None = None
    kind: str = "group"
    worker: str | None = None
    first_accepted_at: float | None = None
    first_answered_at: float | None = None
    seconds_sum: float | None = None
    seconds_max: float | None = None
    tokens_sum: int | None = None
    busy_seconds: float | None = None

    @property
    def identity(self) -> str:
        """What makes the record count once."""
        return self.id or f"{self.worker}|group|{self.at!r}"


SampleRecord = Union[SampleFailure, SampleGroup]


@dataclass(frozen=True, slots=True)
class TurnOp:
    """What ran inside a GPU turn; concurrent ops of one name and run are one entry with their count."""

    name: str
    start: float
    end: float
    count: int = 1
    status: str | None = None
    run_id: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One GPU turn of a workload (`open_rl:turns:<workload>`)."""

    workload: str
    started_at: float
    at: float
    id: str | None = None
    operation: str = "gpu_turn"
    role: str | None = None
    worker: str | None = None
    runtime_id: str | None = None
    node: str | None = None
    pod_uid: str | None = None
    requested_at: float | None = None
    ops: tuple[TurnOp, ...] = ()

    @property
    def identity(self) -> str:
        """What makes the record count once."""
        return self.id or f"{self.workload}|{self.runtime_id}|{self.started_at!r}"


Record = Union[OpRecord, SampleFailure, SampleGroup, TurnRecord]


def to_wire(record: Any) -> dict[str, Any]:
    """Return a record's fields as they stand on the wire: those with no value are left out."""
    fields: dict[str, Any] = {}
    for name in record.__dataclass_fields__:
        value = getattr(record, name)
        if value is None or (not value and isinstance(value, (dict, tuple, list))):
            continue
        if isinstance(value, tuple):
            value = [to_wire(item) if dataclasses.is_dataclass(item) else item for item in value]
        fields[name] = value
    return fields


def encode(record: Any) -> bytes:
    """Encode a record as one compact JSON object."""
    return encode_object(to_wire(record))
