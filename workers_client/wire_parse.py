"""How the records of the lists are read back: bytes of a shared Redis become checked records, or are refused.

A field that can't be used is left out; a record whose essentials are missing is refused. Names stand in `wire`, which
gives these functions out as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workers_client import wire_values as values
from workers_client.codec import decode_object
from workers_client.exceptions import MalformedRecordError
from workers_client.quick_parse import quick_operation, quick_operations
from workers_client.wire import SAMPLE, TURN_OPS_LIMIT, SampleSource, Status
from workers_client.wire_records import OpRecord, SampleFailure, SampleGroup, SampleRecord, TurnOp, TurnRecord


def parse_operation(raw: bytes | str, *, run_id: str) -> OpRecord:
    """Check one element of a run's operations list. `run_id` is the run whose list it stands in.

    Raises:
        MalformedRecordError: not JSON, of another run, or without a usable operation, status or finish time.
    """
    quick = quick_operation(raw, run_id)
    if quick is not None:
        return quick
    fields = decode_object(raw)
    _require_run(fields, run_id)
    status = fields.get("status")
    if not isinstance(status, str) or status not in _STATUSES:
        raise MalformedRecordError("bad_status")
    get = fields.get
    nonfinite = values.merged_nonfinite(get("metrics"), get("nonfinite"))
    return OpRecord(
        run_id=run_id,
        operation=_required_text(fields, "operation"),
        status=status,
        at=_required_instant(fields, "at"),
        id=values.text(get("id")),
        request_id=values.text(get("request_id")),
        role=values.text(get("role")),
        worker=values.text(get("worker")),
        error_type=values.text(get("error_type")),
        error_category=values.text(get("error_category")),
        enqueued_at=values.instant(get("enqueued_at")),
        queue_seconds=values.duration(get("queue_seconds")),
        started_at=values.instant(get("started_at")),
        elapsed_seconds=values.duration(get("elapsed_seconds")),
        step=values.count(get("step")),
        metrics=values.metrics(get("metrics"), without=nonfinite),
        nonfinite=nonfinite,
        tokens=values.count(get("tokens")),
        datums=values.count(get("datums")),
        batch=values.text(get("batch")),
        trace_id=values.text(get("trace_id")),
        span_id=values.text(get("span_id")),
        pod=values.text(get("pod")),
        pod_uid=values.text(get("pod_uid")),
        node=values.text(get("node")),
        runtime_id=values.text(get("runtime_id")),
    )


def parse_operations(elements: Sequence[bytes], *, run_id: str) -> list[OpRecord]:
    """Check many elements of a run's operations list: what is common to all of them is checked once.

    Raises:
        MalformedRecordError: one of them is no usable record.
    """
    quick = quick_operations(elements, run_id)
    return [parse_operation(raw, run_id=run_id) for raw in elements] if quick is None else quick


def parse_sample(raw: bytes | str, *, run_id: str) -> SampleRecord:
    """Check one element of a run's samples list.

    An in-process `sample` op of a trainer stands there too: it reads as a group of one, or as a failure.

    Raises:
        MalformedRecordError: not JSON, of another run, or neither a failure, a group nor a sample op.
    """
    fields = decode_object(raw)
    _require_run(fields, run_id)
    kind = fields.get("kind")
    if kind == "failure":
        return _sample_failure(fields, run_id, accepted_at=fields.get("accepted_at"), source=fields.get("source"))
    if kind == "group":
        return _sample_group(fields, run_id)
    if kind is None and fields.get("operation") == SAMPLE:
        return _sample_of_op(fields, run_id)
    raise MalformedRecordError("bad_kind")


def parse_turn(raw: bytes | str, *, workload: str) -> TurnRecord:
    """Check one element of a workload's turns list; ops that can't be used are left out, 64 at most are kept.

    Raises:
        MalformedRecordError: not JSON, of another workload, or without usable start and end.
    """
    fields = decode_object(raw)
    if fields.get("workload", workload) != workload:
        raise MalformedRecordError("other_workload")
    ops = fields.get("ops")
    parsed = (_turn_op(op) for op in (ops[:TURN_OPS_LIMIT] if isinstance(ops, list) else ()))
    return TurnRecord(
        workload=workload,
        started_at=_required_instant(fields, "started_at"),
        at=_required_instant(fields, "at"),
        id=values.text(fields.get("id")),
        role=values.text(fields.get("role")),
        worker=values.text(fields.get("worker")),
        runtime_id=values.text(fields.get("runtime_id")),
        node=values.text(fields.get("node")),
        pod_uid=values.text(fields.get("pod_uid")),
        requested_at=values.instant(fields.get("requested_at")),
        ops=tuple(op for op in parsed if op is not None),
    )


_STATUSES = frozenset(status.value for status in Status)


def _require_run(fields: Mapping[str, Any], run_id: str) -> None:
    if fields.get("run_id", run_id) != run_id:
        raise MalformedRecordError("other_run")


def _required_text(fields: Mapping[str, Any], name: str) -> str:
    value = values.text(fields.get(name))
    if value is None:
        raise MalformedRecordError(f"bad_{name}")
    return value


def _required_instant(fields: Mapping[str, Any], name: str) -> float:
    value = values.instant(fields.get(name))
    if value is None:
        raise MalformedRecordError(f"bad_{name}")
    return value


def _sample_failure(fields: Mapping[str, Any], run_id: str, *, accepted_at: Any, source: Any) -> SampleFailure:
    return SampleFailure(
        run_id=run_id,
        at=_required_instant(fields, "at"),
        id=values.text(fields.get("id")),
        request_id=values.text(fields.get("request_id")),
        worker=values.text(fields.get("worker")),
        source=values.text(source),
        accepted_at=values.instant(accepted_at),
        error_type=values.text(fields.get("error_type")),
    )


def _sample_group(fields: Mapping[str, Any], run_id: str) -> SampleGroup:
    count = values.count(fields.get("count"))
    if not count:
        raise MalformedRecordError("bad_count")
    return SampleGroup(
        run_id=run_id,
        at=_required_instant(fields, "at"),
        count=count,
        id=values.text(fields.get("id")),
        worker=values.text(fields.get("worker")),
        first_accepted_at=values.instant(fields.get("first_accepted_at")),
        first_answered_at=values.instant(fields.get("first_answered_at")),
        seconds_sum=values.duration(fields.get("seconds_sum")),
        seconds_max=values.duration(fields.get("seconds_max")),
        tokens_sum=values.count(fields.get("tokens_sum")),
        busy_seconds=values.duration(fields.get("busy_seconds")),
    )


def _sample_of_op(fields: Mapping[str, Any], run_id: str) -> SampleRecord:
    status = fields.get("status")
    accepted_at = fields.get("enqueued_at", fields.get("started_at"))
    if status == Status.FAILED.value:
        return _sample_failure(fields, run_id, accepted_at=accepted_at, source=SampleSource.IN_PROCESS.value)
    if status != Status.SUCCEEDED.value:
        raise MalformedRecordError("bad_status")
    at = _required_instant(fields, "at")
    accepted = values.instant(accepted_at)
    seconds = None if accepted is None else max(0.0, at - accepted)
    return SampleGroup(
        run_id=run_id,
        at=at,
        count=1,
        id=values.text(fields.get("id")),
        worker=values.text(fields.get("worker")),
        first_accepted_at=accepted,
        first_answered_at=at,
        seconds_sum=seconds,
        seconds_max=seconds,
        tokens_sum=values.count(fields.get("tokens")),
        busy_seconds=values.duration(fields.get("elapsed_seconds")),
    )


def _turn_op(op: Any) -> TurnOp | None:
    if not isinstance(op, Mapping):
        return None
    name, start, end = values.text(op.get("name")), values.instant(op.get("start")), values.instant(op.get("end"))
    if name is None or start is None or end is None:
        return None
    return TurnOp(
        name=name,
        start=start,
        end=end,
        count=values.count(op.get("count")) or 1,
        status=values.text(op.get("status")),
        run_id=values.text(op.get("run_id")),
        request_id=values.text(op.get("request_id")),
    )
