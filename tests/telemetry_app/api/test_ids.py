"""Every run is reachable whatever its id: servers decode a path before it is routed."""

from __future__ import annotations

import io
import json
from urllib.parse import quote, unquote

import pytest
from django.core.handlers.asgi import ASGIRequest
from django.urls import resolve

from telemetry_app.snapshots import take_snapshot
from tests.support.records import op
from tests.telemetry_app.api.conftest import BASE, run_path
from workers_client import wire

pytestmark = pytest.mark.django_db
IDS = [
    "Qwen/Qwen3-8B", "0f9c:train:0", "a#b", "100%", "a%2Fb", "a b", "läuft 🚀", "🚀" * 256, "a?b=c&d", "..", "a/../b",
    "a//b", "/a", "a/", "steps", "runs", "a+b", "a\\b", "\"'<script>", "a;b", "tinker://run-a/weights",
]  # fmt: skip
PARTS = [
    "",
    "/steps",
    "/operations",
    "/failures",
    "/requests",
    "/turns",
    "/samples",
    "/metrics",
    "/verdict",
    "/incidents",
]


@pytest.mark.parametrize("run_id", IDS)
def test_a_run_is_reachable_with_all_its_parts_live_and_from_history(api, writer, now, run_id):
    writer.operations(op(at=now, run_id=run_id, status="failed"))
    assert [api.answer(run_path(run_id, part))["run_id"] for part in PARTS] == [run_id] * len(PARTS)
    take_snapshot()
    writer.client.flushdb()
    assert [api.answer(run_path(run_id, part))["run_id"] for part in PARTS] == [run_id] * len(PARTS)
    assert [run["run_id"] for run in api.results("/runs")] == [run_id]


@pytest.mark.parametrize("run_id", ["Qwen/Qwen3-8B", "a/b/c"])
def test_a_slash_may_stand_plain(api, writer, now, run_id):
    writer.operations(op(at=now, run_id=run_id))
    for part in PARTS:
        assert api.answer(f"/runs/{run_id}{part}")["run_id"] == run_id


@pytest.mark.parametrize("part", PARTS[1:])
def test_a_run_whose_id_ends_like_a_part_is_reachable(api, writer, now, part):
    run_id = f"a{part}"
    writer.operations(op(at=now, run_id=run_id))
    answer = api.answer(run_path(run_id))
    assert answer["run_id"] == run_id
    assert "ledger" in answer
    assert api.answer(run_path(run_id, part))["run_id"] == run_id


@pytest.mark.parametrize("part", PARTS[1:])
def test_of_two_runs_one_of_which_ends_like_a_part_the_part_is_meant_where_the_slash_is_plain(api, writer, now, part):
    writer.operations(op(at=now, run_id="a"), op(at=now, run_id=f"a{part}"))
    answer = api.answer(f"/runs/a{part}")
    assert answer["run_id"] == "a"
    assert "ledger" not in answer


@pytest.mark.parametrize("part", PARTS[1:])
def test_of_two_runs_one_of_which_ends_like_a_part_each_is_meant_by_its_own_path(writer, now, token, part):
    writer.operations(op(at=now, run_id="a"), op(at=now, run_id=f"a{part}"))
    answers = {slash: answer_of_a_server(f"/runs/a{slash}{part[1:]}", token) for slash in ("/", "%2F", "%2f")}
    assert {slash: (answer["run_id"], "ledger" in answer) for slash, answer in answers.items()} == {
        "/": ("a", False),
        "%2F": (f"a{part}", True),
        "%2f": (f"a{part}", True),
    }


def answer_of_a_server(path, token):
    """Return the answer to a path of which the server keeps the undecoded form, as servers of ASGI do."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": unquote(BASE + path),
        "raw_path": (BASE + path).encode(),
        "query_string": b"",
        "headers": [(b"authorization", f"Token {token}".encode()), (b"host", b"localhost")],
    }
    request = ASGIRequest(scope, io.BytesIO())
    match = resolve(unquote(f"{BASE}{path}"))
    return json.loads(match.func(request, *match.args, **match.kwargs).render().content)


@pytest.mark.parametrize(
    "reference", ["tinker://run-a/sampler_weights/000003", "tinker://run-a/weights", "tinker://run-a"]
)
def test_a_reference_means_its_run(api, writer, now, reference):
    writer.operations(op(at=now, run_id="run-a"))
    for part in PARTS:
        assert api.answer(run_path(reference, part))["run_id"] == "run-a"


@pytest.mark.parametrize("run_id", ["nobody", "x:samples", "a\x00b", "x" * 257, "\ufffd"])
@pytest.mark.parametrize("part", PARTS)
def test_an_id_that_no_run_has_is_not_found(api, writer, now, run_id, part):
    writer.operations(op(at=now, run_id="x"))
    writer.client.rpush(wire.samples_key("x"), "1")
    assert api.answer(run_path(run_id, part), 404)["errors"][0]["code"] == "not_found"


@pytest.mark.parametrize("worker", ["nobody", "a\x00b", "x" * 600])
def test_an_id_that_no_worker_has_is_not_found(api, writer, worker):
    assert api.answer(f"/workers/{quote(worker, safe='')}", 404)["errors"][0]["code"] == "not_found"


def test_pages_of_a_run_with_an_odd_id_go_on(api, writer, now):
    run_id = "Qwen/Qwen3 8B:#100%"
    writer.operations(*(op(at=now, run_id=run_id, id=f"w:{n}") for n in range(5)))
    assert len(api.walk(run_path(run_id, "/operations"), page_size=2)) == 5
