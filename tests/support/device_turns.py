"""Random GPU turns whose instants are whole minutes since 1970, so that runs share each minute in equal parts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from telemetry_app.device_turns import DeviceTurn, device_turn
from workers_client import wire

MINUTE = 60_000_000  # microseconds
_RUNS = st.sampled_from(["run-a", "run-b", "run-c", None])


def a_turn(number: int, start: int, length: int, *, wait: int | None = None, **fields: Any) -> DeviceTurn:
    """Return a turn from minute `start` on, which was waited for so many minutes."""
    requested_at = None if wait is None else 60.0 * (start - wait)
    turn = wire.TurnRecord(
        f"w-{number % 3}", 60.0 * start, 60.0 * (start + length), id=f"t:{number}", requested_at=requested_at, **fields
    )
    return device_turn(turn)


def some_turns(*, minutes: int = 200, most: int = 8, nodes: tuple[str | None, ...] = (None,)) -> st.SearchStrategy[Any]:
    """Return a strategy for turns that begin within so many minutes."""
    op = st.tuples(st.integers(0, 40), st.integers(0, 40), st.sampled_from(["forward_backward", "sleep"]), _RUNS)
    lengths = st.one_of(st.integers(0, 60), st.integers(0, minutes))
    one = st.tuples(
        st.integers(0, minutes), lengths, st.none() | lengths, st.lists(op, max_size=3), st.sampled_from(nodes)
    )
    return st.lists(one, max_size=most).map(
        lambda found: [
            a_turn(number, start, length, wait=wait, node=node, ops=tuple(
                wire.TurnOp(name, 60.0 * (start + first), 60.0 * (start + first + lasted), run_id=run)
                for first, lasted, name, run in ops
            ))
            for number, (start, length, wait, ops, node) in enumerate(found)
        ]
    )  # fmt: skip
