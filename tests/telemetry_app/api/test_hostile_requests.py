"""Whatever a caller sends, over every endpoint: no fault, JSON in the one shape, nothing unescaped."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

import pytest
from asgiref.sync import async_to_sync
from django.http import QueryDict
from django.test import AsyncClient, Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openrl_site.middleware import PATH_LIMIT
from telemetry_app.api import events
from telemetry_app.api.cursors import encode_cursor
from telemetry_app.snapshots import take_snapshot
from tests.support.endpoints import BASE, PAGES, ROUTES, checked, path_of
from tests.support.records import RUN, op, sample_failure, sample_group, step_of_ops, turn, worker

pytestmark = pytest.mark.django_db
WORKER = "w-1"
ROUTES_WITH_IDS = [route for route in ROUTES if "<" in route]
DEVICE = "unnamed"  # as is the device of turns without a node
PATHS = [path_of(route, run=RUN, worker=WORKER, device=DEVICE) for route in ROUTES]
ODD = [
    "", "a\x00b", "\n\r\t\x1b[31m\u202e", "🚀" * 50, "<script>alert(1)</script>", "'; DROP TABLE telemetry_app_run; --",
    "%s%n", "-1", "0", "1e999", "NaN", "9" * 400, "9007199254740992", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "x" * 1_001, "٣",
]  # fmt: skip
RAW_QUERIES = [
    "%", "%%%", "%ff%fe", "%c0%80", "%ed%a0%80", "%00", "&&&&", "=", "=&=", "?", "a", "last", "last&last", "a=1;b=2",
    "last=1&last=2", "%6cast=1", "page_size=%20 5", "cursor=%00", "q=%f0%9f%9a", "ünï=1", "__class__=1", "last[]=1",
    "format=xml", "format=json", "format=csv", "x" * 3_000,
]  # fmt: skip


@pytest.fixture
def caller(writer, now, client, token, monkeypatch):
    """A signed-in client of a site with one run, one worker and some of everything."""
    monkeypatch.setattr(events, "close_old_connections", lambda: None)  # the one of this test's transaction stays
    writer.operations(*step_of_ops(0, at=now - 5), op(at=now - 3, step=1, status="failed"))
    writer.samples(sample_group(at=now - 4, count=7), sample_failure(at=now - 4))
    writer.ledger(enqueued=9, popped=8, answered=7)
    writer.steps(1)
    writer.turns(turn(at=now - 2))
    writer.workers(worker(WORKER, at=now))
    take_snapshot()
    client.defaults["HTTP_AUTHORIZATION"] = f"Token {token}"
    return client


def known_parameters(caller, path):
    """Return the parameters of an endpoint, as its refusal of another one tells them."""
    answer = checked(caller.get(path, {"no_such_parameter": "1"}))
    return re.findall(r"\w+", answer["errors"][0]["detail"].partition("The known ones are ")[2])


def test_there_is_something_to_ask(caller):
    assert len(PATHS) >= 10
    assert {caller.get(path).status_code for path in PATHS} == {200}
    assert "cursor" in known_parameters(caller, f"{BASE}/runs")


# --- Queries --------------------------------------------------------------------------------------------------
def test_odd_values_of_known_parameters(caller):
    for path in PATHS:
        for name in known_parameters(caller, path):
            for value in ODD:
                response = caller.get(path, {name: value})
                assert response.status_code != 503, (name, value)  # no source is out: it choked on the value
                checked(response)


def test_odd_names_of_parameters_are_refused_by_name(caller):
    for path in PATHS:
        for name in ("\x00", "\x1b[31m", "<script>", "🚀", "x" * 500, "last\n"):
            answer = checked(caller.get(path, {name: "1"}))
            assert answer["type"] == "validation_error"


def test_queries_that_are_no_queries(caller):
    for path in PATHS:
        for query in RAW_QUERIES:
            checked(caller.get(path, QUERY_STRING=query))


@given(st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_query_of_any_endpoint(caller, data):
    path = data.draw(st.sampled_from(PATHS))
    names = st.sampled_from([*known_parameters(caller, path), "odd"])
    values = st.text(max_size=40) | st.sampled_from(ODD) | st.integers().map(str) | st.datetimes().map(str)
    values = values.map(lambda value: value.encode("utf-8", "replace").decode())
    checked(caller.get(path, data.draw(st.dictionaries(names, values, max_size=4))))


# --- Cursors --------------------------------------------------------------------------------------------------
NUMBERS = [-1, 2**63, -(2**63) - 1, 10**30, 1e300, 5e-324, 253_402_300_799_999_999]
TEXTS = ["", "x" * 2_000, "\u202e", "\x7f"]


def test_forged_positions_in_cursors(caller):
    for path in PATHS:
        if "cursor" not in known_parameters(caller, path):
            continue
        for shape in ([1, "a"], ["a", "a"], [1, "a", "a"]):
            for odd in [*NUMBERS, *TEXTS]:
                position = [odd if type(part) is type(odd) or isinstance(odd, float) else part for part in shape]
                response = caller.get(path, {"cursor": encode_cursor(position, path=path, query=QueryDict(""))})
                assert response.status_code in (200, 400), position
                checked(response)


# --- Methods, formats and sign-in -----------------------------------------------------------------------------
def test_other_methods_are_refused(caller):
    for path in PATHS:
        for method in ("POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "get", "X" * 200):
            response = caller.generic(method, path, "{", content_type="application/json")
            assert response.status_code == (200 if method == "get" else 405), (
                method
            )  # Django writes methods in capitals
            checked(response)
        checked(caller.options(path))
        assert caller.head(path).content == b""


def test_bodies_of_requests_are_not_looked_at(caller):
    for path in PATHS:
        for body, kind in ((b"{" * 1_000, "application/json"), (b"\xff\x00", "x/y"), (b"--x", "multipart/form-data")):
            checked(caller.generic("POST", path, body, content_type=kind))
            assert caller.generic("GET", path, body, content_type=kind).status_code == 200


def test_formats_that_no_answer_has(caller):
    for path in PATHS:
        for accept in (
            "text/html", "application/xml", "garbage", ",,,", "*/*;q=0", "application/json;q=abc", "a/b;" * 500, "\xff",
            "application/json; version=\x00", "*", "", "application/*", "text/css, */*;q=0.1", "/", ";", "application/",
        ):  # fmt: skip
            assert caller.get(path, headers={"Accept": accept}).status_code in (200, 406), accept
            if accept != "text/csv":
                checked(caller.get(path, headers={"Accept": accept}))


def test_odd_headers_change_nothing(caller):
    for path in PATHS:
        for name, value in (
            ("If-None-Match", '"' + "x" * 3_000), ("If-None-Match", "*"), ("If-None-Match", "\xff,,W/"),
            ("If-Modified-Since", "yesterday"), ("Range", "bytes=0-1,5-2"), ("Accept-Encoding", "gzip;q=x,\xff"),
            ("Accept-Language", "x" * 500), ("Cookie", "sessionid=\xff; csrftoken="), ("Content-Length", "-1"),
            ("X-Forwarded-For", "' OR 1=1"), ("Last-Event-ID", "\x00\xff"), ("X-HTTP-Method-Override", "DELETE"),
        ):  # fmt: skip
            response = caller.get(path, headers={name: value, "Accept": "application/json"})
            assert response.status_code in ((200, 400) if name == "Last-Event-ID" else (200, 304)), name
            checked(response)


def test_sign_ins_that_are_none(caller, token):
    for path in PATHS:
        for header in (
            "", " ", "Token", "Token ", "Bearer", f"Token {token} x", f"Token  {token[:-1]}", f"Basic {token}",
            "Token \xff", "Token \x00", f"Token {token}\x00", f"Token {'x' * 20_000}", "Bearer " * 500, f"{token}",
            "Digest username=x", f"Token,{token}", "Token ' OR ''='", f"Token {token.upper()}", "Negotiate YII=",
        ):  # fmt: skip
            response = Client(headers={"Authorization": header}).get(path)
            assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Token"), header
            checked(response)


# --- Paths ----------------------------------------------------------------------------------------------------
ODD_IDS = [
    "\x00", "a\x00b", "\x1b[31m", "\n", "\u202e", "🚀" * 256, "x" * 3_000, "..", "../..", "//", "%", "%2e%2e", "%252F",
    "<script>", "'; --", "\ufffe", "\ufdd0", "steps", "runs/steps", "a/steps/steps", "open_rl:steps:x", "*",
    "?", "[a-z]",
]  # fmt: skip
RAW_IDS = [b"%ff", b"%c0%af", b"%ed%a0%80", b"%", b"%zz", b"%00", b"\xff\xfe", b"%f0%9f", b"%e2%80%ae"]


def test_odd_ids_in_paths(caller):
    for route in ROUTES_WITH_IDS:
        for odd in ODD_IDS:
            path = path_of(route, run=odd, worker=odd, device=odd)
            checked(caller.get(path))
            checked(async_to_sync(AsyncClient(headers=_headers(caller)).get)(path))


def test_ids_that_are_no_text(caller):
    for route in ROUTES_WITH_IDS:
        before, after = path_of(route, run="@", worker="@", device="@").encode().split(quote("@").encode())
        for raw in RAW_IDS:
            target = before + raw + after
            # As servers of ASGI hand it over: decoded, and the undecoded form beside it.
            scope = {"path": unquote_to_bytes(target).decode("utf-8", "replace"), "raw_path": target}
            request = AsyncClient(headers=_headers(caller)).request
            headers = [(b"host", b"testserver"), (b"authorization", caller.defaults["HTTP_AUTHORIZATION"].encode())]
            checked(async_to_sync(request)(method="GET", query_string=b"", headers=headers, **scope))


def test_a_path_of_any_length_is_told_what_it_lacks(caller):
    for length in (300, PATH_LIMIT, PATH_LIMIT + 1, 60_000):
        assert checked(caller.get(f"{BASE}/runs/{'x' * length}"))["type"] == "client_error"


@given(st.text(max_size=60).filter(lambda text: text not in PAGES))  # drawn now and then, from the code's own words
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_path_below_the_api(caller, text):
    raw = text.encode("utf-8", "replace").decode()
    checked(caller.get(f"{BASE}/{quote(raw)}"))


def _headers(caller):
    return {"Authorization": caller.defaults["HTTP_AUTHORIZATION"]}
