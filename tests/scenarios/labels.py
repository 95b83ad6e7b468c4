"""The words in which situations are told: a state, and the incidents that are open or have passed."""

from __future__ import annotations

from collections.abc import Iterable


def words(state: str, incidents: Iterable[str], passed: Iterable[str] = ()) -> str:
    """Return a label: the state, and in brackets the incidents that are open, and those that passed."""
    return f"{state} [{', '.join([*sorted(incidents), *(f'{code} passed' for code in sorted(passed))])}]"


def is_right(expected: str, given: str) -> bool:
    """Say whether a label is what was expected; states that are all right are joined by `or`."""
    states, bracket, rest = expected.partition(" [")
    return given in {f"{state}{bracket}{rest}" for state in states.split(" or ")}
