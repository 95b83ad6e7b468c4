"""The site's one way to Redis: bytes in, checked records out.

Bad records are counted and skipped, a key of another Redis type reads as one bad record, and an outage is
`LiveDataUnavailableError`, never emptiness. Every call is one round trip, or a bounded number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import redis
from django_redis import get_redis_connection

from telemetry_app import kept_lists, kept_records
from telemetry_app.checked_records import Checked, R, checked, first_told
from telemetry_app.exceptions import LiveDataUnavailableError
from telemetry_app.wrong_clocks import is_ahead
from workers_client import wire
from workers_client import wire_values as values
from workers_client.exceptions import MalformedRecordError
from workers_client.wire_worker import Ledger, WorkerRecord, parse_ledger

CONNECTION_ALIAS = "telemetry"
COMPARED_RUNS = 20  # most recently active runs from which it is told what an op takes anywhere
SUMMARY_RECORDS = 64  # newest op records read of each run in a list of runs
SCAN_COUNT = 1_000  # keys that Redis looks at before it serves others
INDEX_LIMIT = 10_000  # newest entries read of an index (runs, workers, workloads)


@dataclass(slots=True)
class LiveRun:
    """What Redis holds of one run."""

    run_id: str
    last_activity_at: float | None
    operations: Checked[wire.OpRecord]
    samples: Checked[wire.SampleRecord]
    ledger: Ledger
    steps_completed: int
    step_times: list[float]
    queue_depth: int | None  # commands in OpenRL's own queue; None where there is no such queue

    @property
    def exists(self) -> bool:
        """Whether Redis holds anything of the run."""
        return (
            self.last_activity_at is not None
            or bool(self.operations.length or self.samples.length or self.steps_completed)
            or self.ledger.enqueued > 0
        )

    @property
    def malformed_count(self) -> int:
        """Elements of the run's lists that were no usable record."""
        return self.operations.malformed_count + self.samples.malformed_count


@dataclass(slots=True)
class LiveWorkers:
    """The workers Redis knows, by id, with their newest heartbeats; `malformed_count` records could not be used."""

    records: dict[str, WorkerRecord] = field(default_factory=dict)
    heartbeats: dict[str, float] = field(default_factory=dict)
    malformed_count: int = 0
    redis_time: float | None = None  # Redis's clock when they were read: the one clock all are compared to


def read_run_index() -> dict[str, float]:
    """Return the newest runs with the time of their last activity, newest first."""
    return {run: at for run, at in _read_index(wire.RUNS_KEY).items() if wire.is_run_id(run)}


def read_unlisted_runs(listed: Container[str]) -> dict[str, float]:
    """Return the runs of lists that stand in no index, as OpenRL itself writes them, with their newest finish time.

    Looks through all keys, a bounded number at a time: Redis serves others in between.
    """
    found: set[str] = set()
    with _outages_named():
        names = _connection().scan_iter(match=f"{wire.OPERATIONS_KEY_PREFIX}*", count=SCAN_COUNT, _type="LIST")
        for name in names:
            run_id = name.decode("utf-8", "replace").removeprefix(wire.OPERATIONS_KEY_PREFIX)
            if run_id not in listed and wire.is_run_id(run_id):
                found.add(run_id)
                if len(found) == INDEX_LIMIT:
                    break
    run_ids = sorted(found)
    newest = _pipeline([("LRANGE", wire.operations_key(run_id), -1, -1) for run_id in run_ids])
    return {run_id: _newest_at(reply, run_id) for run_id, reply in zip(run_ids, newest, strict=True)}


def read_workload_index() -> dict[str, float]:
    """Return the newest workloads with the time of their last GPU turn, newest first."""
    index = _read_index(wire.WORKLOADS_KEY)
    # Its key, too, has to be a text that history can hold: it names the list's cursor.
    return {workload: at for workload, at in index.items() if workload and _is_text(wire.turns_key(workload))}


def read_runs(
    run_ids: Sequence[str], *, newest: int = wire.LIST_LIMIT, newest_samples: int | None = None
) -> dict[str, LiveRun]:
    """Return what Redis holds of each run in one round trip; of its lists the newest `newest` elements.

    `newest_samples` are how many of its samples where that is another number.
    """
    samples = newest if newest_samples is None else newest_samples
    commands = [command for run_id in run_ids for command in _run_commands(run_id, newest, samples, newest)]
    *replies, redis_time = _pipeline([*commands, ("TIME",)])
    size = len(_run_commands("", newest, samples, newest))
    return {
        run_id: _live_run(run_id, replies[index * size : (index + 1) * size], _unix_time(redis_time), is_whole=False)
        for index, run_id in enumerate(run_ids)
    }


def read_run(run_id: str) -> LiveRun:
    """Return all that Redis holds of one run; of lists that are kept, only the end is read."""
    keys = (wire.operations_key(run_id), wire.samples_key(run_id))
    wanted = [kept_lists.wanted(key, wire.LIST_LIMIT) for key in keys]
    *replies, redis_time = _pipeline([*_run_commands(run_id, wanted[0], wanted[1], wire.LIST_LIMIT), ("TIME",)])
    for key, place, length, count in zip(keys, _LISTS, replies[-len(keys) :], wanted, strict=True):
        replies[place] = kept_lists.joined(key, replies[place], length, read_count=count, newest=wire.LIST_LIMIT)
    if any(replies[place] is None for place in _LISTS):
        return read_run(run_id)  # of a list of which nothing is kept any more, the whole is read
    return _live_run(run_id, replies, _unix_time(redis_time), is_whole=True)


def read_turns(workloads: Sequence[str], *, newest: int = wire.LIST_LIMIT) -> dict[str, Checked[wire.TurnRecord]]:
    """Return the newest GPU turns of each workload in one round trip, oldest first."""
    commands = [(name, wire.turns_key(workload)) for workload in workloads for name in ("LRANGE", "LLEN")]
    *replies, redis_time = _pipeline(
        [*((name, key, -newest, -1) if name == "LRANGE" else (name, key) for name, key in commands), ("TIME",)]
    )
    return {
        workload: checked(elements, partial(kept_records.turn_of, workload), length, _unix_time(redis_time))
        for workload, elements, length in zip(workloads, replies[::2], replies[1::2], strict=True)
    }


def read_run_marks(run_id: str) -> list[Any] | None:
    """Return what changes with every change of a run's records, without reading them; None of a run Redis has not."""
    lists = (wire.operations_key(run_id), wire.samples_key(run_id))
    marks = _pipeline(
        [
            ("ZSCORE", wire.RUNS_KEY, run_id),
            ("HGETALL", wire.ledger_key(run_id)),
            ("GET", wire.steps_key(run_id)),
            *((name, key, *index) for key in lists for name, index in (("LLEN", ()), ("LINDEX", (-1,)))),
        ]
    )
    return marks if marks[0] is not None else None


def read_compared_runs(index: Iterable[str] | None = None) -> list[LiveRun]:
    """Return the newest records of the most recently active runs: what an op takes anywhere is told from them alone.

    `index` is that of the runs, newest first, where it was read already.
    """
    newest = list(read_run_index() if index is None else index)[:COMPARED_RUNS]
    return list(read_runs(newest, newest=SUMMARY_RECORDS).values())


def read_ledger(run_id: str) -> Ledger:
    """Return a run's ledger as it is now."""
    [fields] = _pipeline([("HGETALL", wire.ledger_key(run_id))])
    return parse_ledger(fields if isinstance(fields, Mapping) else {})


def read_workers() -> LiveWorkers:
    """Return the newest workers with their records; a record that expired leaves only its heartbeat."""
    index = _read_index(wire.WORKERS_KEY)
    heartbeats = {worker: at for worker, at in index.items() if _is_text(worker)}
    result = LiveWorkers(heartbeats=heartbeats, malformed_count=len(index) - len(heartbeats))
    *raw_records, redis_time = _pipeline([*(("GET", wire.worker_key(worker)) for worker in heartbeats), ("TIME",)])
    result.redis_time = _unix_time(redis_time)
    for worker, raw in zip(heartbeats, raw_records, strict=True):
        if raw is None:
            continue
        try:
            result.records[worker] = kept_records.worker_of(worker, raw)
        except MalformedRecordError:
            result.malformed_count += 1
    return result


def read_time() -> float:
    """Return Redis's clock (unix seconds): the least that says whether it answers."""
    [[seconds, microseconds]] = _pipeline([("TIME",)])
    return float(seconds) + float(microseconds) / 1e6


def read_list_after(
    key: str,
    newest_record_id: str,
    parse: Callable[[bytes], R],
    *,
    parse_all: Callable[[list[bytes]], list[R]] | None = None,
    chunk: int = 500,
) -> Checked[R]:
    """Return the elements of a list behind the record with this identity, oldest first.

    `parse_all` does what `parse` does, for a list of elements that are all usable.

    Reads from the tail in chunks, so that a list of which little is new costs little. All elements are new where the
    record is not in the list: it was trimmed, or Redis came back empty. A record that was delivered a second time
    within a chunk, this one among them, hides nothing and comes once. Chunks are counted from the tail: records pushed
    between two reads shift the window towards what was read already, so nothing is skipped.
    """
    if not newest_record_id:
        return _read_whole_list(key, parse, parse_all)
    result: Checked[R] = Checked()
    newest_first: dict[str, tuple[bytes, R]] = {}
    name = f'"{newest_record_id}"'.encode()
    while result.length < wire.LIST_LIMIT:
        stop = -1 - result.length
        [elements] = _pipeline([("LRANGE", key, stop - chunk + 1, stop)])
        if not isinstance(elements, list):
            return Checked(malformed_count=1, malformed_tail_count=1)  # a key of another Redis type
        for index in range(len(elements) - 1, -1, -1):
            result.length += 1
            try:
                record = parse(elements[index])
            except MalformedRecordError:
                result.malformed_count += 1
                result.malformed_tail_count += not newest_first
                continue
            if record.identity != newest_record_id:
                newest_first[record.identity] = elements[index], record
                continue
            result.reached = True
            if elements[index] in elements[:index]:
                continue  # this is a second delivery, and what lies between the two is new
            if not any(name in element for element in elements[:index]):
                return _oldest_first(newest_first, result, delivered_before=elements[:index])
            newest_first[record.identity] = elements[index], record  # one of its identity with other content
        if len(elements) < chunk:
            break
    return _oldest_first(newest_first, result)


def _read_whole_list(
    key: str, parse: Callable[[bytes], R], parse_all: Callable[[list[bytes]], list[R]] | None
) -> Checked[R]:
    """Return all elements of a list of which nothing was taken; one told twice comes once, as it was told first."""
    [elements] = _pipeline([("LRANGE", key, -wire.LIST_LIMIT, -1)])
    if not isinstance(elements, list):
        return Checked(malformed_count=1, malformed_tail_count=1)  # a key of another Redis type
    try:
        parsed = list(map(parse, elements)) if parse_all is None else parse_all(elements)
        return Checked(first_told(parsed), length=len(elements))
    except MalformedRecordError:
        pass
    result: Checked[R] = Checked(length=len(elements))
    usable: list[R] = []
    for element in elements:
        try:
            usable.append(parse(element))
        except MalformedRecordError:
            result.malformed_count += 1
            result.malformed_tail_count += 1
        else:
            result.malformed_tail_count = 0
    result.records = first_told(usable)
    return result


def _oldest_first(
    newest_first: dict[str, tuple[bytes, R]], result: Checked[R], *, delivered_before: Iterable[bytes] = ()
) -> Checked[R]:
    known = set(delivered_before) if newest_first else set()
    result.records = [record for element, record in reversed(newest_first.values()) if element not in known]
    return result


def _newest_at(reply: Any, run_id: str) -> float:
    """Return when the newest record of a list finished; 0 where that can't be told."""
    try:
        return wire.parse_operation(reply[-1], run_id=run_id).at if isinstance(reply, list) and reply else 0.0
    except MalformedRecordError:
        return 0.0


# --- One run's commands and replies ---------------------------------------------------------------------------
def _run_commands(run_id: str, newest: int, newest_samples: int, newest_steps: int) -> list[tuple[Any, ...]]:
    return [
        ("ZSCORE", wire.RUNS_KEY, run_id),
        # Before the lists: the records it counts are then in them, or were.
        ("HGETALL", wire.ledger_key(run_id)),
        ("LRANGE", wire.operations_key(run_id), -newest, -1),
        ("LRANGE", wire.samples_key(run_id), -newest_samples, -1),
        ("GET", wire.steps_key(run_id)),
        ("LRANGE", wire.step_times_key(run_id), -newest_steps, -1),
        ("LLEN", wire.queue_key(run_id)),
        ("LLEN", wire.operations_key(run_id)),
        ("LLEN", wire.samples_key(run_id)),
    ]


_LISTS = (2, 3)  # where the replies of the op and sample records stand


def _unix_time(reply: Sequence[int]) -> float:
    """Return the unix seconds of Redis's `TIME`."""
    return reply[0] + reply[1] / 1e6


def _live_run(run_id: str, replies: Sequence[Any], now: float, *, is_whole: bool) -> LiveRun:
    score, ledger, operations, samples, steps, step_times, queue_depth, operations_length, samples_length = replies
    parse_operation = kept_records.parser_of(run_id, operations, is_whole=is_whole)
    return LiveRun(
        run_id=run_id,
        last_activity_at=None if is_ahead(_instant(score) or 0.0, now) else _instant(score),  # of a wrong clock
        operations=checked(operations, parse_operation, operations_length, now),
        samples=checked(samples, lambda raw: wire.parse_sample(raw, run_id=run_id), samples_length, now),
        ledger=parse_ledger(ledger if isinstance(ledger, Mapping) else {}),
        steps_completed=_whole_number(steps),
        step_times=[at for at in map(_instant, step_times if isinstance(step_times, list) else ()) if at],
        queue_depth=queue_depth if isinstance(queue_depth, int) and queue_depth > 0 else None,
    )


def _whole_number(raw: Any) -> int:
    return int(raw) if isinstance(raw, bytes) and raw.isdigit() and len(raw) < 19 else 0


def _instant(raw: Any) -> float | None:
    try:
        return values.instant(float(raw))
    except (TypeError, ValueError):
        return None


def _is_text(value: str) -> bool:
    return values.text(value) == value


# --- The connection -------------------------------------------------------------------------------------------
def _connection() -> Any:
    return get_redis_connection(CONNECTION_ALIAS)


def _read_index(key: str) -> dict[str, float]:
    """Return the members of a sorted set with their scores, highest first; a score that is no instant counts as 0."""
    [pairs] = _pipeline([("ZREVRANGE", key, 0, INDEX_LIMIT - 1, "WITHSCORES")])
    if isinstance(pairs, list) and pairs and not isinstance(pairs[0], list):
        pairs = list(zip(pairs[::2], pairs[1::2], strict=True))  # as Redis's older protocol has them
    members = [
        (member.decode("utf-8", "replace"), _instant(score) or 0.0)
        for member, score in (pairs if isinstance(pairs, list) else ())
    ]
    return dict(sorted(members, key=lambda pair: -pair[1]))


def _pipeline(commands: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Run commands in one round trip. A key of another type replies with its `redis.ResponseError`."""
    with _outages_named():
        pipeline = _connection().pipeline(transaction=False)
        for name, *arguments in commands:
            if name == "ZREVRANGE":
                # As it comes: the client would turn each score into a text and back, which takes longer than all else.
                pipeline.execute_command(name, *arguments)
            else:
                getattr(pipeline, name.lower())(*arguments)
        replies: list[Any] = pipeline.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, redis.RedisError) and not _is_wrong_type(reply):
                raise reply
    return replies


def _is_wrong_type(error: redis.RedisError) -> bool:
    return isinstance(error, redis.ResponseError) and str(error).startswith("WRONGTYPE")


@contextmanager
def _outages_named() -> Iterator[None]:
    try:
        yield
    except (redis.RedisError, OSError) as error:
        raise LiveDataUnavailableError(f"Redis can't be read: {type(error).__name__}") from error
