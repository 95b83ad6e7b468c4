"""The documentation names every command, exit status and tool there is."""

from __future__ import annotations

import asyncio
import re
from contextlib import nullcontext

from openrl_inspect import addresses
from openrl_inspect.agent_answers import ANSWER_BYTES
from openrl_inspect.agent_tools import INSTRUCTIONS, agent_server
from openrl_inspect.exceptions import ExitStatus
from openrl_inspect.export import traces
from openrl_inspect.program import program
from tests.support.workers import ROOT

COMMAND_LINE = (ROOT / "docs" / "command-line.md").read_text()
AGENTS = (ROOT / "docs" / "agents.md").read_text()


def test_every_command_has_a_help_and_a_place_in_the_page():
    for name, command in program.commands.items():
        assert re.search(rf"\b{name}\b", COMMAND_LINE.split("## Commands")[1].split("## In scripts")[0])
        assert command.help


def test_every_exit_status_and_variable_is_in_the_page():
    listed = re.findall(r"^\| (\d+) \|", COMMAND_LINE, re.MULTILINE)
    assert listed == [str(int(status)) for status in ExitStatus]
    for name in (addresses.URL_VARIABLE, addresses.TOKEN_VARIABLE, addresses.CONFIG_VARIABLE):
        assert f"`{name}`" in COMMAND_LINE
    assert f"{traces.MOST_RECORDS:,} ops" in COMMAND_LINE


def test_every_tool_is_in_the_page_and_says_its_bounds_and_units():
    tools = asyncio.run(agent_server(nullcontext).list_tools())
    assert [tool.name for tool in tools] == re.findall(r"^\| `(\w+)` \|", AGENTS, re.MULTILINE)
    for tool in tools:
        assert re.search(r"[Aa]t most|bytes", tool.description), tool.name
        for field in tool.input_schema["properties"].values():
            assert "description" in field or "anyOf" in field
    assert f"{ANSWER_BYTES:,} bytes" in INSTRUCTIONS
    assert f"{ANSWER_BYTES:,} bytes" in AGENTS
