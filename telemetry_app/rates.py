"""Rates from instants. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

RATE_INSTANTS = 50  # newest instants a rate is taken over: recent, yet steady
SHORTEST_SPAN_SECONDS = 1.0  # a rate over less says nothing
RATE_WINDOW_SECONDS = 900.0  # a run without a step for so long has no rate now


def per_hour(instants: Sequence[float], *, now: float) -> float | None:
    """Return how many of `instants` (unix seconds, any order) come an hour, over the newest 50.

    None where fewer than two are known or the newest is older than 15 minutes: unknown is not 0.
    """
    newest = sorted(instants)[-RATE_INSTANTS:]
    if len(newest) < 2 or newest[-1] < now - RATE_WINDOW_SECONDS or newest[-1] == newest[0]:
        return None
    return 3600.0 * (len(newest) - 1) / (newest[-1] - newest[0])


def per_second(amounts: Iterable[tuple[float, float]], *, now: float, window_seconds: float) -> float | None:
    """Return the sum of the amounts (instant, amount) of the last `window_seconds` a second; None without any.

    Where the oldest instant at hand is younger than the window, as of a run that just began or of a list that keeps
    the newest records alone, the rate is taken since that instant, over a second at least.
    """
    known = list(amounts)
    inside = [amount for instant, amount in known if instant > now - window_seconds]
    if not inside:
        return None
    since_oldest = now - min(instant for instant, _ in known)
    return sum(inside) / min(window_seconds, max(SHORTEST_SPAN_SECONDS, since_oldest))


def percentile_95(values: Sequence[float]) -> float | None:
    """Return the nearest-rank 95th percentile, or None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * 95 // 100) - 1)]
