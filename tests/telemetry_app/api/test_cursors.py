"""Where a page ended, as a word that belongs to its query."""

from __future__ import annotations

import base64
import json

import pytest
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st

from telemetry_app.api.cursors import decode_cursor, encode_cursor
from telemetry_app.exceptions import InvalidQueryError
from telemetry_app.snapshots import take_snapshot
from tests.support.records import op
from tests.telemetry_app.api.conftest import run_path
from workers_client import wire

PATH = "/api/v1/inspect/runs"
QUERY = QueryDict("state=idle&q=a")
TYPES = ((int, float), str)


def decoded(raw, *, path=PATH, query=QUERY, types=TYPES):
    return decode_cursor(raw, path=path, query=query, types=types)


def forged(*position):
    """Return a cursor with a true fingerprint and any position."""
    raw = encode_cursor([1, "a"], path=PATH, query=QUERY)
    fingerprint = json.loads(base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4)))[0]
    return base64.urlsafe_b64encode(json.dumps([fingerprint, *position]).encode()).decode()


@given(
    st.integers(0, 2**53) | st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
)
def test_a_cursor_holds_the_position_it_was_made_of(number, text):
    assert decoded(encode_cursor([number, text], path=PATH, query=QUERY)) == [number, text]


def test_a_cursor_needs_no_escaping_in_a_url():
    raw = encode_cursor([1, "läuft 🚀 ?&="], path=PATH, query=QUERY)
    assert set(raw) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize(
    "query", ["state=stuck&q=a", "state=idle", "", "state=idle&q=a&worker=w", "state=idle&q=a&q=b"]
)
def test_a_cursor_of_other_filters_is_refused(query):
    raw = encode_cursor([1, "a"], path=PATH, query=QUERY)
    with pytest.raises(InvalidQueryError, match="other filters"):
        decoded(raw, query=QueryDict(query))


def test_a_cursor_of_another_endpoint_is_refused():
    raw = encode_cursor([1, "a"], path=PATH, query=QUERY)
    with pytest.raises(InvalidQueryError):
        decoded(raw, path="/api/v1/inspect/workers")


@pytest.mark.parametrize("query", ["q=a&state=idle", "state=idle&q=a&page_size=7", "state=idle&q=a&cursor=abc"])
def test_paging_and_the_order_of_filters_do_not_matter(query):
    raw = encode_cursor([1, "a"], path=PATH, query=QUERY)
    assert decoded(raw, query=QueryDict(query)) == [1, "a"]


@given(st.text(max_size=60))
def test_any_text_that_is_no_cursor_is_refused(raw):
    with pytest.raises(InvalidQueryError) as caught:
        decoded(raw)
    assert caught.value.parameter == "cursor"


@pytest.mark.parametrize(
    "position",
    [(), (1,), (1, "a", 2), ("1", "a"), (1, 2), (None, "a"), (True, "a"), (float("nan"), "a"), (float("inf"), "a"),
     (1, "a\x00"), (1, "\ud800"), ([1], "a"), (10**400, "a")],
)  # fmt: skip
def test_a_forged_position_is_refused(position):
    with pytest.raises(InvalidQueryError):
        decoded(forged(*position))


@pytest.mark.django_db
@pytest.mark.parametrize("character", ["x", "🚀"])
@pytest.mark.parametrize("is_stored", [False, True])
def test_pages_of_the_longest_ids_go_on(api, writer, now, character, is_stored):
    run_id = character * wire.RUN_ID_LIMIT
    own = [op(at=now, run_id=run_id, id=f"{n}:{character * 500}") for n in range(3)]
    foreign = {"id": None, "worker": None, "operation": character * 500}
    writer.operations(*own, *(op(at=now, run_id=run_id, request_id=f"{n}{character * 500}", **foreign) for n in "345"))
    if is_stored:
        take_snapshot()
        writer.client.flushdb()
    assert len(api.walk(run_path(run_id, "/operations"), page_size=2)) == 6
    assert len(api.walk("/runs", page_size=1)) == 1
