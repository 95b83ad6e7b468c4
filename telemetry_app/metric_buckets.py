"""Metrics by buckets of steps, for plots. Pure.

A bucket is `width` steps wide, a power of two, and begins at a multiple of it: the same steps make the same bucket each
time, while the run goes on too, until the width doubles. It keeps the least and the greatest value there were.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from telemetry_app.grouping import MetricSpread, OperationGroup, OperationKey

MOST_OF_A_MEAN = 1e290  # a value counts as at most so much in a mean: sums stay finite

SeriesKey = tuple[str, str]  # op and metric name


@dataclass(slots=True)
class Bucket:
    """The values of one metric in some steps: how many ops reported one, and which were least, greatest and newest."""

    count: int = 0
    total: float = 0.0
    least: float = math.inf
    least_step: int = 0
    greatest: float = -math.inf
    greatest_step: int = 0
    last: float = 0.0
    last_step: int = -1

    def add(self, other: Bucket) -> None:
        """Count other values of the bucket: equal extremes keep the earlier step, equal last steps `other`'s value."""
        self.count += other.count
        self.total += other.total
        self.least, self.least_step = min((self.least, self.least_step), (other.least, other.least_step))
        greatest, step = max((self.greatest, -self.greatest_step), (other.greatest, -other.greatest_step))
        self.greatest, self.greatest_step = greatest, -step
        if other.last_step >= self.last_step:
            self.last, self.last_step = other.last, other.last_step

    @property
    def mean(self) -> float:
        """The mean over ops."""
        return self.total / self.count


Buckets = dict[int, Bucket]


def width_for(first: int, last: int, points: int) -> int:
    """Return the least power of two with which the steps from `first` to `last` make at most `points` buckets."""
    width = 1
    while last // width - first // width + 1 > points:
        width *= 2
    return width


def buckets_of(
    groups: Iterable[tuple[OperationKey, OperationGroup]], names: frozenset[str], width: int
) -> dict[SeriesKey, Buckets]:
    """Fold groups of ops into buckets by op and metric."""
    series: dict[SeriesKey, Buckets] = {}
    for (step, operation), group in groups:
        for name in names & group.metrics.keys():
            found = _of_spread(group.metrics[name], step)
            if found is not None:
                series.setdefault((operation, name), {}).setdefault(step // width, Bucket()).add(found)
    return series


def _of_spread(spread: MetricSpread, step: int) -> Bucket | None:
    if spread.min is None or spread.mean is None or spread.max is None or spread.last is None:
        return None  # it was never finite
    mean = min(max(spread.mean, -MOST_OF_A_MEAN), MOST_OF_A_MEAN)
    total = mean * spread.count
    return Bucket(spread.count, total, spread.min, step, spread.max, step, spread.last, step)
