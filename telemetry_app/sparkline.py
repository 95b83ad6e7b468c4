"""A line of numbers as a small picture without axes (SVG). Pure."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT, MARGIN = 96, 22, 2


def sparkline_points(values: Sequence[float]) -> str:
    """Return the points of a polyline in a box of 96 by 22, oldest value first; 0 is its floor, the largest its top."""
    most = max(values, default=0.0) or 1.0
    across = (WIDTH - 2 * MARGIN) / max(1, len(values) - 1)
    up = HEIGHT - 2 * MARGIN
    return " ".join(
        f"{MARGIN + index * across:.1f},{HEIGHT - MARGIN - up * value / most:.1f}" for index, value in enumerate(values)
    )
