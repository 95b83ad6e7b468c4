"""The agents' tools through the library's own client, over both transports, against a real site."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from openrl_inspect.agent_answers import ANSWER_BYTES, encoded
from tests.openrl_inspect.conftest import FAILED_ID, GONE_WORKER, HEALTHY, LOST, NEIGHBOUR
from tests.support.workers import ROOT

TOOLS = [
    "runs_in_trouble", "find_runs", "explain_run", "run_steps", "failures", "stuck_requests", "workers", "compare_runs",
    "what_changed",
]  # fmt: skip
DEADLINE_SECONDS = 120


@asynccontextmanager
async def over_http(site):
    headers = {"Authorization": f"Bearer {site.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(f"{site.url}/mcp", http_client=http)) as client,
    ):
        yield client


@asynccontextmanager
async def over_stdio(environment):
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "openrl_inspect", "mcp"], env=environment, cwd=ROOT
    )
    async with Client(command) as client:
        yield client


def run(conversation, connection):
    """Hold a conversation over a connection, in an event loop of its own."""

    async def held():
        async with asyncio.timeout(DEADLINE_SECONDS), connection as client:
            return await conversation(client)

    return asyncio.run(held())


async def text_of(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    [content] = result.content
    return content.text


async def told(client, tool, **arguments):
    return json.loads(await text_of(client, tool, **arguments))


async def whole_conversation(client):
    """Ask each tool, and look at what matters of its answer."""
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == TOOLS
    assert all(tool.annotations.read_only_hint for tool in tools)
    [lost] = (await told(client, "runs_in_trouble"))["results"]
    assert (lost["run_id"], lost["state"]) == (LOST, "lost")
    found = await told(client, "find_runs", text="DIGITS")
    assert [one["run_id"] for one in found["results"]] == [HEALTHY]
    explained = await told(client, "explain_run", run="lost-0001")
    assert explained["stuck_requests"][0]["request_ids"] == ["request-x"]
    assert explained["workers"][0]["worker"] == GONE_WORKER
    assert GONE_WORKER in explained["evidence"][0]["text"]
    steps = await told(client, "run_steps", run="digits", last=2, metrics=["loss:mean"])
    assert [(step["step"], round(step["metrics"]["loss:mean"], 3)) for step in steps["results"]] == [
        (28, 0.069),
        (29, 0.067),
    ]
    assert [one["id"] for one in (await told(client, "failures", run=HEALTHY))["results"]] == [FAILED_ID]
    assert (await told(client, "stuck_requests"))["results"][0]["orphaned"] is True
    assert [one["worker"] for one in (await told(client, "workers", health="lost"))["results"]] == [GONE_WORKER]
    compared = await told(client, "compare_runs", first=HEALTHY, second=NEIGHBOUR)
    assert [one["run_id"] for one in compared["runs"]] == [HEALTHY, NEIGHBOUR]
    return await told(client, "what_changed")


def test_each_tool_answers_over_http(site):
    run(whole_conversation, over_http(site))


def test_each_tool_answers_over_stdio(site_environment):
    run(whole_conversation, over_stdio(site_environment))


def test_nothing_changed_is_a_few_bytes_and_a_change_is_told_once(site):
    async def conversation(client):
        first = await told(client, "what_changed")
        assert [one["run_id"] for one in first["runs_newly_in_trouble"]] == [LOST]
        assert [one["worker"] for one in first["workers_newly_lost"]] == [GONE_WORKER]
        assert [one["id"] for one in first["newest_failures"]] == [FAILED_ID]
        cursor = first["cursor"]
        assert await text_of(client, "what_changed", cursor=cursor) == '{"changed":false}'
        at, place, _, workers = cursor.split("~")
        second = await told(client, "what_changed", cursor=f"{at}~{place}~~{workers}")
        assert [one["run_id"] for one in second["runs_newly_in_trouble"]] == [LOST]
        assert second["workers_newly_lost"] == []
        third = await told(client, "what_changed", cursor=f"{at}~{place}~{'abcdef1'}~{workers}")
        assert third["runs_out_of_trouble_count"] == 1

    run(conversation, over_http(site))


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("explain_run", {"run": "sess"}, NEIGHBOUR),  # which candidates there are
        ("explain_run", {"run": "nobody"}, "No run has 'nobody' in its id"),
        ("run_steps", {"run": HEALTHY, "last": 51}, "less than or equal to 50"),
        ("failures", {"since": "yesterday"}, "since"),
        ("what_changed", {"cursor": "x"}, "cursor='x' is none"),
        ("what_changed", {"cursor": "99999999999999999~abcdef~~"}, "is none: send the one of an earlier answer"),
        ("what_changed", {"cursor": "1796047501040~abcdef~~"}, "is of another site than"),
    ],
)
def test_what_goes_wrong_is_told_to_the_agent(site, tool, arguments, sentence):
    async def conversation(client):
        result = await client.call_tool(tool, arguments)
        assert result.is_error
        assert sentence in result.content[0].text

    run(conversation, over_http(site))


def test_an_answer_that_is_too_long_loses_its_last_results_and_says_how_many():
    results = [{"run_id": f"{number:03}-" + "é" * 250} for number in range(60)]
    text = encoded({"total_matching": 60, "results": list(results)})
    assert len(text.encode()) <= ANSWER_BYTES
    answer = json.loads(text)
    assert answer["results"] == results[: len(answer["results"])]
    assert len(answer["results"]) + answer["left_out_for_length"] == 60


def test_an_answer_that_can_not_be_cut_is_an_error_and_no_flood():
    assert json.loads(encoded({"text": "x" * ANSWER_BYTES})) == {"error": "This answer is too long. Ask for less."}


# --- Who may ask ------------------------------------------------------------------------------------------------
MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HEADERS = {"Accept": "application/json, text/event-stream"}


def posted(site, **headers):
    return httpx2.post(f"{site.url}/mcp", json=MESSAGE, headers={**HEADERS, **headers}, timeout=60)


def test_without_a_token_nothing_is_told_not_even_which_tools_there_are(site):
    for headers in ({}, {"Authorization": "Token wrong"}):
        answer = posted(site, **headers)
        assert answer.status_code == 401
        assert "runs_in_trouble" not in answer.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 400),
        ({}, 200),
    ],
)
def test_pages_of_other_sites_and_rebound_names_are_refused(site, headers, status):
    assert posted(site, Authorization=f"Token {site.token}", **headers).status_code == status


def test_the_sites_own_origin_is_let_in(site):
    assert posted(site, Authorization=f"Token {site.token}", Origin=site.url).status_code == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_only_messages_are_taken(site, method):
    answer = httpx2.request(method, f"{site.url}/mcp", headers={"Authorization": f"Token {site.token}"}, timeout=60)
    assert answer.status_code == 405


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b'{"jsonrpc": "2.0"}', b"[" * 50_000, b"\xff"])
def test_what_is_no_message_is_refused(site, body):
    headers = {**HEADERS, "Content-Type": "application/json", "Authorization": f"Token {site.token}"}
    assert httpx2.post(f"{site.url}/mcp", content=body, headers=headers, timeout=60).status_code == 400
