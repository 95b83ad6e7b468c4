"""`?fields=`: keep only the named paths of each step, and refuse one that nothing answers to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from telemetry_app.exceptions import InvalidQueryError

MOST_PATHS = 100
MOST_KNOWN_SHOWN = 60
_STEP = ("step", "completed", "started_at", "finished_at", "wall_seconds", "failures", "operations")
_OPERATION = ("count", "failures", "seconds", "queue_seconds", "metrics", "nonfinite")
_SPREAD = ("count", "min", "mean", "max", "last")


def select_fields(steps: Sequence[Mapping[str, Any]], raw: str) -> list[dict[str, Any]]:
    """Keep of each step what the comma-separated paths name; `step` is always there.

    Names of ops and metrics are those that the steps at hand have; without any steps every such name passes.

    Raises:
        InvalidQueryError: a path is unknown; the message lists the known ones.
    """
    paths = [path.strip() for path in raw.split(",") if path.strip()]
    if len(paths) > MOST_PATHS:
        raise InvalidQueryError("fields", f"fields has {len(paths)} paths; {MOST_PATHS} are allowed.")
    known = dict(_known_paths(steps))
    chosen: list[tuple[str, ...]] = [("step",)]
    for path in paths:
        parts = known.get(path) or (None if steps else _well_formed(path))
        if parts is None:
            shown = sorted(known)[:MOST_KNOWN_SHOWN]
            more = "" if len(known) <= MOST_KNOWN_SHOWN else f" and {len(known) - MOST_KNOWN_SHOWN} more"
            raise InvalidQueryError("fields", f"{path[:200]!r} is no field. Known are {', '.join(shown)}{more}.")
        chosen.append(parts)
    return [_kept(step, chosen) for step in steps]


def _known_paths(steps: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each path with its parts: names of metrics may hold dots, so a path is never split to find them."""
    for name in _STEP:
        yield name, (name,)
    seen: set[tuple[str, ...]] = set()
    for step in steps:
        for operation, group in step["operations"].items():
            for parts in _operation_paths(operation, group):
                if parts not in seen:
                    seen.add(parts)
                    yield ".".join(parts), parts


def _operation_paths(operation: str, group: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    yield "operations", operation
    for name in _OPERATION:
        yield "operations", operation, name
    for metric in group["metrics"]:
        yield "operations", operation, "metrics", metric
        for name in _SPREAD:
            yield "operations", operation, "metrics", metric, name
    for metric in group["nonfinite"]:
        yield "operations", operation, "nonfinite", metric


def _well_formed(path: str) -> tuple[str, ...] | None:
    parts = tuple(path.split("."))
    return parts if parts[0] == "operations" and (len(parts) < 3 or parts[2] in _OPERATION) else None


def _kept(step: Mapping[str, Any], chosen: Iterable[tuple[str, ...]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for parts in chosen:
        source: Any = step
        target = result
        for depth, part in enumerate(parts):
            if not isinstance(source, Mapping) or part not in source:
                break
            source = source[part]
            if depth == len(parts) - 1:
                target[part] = source
            else:
                inner = target.get(part)
                target[part] = inner if isinstance(inner, dict) else {}
                target = target[part]
    return result
