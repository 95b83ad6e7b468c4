"""Metrics of an op: what stands in for non-finite values in an answer, and what a record keeps.

Numbers may be Python's, NumPy's or torch's scalars; neither library is imported here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# What OpenRL's workers answer in place of what JSON can't hold; a record names the metric instead.
STAND_INS = {"nan": 0.0, "inf": 9999.0, "-inf": -9999.0}


def plain_number(value: Any) -> float | None:
    """Return a Python float of a scalar (Python, NumPy or torch, a bool excepted), else None. May be non-finite."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:  # an integer beyond a double
            return math.inf if value > 0 else -math.inf
    item = getattr(value, "item", None)
    if item is None or getattr(value, "size", 1) in (0,):
        return None
    inner = item()
    return plain_number(inner) if isinstance(inner, (int, float)) else None


def kind_of(value: float) -> str | None:
    """Return `nan`, `inf` or `-inf`, or None of a finite number."""
    if math.isfinite(value):
        return None
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def sanitize(metrics: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the metrics with finite stand-ins, and the kind of each value that was replaced by name.

    A value that is no number stays as it is.
    """
    finite: dict[str, Any] = {}
    replaced: dict[str, str] = {}
    for name, value in metrics.items():
        number = plain_number(value)
        if number is None:
            finite[name] = value
            continue
        kind = kind_of(number)
        finite[name] = number if kind is None else STAND_INS[kind]
        if kind is not None:
            replaced[str(name)] = kind
    return finite, replaced


def recorded_number(value: Any) -> float | None:
    """Return what a record keeps of a metric that was not sanitized, as `plain_number`.

    A tensor on an accelerator counts as none: reading it would make the host wait for the device.
    """
    try:
        device = getattr(value, "device", None)
        if device is not None and not isinstance(value, (int, float)) and str(device) != "cpu":
            return None
        return plain_number(value)
    except Exception:  # noqa: BLE001 - one odd value costs one metric
        return None
