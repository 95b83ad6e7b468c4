"""The worker record (`open_rl:worker:<worker>`) and the ledger (`open_rl:ledger:<run>`), read back and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workers_client import wire
from workers_client import wire_values as values
from workers_client.codec import decode_object
from workers_client.exceptions import MalformedRecordError

_PLAIN_DEPTH = 3  # levels kept of a worker's own mappings (settings, versions, buffer, turns)
_PLAIN_ENTRIES = 128  # entries kept of each
_CLOCK_OFFSET_LIMIT = 1e9  # seconds, 30 years: no clock is off by more, and instants stay what datetime can hold


@dataclass(frozen=True, slots=True)
class OutstandingWork:
    """Requests of one run and op that a worker holds unanswered; `request_ids` are the oldest 20."""

    run_id: str
    operation: str
    count: int
    oldest_at: float | None = None
    request_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CurrentOp:
    """The op a worker runs now."""

    operation: str
    run_id: str | None = None
    request_id: str | None = None
    started_at: float | None = None


@dataclass(frozen=True, slots=True)
class CurrentTurn:
    """The GPU turn a worker holds, or waits for where `started_at` is None."""

    workload: str
    requested_at: float | None = None
    started_at: float | None = None


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """What a worker says of itself with each heartbeat; `at` is the heartbeat."""

    worker: str
    role: str
    at: float
    started_at: float | None = None
    parent: str | None = None
    pod: str | None = None
    pod_uid: str | None = None
    node: str | None = None
    host: str | None = None
    pid: int | None = None
    interval_seconds: float = wire.HEARTBEAT_INTERVAL_SECONDS
    phase: str | None = None
    phase_since: float | None = None
    last_progress_at: float | None = None
    runs: tuple[str, ...] = ()
    outstanding: tuple[OutstandingWork, ...] = ()
    current: CurrentOp | None = None
    turn: CurrentTurn | None = None
    turns: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    buffer: Mapping[str, Any] = field(default_factory=dict)
    clock_offset_seconds: float | None = None
    exited_at: float | None = None
    exit_reason: str | None = None
    wire: int | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """How many requests of a run got how far, and when the last one did.

    `recorded` and `samples_recorded` count the records written to the run's two lists; None where the writer does
    not say.
    """

    enqueued: int = 0
    popped: int = 0
    answered: int = 0
    delivered: int = 0
    failed: int = 0
    recorded: int | None = None
    samples_recorded: int | None = None
    last_enqueued_at: float | None = None
    last_popped_at: float | None = None
    last_answered_at: float | None = None
    last_delivered_at: float | None = None

    @property
    def outstanding_count(self) -> int:
        """Requests enqueued and not answered, never negative: the counts come from processes seconds apart."""
        return max(0, self.enqueued - self.answered)


def parse_worker(raw: bytes | str, *, worker: str) -> WorkerRecord:
    """Check a worker's record. `worker` is the id under which it stands.

    Raises:
        MalformedRecordError: not JSON, of another worker, or without role or heartbeat.
    """
    fields = decode_object(raw)
    if fields.get("worker", worker) != worker:
        raise MalformedRecordError("other_worker")
    get = fields.get
    role, at = _word(get("role")), values.instant(get("at"))
    if role is None or at is None:
        raise MalformedRecordError("bad_role" if role is None else "bad_at")
    return WorkerRecord(
        worker=worker,
        role=role,
        at=at,
        started_at=values.instant(get("started_at")),
        parent=values.text(get("parent")),
        pod=values.text(get("pod")),
        pod_uid=values.text(get("pod_uid")),
        node=values.text(get("node")),
        host=values.text(get("host")),
        pid=values.count(get("pid")),
        interval_seconds=_interval(get("interval_seconds")),
        phase=_word(get("phase")),
        phase_since=values.instant(get("phase_since")),
        last_progress_at=values.instant(get("last_progress_at")),
        runs=tuple(run for run in map(_run_id, _items(get("runs"))) if run),
        outstanding=tuple(work for work in map(_outstanding, _items(get("outstanding"))) if work),
        current=_current(get("current")),
        turn=_turn(get("turn")),
        turns=_plain_mapping(get("turns")),
        settings=_plain_mapping(get("settings")),
        versions=_plain_mapping(get("versions")),
        buffer=_plain_mapping(get("buffer")),
        clock_offset_seconds=_clock_offset(get("clock_offset_seconds")),
        exited_at=values.instant(get("exited_at")),
        exit_reason=values.text(get("exit_reason")),
        wire=values.count(get("wire")),
    )


def parse_ledger(fields: Mapping[Any, Any]) -> Ledger:
    """Read a ledger hash as Redis returns it (bytes or text); what can't be used counts as not said."""
    plain = {_as_text(name): _as_text(value) for name, value in fields.items()}
    counts = {name: _int(plain.get(name)) for name in wire.LEDGER_COUNTS}
    instants = {name: _instant(plain.get(name)) for name in wire.LEDGER_INSTANTS}
    return Ledger(
        enqueued=counts["enqueued"] or 0,
        popped=counts["popped"] or 0,
        answered=counts["answered"] or 0,
        delivered=counts["delivered"] or 0,
        failed=counts["failed"] or 0,
        recorded=counts["recorded"],
        samples_recorded=counts["samples_recorded"],
        last_enqueued_at=instants["last_enqueued_at"],
        last_popped_at=instants["last_popped_at"],
        last_answered_at=instants["last_answered_at"],
        last_delivered_at=instants["last_delivered_at"],
    )


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _int(value: str | None) -> int | None:
    if value is None or len(value) > 20 or not value.isdecimal():
        return None
    return values.count(int(value))


def _instant(value: str | None) -> float | None:
    try:
        return None if value is None else values.instant(float(value))
    except ValueError:
        return None


def _word(value: Any) -> str | None:
    word = values.text(value)
    return word if word is not None and len(word) <= wire.WORD_LIMIT else None


def _interval(value: Any) -> float:
    """Return the seconds between two heartbeats; one longer than a record lives can't be meant."""
    seconds = values.duration(value)
    return seconds if seconds and seconds <= wire.WORKER_TTL_SECONDS else wire.HEARTBEAT_INTERVAL_SECONDS


def _clock_offset(value: Any) -> float | None:
    seconds = values.number(value)
    return seconds if seconds is not None and abs(seconds) <= _CLOCK_OFFSET_LIMIT else None


def _items(value: Any) -> list[Any]:
    return value[:1_000] if isinstance(value, list) else []


def _run_id(value: Any) -> str | None:
    return wire.checked_run_id(value) if isinstance(value, str) else None


def _outstanding(value: Any) -> OutstandingWork | None:
    if not isinstance(value, Mapping):
        return None
    run_id, operation = _run_id(value.get("run_id")), values.text(value.get("operation"))
    count = values.count(value.get("count"))
    if run_id is None or operation is None or not count:
        return None
    ids = (values.text(item) for item in _items(value.get("request_ids"))[: wire.OUTSTANDING_LIMIT])
    return OutstandingWork(
        run_id=run_id,
        operation=operation,
        count=count,
        oldest_at=values.instant(value.get("oldest_at")),
        request_ids=tuple(request_id for request_id in ids if request_id),
    )


def _current(value: Any) -> CurrentOp | None:
    if not isinstance(value, Mapping) or (operation := values.text(value.get("operation"))) is None:
        return None
    return CurrentOp(
        operation=operation,
        run_id=_run_id(value.get("run_id")),
        request_id=values.text(value.get("request_id")),
        started_at=values.instant(value.get("started_at")),
    )


def _turn(value: Any) -> CurrentTurn | None:
    if not isinstance(value, Mapping) or (workload := values.text(value.get("workload"))) is None:
        return None
    return CurrentTurn(
        workload=workload,
        requested_at=values.instant(value.get("requested_at")),
        started_at=values.instant(value.get("started_at")),
    )


def _plain_mapping(value: Any, depth: int = _PLAIN_DEPTH) -> dict[str, Any]:
    """Keep texts, finite numbers, booleans and mappings of them; what else a worker wrote is left out."""
    if not isinstance(value, Mapping) or not depth:
        return {}
    result: dict[str, Any] = {}
    for name, item in list(value.items())[:_PLAIN_ENTRIES]:
        key = values.text(name)
        checked = _plain_mapping(item, depth - 1) if isinstance(item, Mapping) else _plain(item)
        if key is not None and checked is not None:
            result[key] = checked
    return result


def _plain(item: Any) -> Any:
    if isinstance(item, bool):
        return item
    if isinstance(item, str):
        return values.text(item)
    if isinstance(item, int):
        return item if abs(item) <= values.COUNT_LIMIT else None
    return item if values.number(item) is not None else None
