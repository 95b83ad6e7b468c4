"""The dialogue in the documentation is one that the tools still hold."""

from __future__ import annotations

import asyncio

import agent_dialogue

from tests.support.workers import ROOT

PAGE = ROOT / "docs" / "agents.md"
OPTIONAL = {
    "coverage",
    "left_out_for_length",
    "chain",
    "findings",
    "counter_evidence",
    "expectation",
    "also",
    "samples",
    "queue_depth",
}


def test_a_session_has_the_shape_of_the_one_in_the_page(site, tmp_path):
    turns = asyncio.run(agent_dialogue.hold(site.url, site.token))
    kept = agent_dialogue.read(PAGE.read_text())
    assert without_optional(agent_dialogue.shape(turns)) == without_optional(agent_dialogue.shape(kept))
    assert turns[-1][2] == {"changed": False}


def without_optional(shape):
    return [(tool, arguments, [name for name in answer if name not in OPTIONAL]) for tool, arguments, answer in shape]


def test_what_is_written_is_read_again(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{agent_dialogue.BEGIN}\nold\n{agent_dialogue.END}\nafter\n")
    turns = [("a_tool", {"run": "r"}, {"results": [1, 2, 3], "text": "x" * 200, "in": {"b": [{"c": 1}]}})]
    agent_dialogue.write(page, turns)
    assert agent_dialogue.read(page.read_text()) == [
        ("a_tool", {"run": "r"}, {"results": [1, 2], "text": "x" * 200, "in": {"b": [{"c": 1}]}})
    ]
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("\nafter\n")
