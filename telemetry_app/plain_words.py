"""How sentences write names of the contract and spans of time, on pages and in messages alike. Pure."""

from __future__ import annotations

_CAPITALS = {"gpu": "GPU", "api": "API", "redis": "Redis", "postgres": "PostgreSQL", "p99": "99th percentile"}
_UNITS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))  # each with the next smaller one


def in_words(name: str) -> str:
    """Write a name of the contract as words: `waiting_for_gpu` is "waiting for GPU"."""
    return " ".join(_CAPITALS.get(word, word) for word in name.split("_"))


def span_words(seconds: float) -> str:
    """Write whole seconds in the two largest of their units: `45 s`, `4 min 10 s`, `2 h 5 min`, `3 d 1 h`."""
    total = round(seconds)
    for size, unit, below, smaller in _UNITS:
        if total >= size:
            rest = total % size // below
            return f"{total // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{total} s"


def exact_span_words(seconds: float) -> str:
    """Write what is compared with other spans: below a minute in three digits (`0.076 s`), else as any span."""
    return f"{seconds:.3g} s" if seconds < 59.5 else span_words(seconds)


def counted(count: int, one: str, many: str) -> str:
    """Write how many there are of something: `1 request waits`, `3 requests wait`."""
    return f"{count} {one if count == 1 else many}"
