"""How long the ops of a run took, as counts that outlive the records: what is expected of the run without Redis. Pure.

A history is plain JSON: by op, by size and by bucket of seconds a count. Buckets grow by a tenth, so a percentile is
right to a tenth; sizes double, by tokens where records say them, else by datums. Of many records the newest count most:
all counts of an op are halved when they pass a thousand.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from telemetry_app.expectations import EXPECTATION_RECORDS
from telemetry_app.run_facts import Learned
from workers_client import wire

GROWTH = 1.1  # of one bucket to the next
LEAST_SECONDS, MOST_SECONDS = 1e-3, 1e9  # what is shorter or longer counts as that
MOST_COUNT = 1_000  # of one op
OPERATIONS_LIMIT = 64  # names of ops remembered of one run
ANY_SIZE = ""
_SUCCEEDED = wire.Status.SUCCEEDED.value

History = dict[str, dict[str, dict[str, int]]]
Size = tuple[str, int] | None  # unit, and how many binary digits the number of them has; None of unknown size


def grown(history: History, records: Iterable[wire.OpRecord | wire.SampleRecord]) -> History:
    """Return the history with these records in it, each of which must be new; failed and cancelled ops do not count."""
    found = {name: {size: dict(counts) for size, counts in sizes.items()} for name, sizes in history.items()}
    for (operation, size), seconds in _taken(records).items():
        if operation not in found and len(found) >= OPERATIONS_LIMIT:
            continue
        counts = found.setdefault(operation, {}).setdefault(_size_name(size), {})
        for bucket, count in _bucket_counts(seconds):
            counts[str(bucket)] = counts.get(str(bucket), 0) + count
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


def _taken(records: Iterable[wire.OpRecord | wire.SampleRecord]) -> dict[tuple[str, Size], list[float]]:
    """Return the seconds that ops took, by name and size: thousands in one snapshot."""
    taken: dict[tuple[str, Size], list[float]] = {}
    for record in records:
        if isinstance(record, wire.SampleGroup) and record.seconds_max is not None:
            taken.setdefault((wire.SAMPLE, None), []).append(record.seconds_max)
        elif isinstance(record, wire.OpRecord) and record.status == _SUCCEEDED and record.elapsed_seconds is not None:
            tokens, datums = record.tokens, record.datums
            size = ("tokens", tokens.bit_length()) if tokens else ("datums", datums.bit_length()) if datums else None
            taken.setdefault((record.operation, size), []).append(record.elapsed_seconds)
    return taken


def _size_name(size: Size) -> str:
    """Return the whole part of a size's logarithm to the base of two, with its unit."""
    return f"{size[0]}:{size[1] - 1}" if size else ANY_SIZE


def _bucket_counts(seconds: Sequence[float]) -> Iterator[tuple[int, int]]:
    """Return how many fall into each bucket: one logarithm a bucket, not one a record."""
    ordered = sorted(seconds)
    start = 0
    while start < len(ordered):
        bucket = _bucket(ordered[start])
        end = max(start + 1, bisect_left(ordered, GROWTH ** (bucket + 1), start))
        yield bucket, end - start
        start = end


def _bucket(seconds: float) -> int:
    return math.floor(math.log(min(max(seconds, LEAST_SECONDS), MOST_SECONDS)) / math.log(GROWTH))


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
