"""Answers that the caller has already, and compressed ones."""

from __future__ import annotations

import gzip
import json

import pytest

from telemetry_app import readers
from telemetry_app.models import Run
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, op, step_of_ops, worker
from tests.telemetry_app.api.conftest import BASE, run_path

pytestmark = pytest.mark.django_db
RECORDS = [run_path(RUN, part) for part in ("/steps", "/operations", "/failures")]
PATHS = ["/runs", "/failures", "/workers", "/retention", *RECORDS]


@pytest.fixture
def some_steps(writer, now):
    for step in range(12):
        writer.operations(*step_of_ops(step, at=now - 1_500 + step))
    writer.operations(op(at=now - 1_400, step=12, status="failed"))
    writer.workers(worker("w-1", at=now - 1_300))
    writer.steps(12)
    writer.active(RUN, now - 1_300)
    return writer


def get(api, path, **headers):
    return api.client.get(BASE + path, headers={"Authorization": f"Token {api.token}", **headers})


@pytest.mark.parametrize("path", PATHS)
def test_an_answer_that_did_not_change_is_not_sent_again(api, some_steps, path):
    first = get(api, path)
    tag = first.headers["ETag"]
    assert tag.startswith('W/"')
    second = get(api, path, **{"If-None-Match": f'"other", {tag}'})
    assert (second.status_code, second.content) == (304, b"")
    assert second.headers["ETag"].startswith(tag.removesuffix('"'))
    assert "no-cache" in second.headers["Cache-Control"]
    assert get(api, path, **{"If-None-Match": second.headers["ETag"]}).status_code == 304
    assert get(api, path, **{"If-None-Match": '"other"'}).status_code == 200
    assert get(api, path, **{"If-None-Match": "*"}).status_code == 304


def versioned_tag(api, path):
    """Return the tag of an answer to one who asked with a tag: it names the version of the records too."""
    tag = get(api, path, **{"If-None-Match": '"other"'}).headers["ETag"]
    assert "-" in tag
    return tag


@pytest.mark.parametrize("path", RECORDS)
def test_records_that_did_not_change_are_not_even_read(api, some_steps, path, monkeypatch):
    tag = versioned_tag(api, path)
    monkeypatch.setattr(readers, "read_runs", None)
    answer = get(api, path, **{"If-None-Match": tag})
    assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", tag)


@pytest.mark.parametrize("path", RECORDS)
def test_who_asks_without_a_tag_pays_nothing_for_it(api, some_steps, path, monkeypatch):
    monkeypatch.setattr(readers, "read_run_marks", None)
    assert get(api, path).status_code == 200


def one_more_op(writer, now):
    writer.operations(op(at=now - 1_000, step=12, id="w:new"))


def a_snapshot(writer, now):
    take_snapshot()


def a_loss(writer, now):
    writer.workers(worker("w-1", at=now - 1_300, buffer={"dropped": {"operation": {"queue_full": 3}}}))


def removed_history(writer, now):
    take_snapshot()
    Run.objects.update(missing_records=7)


@pytest.mark.parametrize("path", RECORDS)
@pytest.mark.parametrize("change", [one_more_op, a_snapshot, a_loss, removed_history])
def test_an_answer_that_changed_is_sent(api, some_steps, now, path, change):
    tag = versioned_tag(api, path)
    change(some_steps, now)
    answer = get(api, path, **{"If-None-Match": tag})
    assert answer.status_code == 200
    assert answer.headers["ETag"] != tag


def test_a_tag_belongs_to_its_query_and_its_format(api, some_steps):
    path = RECORDS[0]
    tags = {get(api, path + query).headers["ETag"] for query in ("", "?last=1", "?last=2")}
    tags.add(get(api, path, Accept="text/csv").headers["ETag"])
    assert len(tags) == 4


def test_an_error_has_no_tag(api, writer):
    assert "ETag" not in get(api, "/runs/nobody").headers


def test_a_large_answer_is_compressed_for_those_who_take_it(api, some_steps):
    plain, packed = get(api, "/runs/run-a/steps"), get(api, "/runs/run-a/steps", **{"Accept-Encoding": "br, gzip"})
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert len(packed.content) < len(plain.content) / 3
    assert json.loads(gzip.decompress(packed.content))["results"] == json.loads(plain.content)["results"]
    assert packed.headers["ETag"] == plain.headers["ETag"]
    assert "Accept-Encoding" in plain.headers["Vary"]
    refused = get(api, "/runs/run-a/steps", **{"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in refused.headers
