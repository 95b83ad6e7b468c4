"""The table of situations names tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")
ROWS = [line for line in (HERE / "CASES.md").read_text("utf-8").splitlines() if line.startswith("| ")][1:]


def test_every_situation_names_a_test_that_there_is():
    missing = [
        f"{file}::{name}"
        for row in ROWS
        for file, name in NAMED.findall(row)
        if f"\ndef {name}(" not in (HERE.parent / file).read_text("utf-8")
    ]
    assert missing == []


def test_every_situation_is_held_by_a_test():
    assert [row for row in ROWS if not NAMED.search(row)] == []
    assert len(ROWS) > 20
