"""What the situations came out as, told as a confusion table at the end."""

from __future__ import annotations

import os
from collections import Counter

import pytest

# Takes minutes, and is asked for by name: script/scenarios --long.
collect_ignore = [] if os.environ.get("SCENARIOS") == "long" else ["test_healthy_hour.py"]
_OUTCOMES = pytest.StashKey[list[tuple[str, str, str, str]]]()


@pytest.fixture
def tell(request: pytest.FixtureRequest):
    """A function that notes what was expected and what was given."""
    outcomes = request.config.stash.setdefault(_OUTCOMES, [])

    def note(kind: str, name: str, expected: str, given: str) -> None:
        outcomes.append((kind, name, expected, given))

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table: each label that was expected with the labels that were given, and how often."""
    outcomes = config.stash.get(_OUTCOMES, [])
    if not outcomes:
        return
    terminalreporter.section("expected against given")
    counts = Counter((expected, given) for _, _, expected, given in outcomes)
    width = max(len(expected) for expected, _ in counts)
    for (expected, given), count in sorted(counts.items()):
        mark = "" if expected == given else "   <-- wrong"
        terminalreporter.write_line(f"{expected:<{width}}  {count:>3} × {given}{mark}")
    right = sum(expected == given for _, _, expected, given in outcomes)
    by_kind = Counter(kind for kind, *_ in outcomes)
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(by_kind.items()))
    terminalreporter.write_line(f"{right} of {len(outcomes)} right ({told})")
