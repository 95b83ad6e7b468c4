"""Answers as CSV."""

from __future__ import annotations

import csv
import gzip
import io
import time

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from telemetry_app.api import tables, views
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, op, sample_failure, step_of_ops
from tests.telemetry_app.api.conftest import BASE, run_path

pytestmark = pytest.mark.django_db


def table(api, path, **headers):
    sent = {"Authorization": f"Token {api.token}", "Accept": "text/csv", **headers}
    response = api.client.get(BASE + path, headers=sent)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/csv; charset=utf-8"
    content = b"".join(response.streaming_content)
    text = (gzip.decompress(content) if response.headers.get("Content-Encoding") == "gzip" else content).decode()
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def some_steps(writer, now):
    for step in range(4):
        writer.operations(*step_of_ops(step, at=now - 60 + step))
    writer.operations(op(at=now - 50, step=4, status="failed", error_type='=cmd|"/c calc"!A1'))
    writer.samples(sample_failure(at=now - 40))
    writer.steps(4)
    writer.active(RUN, now)
    return writer


def test_steps_have_a_row_for_each_op(api, some_steps):
    rows = table(api, run_path(RUN, "/steps"))
    steps = api.results(run_path(RUN, "/steps"))
    assert [(int(row["step"]), row["operation"]) for row in rows] == [
        (step["step"], name) for step in steps for name in step["operations"]
    ]
    first = steps[0]["operations"][rows[0]["operation"]]
    assert float(rows[0]["seconds"]) == first["seconds"]
    for metric, spread in first["metrics"].items():
        assert float(rows[0][f"metrics.{metric}.mean"]) == spread["mean"]


def test_steps_have_the_fields_asked_for(api, some_steps):
    rows = table(api, run_path(RUN, "/steps") + "?last=2&fields=wall_seconds")
    assert list(rows[0]) == ["step", "wall_seconds"]


@pytest.mark.parametrize("part", ["/operations", "/failures"])
@pytest.mark.parametrize("kept", ["live", "both", "history"])
def test_a_table_has_all_pages(api, some_steps, part, kept, monkeypatch):
    if kept != "live":
        take_snapshot()
    if kept == "history":
        some_steps.client.flushdb()
    expected = [result["id"] for result in api.walk(run_path(RUN, part), page_size=2)]
    monkeypatch.setattr(views, "MOST_PAGE_SIZE", 3)
    assert [row["id"] for row in table(api, run_path(RUN, part))] == expected
    assert len(expected) > 1


def test_metric_series_are_a_table_of_points(api, some_steps):
    some_steps.operations(*(op(at=time.time(), step=step, metrics={"loss:mean": step / 3}) for step in range(4)))
    path = "/metrics?points=2&names=loss:mean"
    rows = table(api, run_path(RUN, path))
    points = [point for series in api.results(run_path(RUN, path)) for point in series["points"]]
    assert [(int(row["step"]), float(row["max"])) for row in rows] == [(each["step"], each["max"]) for each in points]
    assert rows


def test_failures_of_all_runs_are_a_table_too(api, some_steps):
    rows = table(api, "/failures?run=run-a")
    assert [row["kind"] for row in rows] == ["sample", "operation"]


def test_no_text_is_a_formula(api, some_steps):
    [row] = [row for row in table(api, run_path(RUN, "/failures")) if row["kind"] == "operation"]
    assert row["error_type"] == '\'=cmd|"/c calc"!A1'


@pytest.mark.parametrize("value", ["=1", "+1", "-1", "@x", "\tx", "\rx", "\nx"])
def test_a_text_that_begins_like_a_formula_is_quoted(value):
    assert tables._cell(value) == f"'{value}"


@pytest.mark.parametrize(("value", "cell"), [(-1.5, -1.5), (None, ""), (True, "true"), ({"a": 1}, '{"a":1}')])
def test_other_values_stay_what_they_are(value, cell):
    assert tables._cell(value) == cell


def test_a_table_is_compressed_for_those_who_take_it(api, some_steps):
    path = run_path(RUN, "/operations")
    assert table(api, path, **{"Accept-Encoding": "gzip"}) == table(api, path)


def test_what_is_no_table_is_not_acceptable_as_one(api, some_steps):
    headers = {"Authorization": f"Token {api.token}", "Accept": "text/csv"}
    assert api.client.get(f"{BASE}/workers", headers=headers).status_code == 406


def test_an_error_is_json_whatever_was_asked_for(api, some_steps):
    headers = {"Authorization": f"Token {api.token}", "Accept": "text/csv"}
    for path in (run_path(RUN, "/steps?last=0"), run_path("nobody", "/operations")):
        response = api.client.get(BASE + path, headers=headers)
        assert response.headers["Content-Type"] == "application/json"
        assert response.json()["errors"]


@pytest.mark.django_db(transaction=True)
def test_a_table_is_streamed_under_asgi_too(api, some_steps):
    async def ask():
        headers = {"Authorization": f"Token {api.token}", "Accept": "text/csv"}
        response = await AsyncClient().get(BASE + run_path(RUN, "/operations"), headers=headers)
        return b"".join([chunk async for chunk in response.streaming_content])

    rows = list(csv.DictReader(io.StringIO(async_to_sync(ask)().decode())))
    assert [row["id"] for row in rows] == [result["id"] for result in api.results(run_path(RUN, "/operations"))]
