"""Checks of single values found on the wire: each returns the usable value, or None (an empty mapping) for none.

Content of Redis is not trusted: numbers may have 400 digits, strings may hold NUL (which PostgreSQL refuses) or lone
surrogates, anything may have another type than expected.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from typing import Any

METRICS_LIMIT = 256  # metrics of one op
METRIC_NAME_LIMIT = 128  # characters
TEXT_LIMIT = 512  # characters of any other text
COUNT_LIMIT = 2**53  # what every JSON reader can hold; PostgreSQL's bigint holds the sum of a thousand of them
LAST_INSTANT = 253_402_300_799.0  # the end of the year 9999, the last that datetime can hold
NONFINITE_KINDS = frozenset({"nan", "inf", "-inf"})
UNKNOWN_KIND = "unknown"  # a metric named without its kind


def text(value: Any) -> str | None:
    """Return a non-empty text of at most 512 characters, or None; what no store can hold is replaced by U+FFFD."""
    if not isinstance(value, str) or not 0 < len(value) <= TEXT_LIMIT:
        return None
    if value.isprintable():  # the common case: neither NUL nor surrogates
        return value
    return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def number(value: Any) -> float | None:
    """Return a finite float, or None. A bool is no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        result = float(value)
    except OverflowError:  # an integer of 400 digits
        return None
    return result if math.isfinite(result) else None


def instant(value: Any) -> float | None:
    """Return unix seconds between 1970 and 9999, or None.

    Rounded to microseconds, which is what PostgreSQL keeps: live answers and history must agree to the last digit.
    """
    result = round(number(value) or 0.0, 6)
    return result if 0 < result <= LAST_INSTANT else None


def duration(value: Any) -> float | None:
    """Return seconds, never negative, or None."""
    result = number(value)
    return result if result is not None and result >= 0 else None


def count(value: Any) -> int | None:
    """Return a whole number from 0 to 2**53, or None; `4.0` counts as 4."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= COUNT_LIMIT:
        return None
    return value


def metrics(value: Any, *, without: Container[str] = ()) -> dict[str, float]:
    """Return the finite metrics by name, 256 at most; a name in `without` is a stand-in for a non-finite value."""
    if not isinstance(value, Mapping):
        return {}
    result: dict[str, float] = {}
    for name, raw in value.items():
        checked = number(raw)
        if checked is None or name in without or not _is_metric_name(name):
            continue
        result[name] = checked
        if len(result) == METRICS_LIMIT:
            break
    return result


def nonfinite(value: Any) -> dict[str, str]:
    """Return the kind (`nan`, `inf`, `-inf`) by metric name, 256 at most; a bare list of names has kind `unknown`."""
    if isinstance(value, list):
        value = dict.fromkeys((name for name in value if isinstance(name, str)), UNKNOWN_KIND)
    if not isinstance(value, Mapping):
        return {}
    names = [name for name in value if _is_metric_name(name)][:METRICS_LIMIT]
    return {name: _kind(value[name]) for name in names}


def nonfinite_of(metrics: Any) -> dict[str, str]:
    """Return the kinds of the metrics that are themselves NaN or infinite, as writers of bare NaN leave them."""
    if not isinstance(metrics, Mapping):
        return {}
    return {
        name: "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
        for name, value in metrics.items()
        if isinstance(value, float) and not math.isfinite(value) and _is_metric_name(name)
    }


def merged_nonfinite(metrics: Any, named: Any) -> dict[str, str]:
    """Return the kinds of all non-finite metrics, 256 at most: those named, and those that stand bare in `metrics`."""
    both = nonfinite(named)
    for name, kind in nonfinite_of(metrics).items():
        if len(both) == METRICS_LIMIT:
            break
        both.setdefault(name, kind)
    return both


def _kind(value: Any) -> str:
    return value if isinstance(value, str) and value in NONFINITE_KINDS else UNKNOWN_KIND


def _is_metric_name(name: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= METRIC_NAME_LIMIT and name.isprintable()
