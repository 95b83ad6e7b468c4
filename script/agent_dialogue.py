"""The dialogue in `docs/agents.md`: a real session with a running site, through the library's own client."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- script/dialogue writes from here -->", "<!-- to here -->"
SHOWN_ITEMS = 2
SHOWN_CHARACTERS = 110

Turn = tuple[str, dict[str, Any], dict[str, Any]]  # tool, arguments, answer


async def hold(url: str, token: str) -> list[Turn]:
    """Ask a site as an agent does that is told of trouble; returns what was asked and answered, nothing without any."""
    # Installed by the time it is called.
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    turns: list[Turn] = []
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):

        async def ask(tool: str, **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(tool, arguments)
            [content] = result.content
            turns.append((tool, arguments, json.loads(content.text)))
            return turns[-1][2]

        first = await ask("what_changed")
        troubled = first["runs_newly_in_trouble"]
        if not troubled:
            return []
        run = troubled[0]["run_id"]
        await ask("explain_run", run=run)
        await ask("stuck_requests", run=run)
        other = next(one["run_id"] for one in (await ask("find_runs", limit=5))["results"] if one["run_id"] != run)
        await ask("compare_runs", first=run, second=other)
        await ask("what_changed", cursor=first["cursor"])
    return turns


def written(turns: list[Turn]) -> str:
    """Return a dialogue for people to read: lists and long texts are shortened, all else is as it was."""
    parts = []
    for tool, arguments, answer in turns:
        size_bytes = len(json.dumps(answer, separators=(",", ":")))
        parts.append(
            f"**The agent** calls `{tool}` with\n\n```json\n{json.dumps(arguments, ensure_ascii=False)}\n```\n"
        )
        cut = "" if size_bytes < SHOWN_CHARACTERS else ", shortened here"
        parts.append(f"**The site** answers ({size_bytes:,} bytes{cut})\n\n```json\n{_folded(answer)}\n```\n")
    return "\n".join(parts)


def shape(turns: list[Turn]) -> list[tuple[str, list[str], list[str]]]:
    """Return of each turn the tool, and the names in its arguments and its answer."""
    return [(tool, sorted(arguments), sorted(answer)) for tool, arguments, answer in turns]


def read(page: str) -> list[Turn]:
    """Return the turns that stand in a page."""
    block = page.split(BEGIN)[1].split(END)[0]
    found = re.findall(r"calls `(\w+)` with\n\n```json\n(.*?)\n```.*?```json\n(.*?)\n```", block, re.DOTALL)
    return [(tool, json.loads(arguments), json.loads(answer)) for tool, arguments, answer in found]


def write(page: Path, turns: list[Turn]) -> None:
    """Put turns into a page, in place of those of before."""
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{written(turns)}\n{END}{after}")


def main(page: Path, url: str, token: str) -> None:
    """Hold a dialogue and put it into the page."""
    turns = asyncio.run(hold(url, token))
    if not turns:
        raise SystemExit("script/dialogue: no run is in trouble; see `Make trouble on purpose` in the README.")
    write(page, turns)
    print(f"{page}: {len(turns)} calls")


def _folded(answer: dict[str, Any]) -> str:
    """Return JSON with a field of the answer in each line."""
    fields = [f" {json.dumps(name)}: {_shortened(value)}" for name, value in answer.items()]
    return "{\n" + ",\n".join(fields) + "\n}"


def _shortened(value: Any) -> str:
    text = json.dumps(_cut(value, SHOWN_ITEMS), ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS else _lines(_cut(value, 1))


def _lines(value: Any) -> str:
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, dict) for item in items):
        return json.dumps(value, ensure_ascii=False)
    shown = [
        "{"
        + ",\n   ".join(f"{json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}" for name, one in item.items())
        + "}"
        for item in items
    ]
    return "[" + ",\n  ".join(shown) + "]" if isinstance(value, list) else shown[0]


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, list):
        return [_cut(item, most) for item in value[:most]]
    if isinstance(value, dict):
        return {name: _cut(item, most) for name, item in value.items()}
    return value
