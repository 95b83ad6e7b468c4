"""How long the ops of a run took, as counts that outlive the records: what is expected of the run without Redis. Pure.

A history is plain JSON: by op, by size and by bucket of seconds a count. Buckets grow by a tenth, so a percentile is
right to a tenth; sizes double, by tokens where records say them, else by datums. Of many records the newest count most:
all counts of an op are halved when they pass a thousand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from telemetry_app.expectations import EXPECTATION_RECORDS
from telemetry_app.run_facts import Learned
from workers_client import wire

GROWTH = 1.1  # of one bucket to the next
LEAST_SECONDS = 1e-3  # what is shorter counts as that
MOST_COUNT = 1_000  # of one op
OPERATIONS_LIMIT = 64  # names of ops remembered of one run
ANY_SIZE = ""
_SUCCEEDED = wire.Status.SUCCEEDED.value

History = dict[str, dict[str, dict[str, int]]]


def grown(history: History, records: Iterable[wire.OpRecord | wire.SampleRecord]) -> History:
    """Return the history with these records in it, each of which must be new; failed and cancelled ops do not count."""
    found = {name: {size: dict(counts) for size, counts in sizes.items()} for name, sizes in history.items()}
    for operation, size, seconds in _taken(records):
        if operation not in found and len(found) >= OPERATIONS_LIMIT:
            continue
        counts = found.setdefault(operation, {}).setdefault(size, {})
        bucket = str(_bucket(seconds))
        counts[bucket] = counts.get(bucket, 0) + 1
    return {name: _bounded(sizes) for name, sizes in found.items()}


def learned_of(history: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, Learned]:
    """Return what is expected of each op by its history; anything in it that is no history counts as nothing."""
    learned = {}
    for operation, sizes in history.items():
        total: dict[int, int] = {}
        slowest = 0.0
        for counts in sizes.values():
            own = {int(bucket): count for bucket, count in counts.items()}
            for bucket, count in own.items():
                total[bucket] = total.get(bucket, 0) + count
            if sum(own.values()) >= EXPECTATION_RECORDS:
                slowest = max(slowest, _percentile_95(own))
        if total:
            seconds = _percentile_95(total)
            learned[operation] = Learned(seconds, sum(total.values()), max(seconds, slowest))
    return learned


def _taken(records: Iterable[wire.OpRecord | wire.SampleRecord]) -> Iterator[tuple[str, str, float]]:
    for record in records:
        if isinstance(record, wire.SampleGroup) and record.seconds_max is not None:
            yield wire.SAMPLE, ANY_SIZE, record.seconds_max
        elif isinstance(record, wire.OpRecord) and record.status == _SUCCEEDED and record.elapsed_seconds is not None:
            yield record.operation, _size(record), record.elapsed_seconds


def _size(record: wire.OpRecord) -> str:
    amount, unit = (record.tokens, "tokens") if record.tokens else (record.datums, "datums")
    return f"{unit}:{int(math.log2(amount))}" if amount else ANY_SIZE


def _bucket(seconds: float) -> int:
    return math.floor(math.log(max(seconds, LEAST_SECONDS)) / math.log(GROWTH))


def _bounded(sizes: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    if sum(sum(counts.values()) for counts in sizes.values()) <= MOST_COUNT:
        return sizes
    halved = {
        size: {bucket: count // 2 for bucket, count in counts.items() if count > 1} for size, counts in sizes.items()
    }
    return _bounded({size: counts for size, counts in halved.items() if counts})


def _percentile_95(counts: Mapping[int, int]) -> float:
    """Return the upper end of the bucket with the nearest-rank 95th percentile."""
    rank = math.ceil(0.95 * sum(counts.values()))
    for bucket in sorted(counts):
        rank -= counts[bucket]
        if rank <= 0:
            return float(GROWTH ** (bucket + 1))
    return 0.0
