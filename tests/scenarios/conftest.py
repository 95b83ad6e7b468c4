"""What the situations came out as, told as a confusion table at the end."""

from __future__ import annotations

import os
from collections import Counter
from typing import NamedTuple

import pytest

from tests.scenarios.labels import is_right

# Takes minutes, and is asked for by name: script/scenarios --long and --fleet.
_IGNORED = {
    "long": ["test_fleet_situations.py"],
    "all": ["test_fleet_situations.py", "test_healthy_hour.py"],
    "fleet": ["test_situations.py", "test_healthy_hour.py"],
}
collect_ignore = _IGNORED.get(os.environ.get("SCENARIOS", ""), ["test_healthy_hour.py"])


class Outcome(NamedTuple):
    """What was expected of a situation, and what was given, so many seconds after it happened."""

    kind: str
    name: str
    expected: str
    given: str
    seconds: float | None

    @property
    def is_right(self) -> bool:
        return is_right(self.expected, self.given)


_OUTCOMES = pytest.StashKey[list[Outcome]]()


@pytest.fixture
def tell(request: pytest.FixtureRequest):
    """A function that notes what was expected and what was given."""
    outcomes = request.config.stash.setdefault(_OUTCOMES, [])

    def note(kind: str, name: str, expected: str, given: str, seconds: float | None = None) -> None:
        outcomes.append(Outcome(kind, name, expected, given, seconds))

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table: each label that was expected with the labels that were given, and how often."""
    outcomes = config.stash.get(_OUTCOMES, [])
    if not outcomes:
        return
    timed = [outcome for outcome in outcomes if outcome.seconds is not None]
    if timed:
        terminalreporter.section("seconds until it was told")
    for outcome in timed:
        terminalreporter.write_line(f"{outcome.seconds:>5.0f}  {outcome.name}: {outcome.given}")
    terminalreporter.section("expected against given")
    counts = Counter((outcome.expected, outcome.given) for outcome in outcomes)
    width = max(len(expected) for expected, _ in counts)
    for (expected, given), count in sorted(counts.items()):
        mark = "" if is_right(expected, given) else "   <-- wrong"
        terminalreporter.write_line(f"{expected:<{width}}  {count:>3} × {given}{mark}")
    right = sum(outcome.is_right for outcome in outcomes)
    by_kind = Counter(outcome.kind for outcome in outcomes)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(by_kind.items()))
    terminalreporter.write_line(f"{right} of {len(outcomes)} right ({told})")
