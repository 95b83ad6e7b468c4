"""Requests of no sensible size, errors of Django itself below `/api/`, and what every answer carries."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import async_to_sync
from django.http import HttpResponse, HttpResponseServerError
from django.test import AsyncClient, RequestFactory

from openrl_site import middleware

RUNS = "/api/v1/inspect/runs"
PATHS = ["/healthz", "/admin/login/", RUNS, "/static/telemetry_app/icon.svg", "/nothing", "/api/nothing", "/admin/"]


def shape(response):
    """Return the status and the one code of an error in the API's shape."""
    assert response.headers["Content-Type"] == "application/json"
    content = json.loads(response.content)
    assert content["type"] == ("validation_error" if response.status_code == 400 else "client_error")
    [entry] = content["errors"]
    assert set(entry) == {"code", "detail", "attr"}
    return response.status_code, entry["code"]


# --- Sizes ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", [RUNS, "/healthz", "/admin/"])
@pytest.mark.parametrize(
    ("suffix", "headers", "expected"),
    [
        ("/" + "x" * middleware.PATH_LIMIT, {}, (414, "too_long")),
        ("?q=" + "x" * middleware.QUERY_LIMIT_BYTES, {}, (414, "too_long")),
        ("?" + "&".join(["a=1"] * (middleware.PARAMETERS_LIMIT + 1)), {}, (400, "too_many")),
        ("?" + "&" * 5_000, {}, (400, "too_many")),
        ("", {"X-Odd": "x" * middleware.HEADERS_LIMIT_BYTES}, (431, "too_long")),
        ("", {f"X-Odd-{number}": "x" * 500 for number in range(80)}, (431, "too_long")),
    ],
)
def test_what_is_too_long_is_refused_before_anyone_is_asked(client, path, suffix, headers, expected):
    assert shape(client.get(path + suffix, headers=headers)) == expected
    assert shape(async_to_sync(AsyncClient().get)(path + suffix, headers=headers)) == expected


def test_what_is_long_and_meant_goes_through(client):
    query = "&".join(f"parameter_{number}={'x' * 50}" for number in range(99))
    assert client.get(f"/healthz?{query}", headers={"X-Odd": "x" * 16_000}).status_code == 200


# --- Errors ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", ["/api/nothing", "/api/", "/api/v2/inspect/runs"])
def test_a_path_of_no_api_is_told_in_json(client, path):
    assert shape(client.get(path)) == (404, "not_found")


def test_a_host_that_is_not_ours_is_told_in_json(client):
    assert shape(client.get(RUNS, headers={"Host": "evil.example"})) == (400, "bad_request")
    assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 400


def test_pages_outside_the_api_stay_pages(client):
    assert client.get("/nothing").headers["Content-Type"].startswith("text/html")


def test_a_fault_is_told_in_json_without_its_reason_and_keeps_the_headers():
    def fail(_request):
        return HttpResponseServerError("<pre>Traceback: secret</pre>", headers={"X-Kept": "yes", "Content-Length": 29})

    response = middleware.errors_in_json(fail)(RequestFactory().get(RUNS))
    assert response.status_code == 500
    assert json.loads(response.content)["type"] == "server_error"
    assert b"secret" not in response.content
    assert response.headers["X-Kept"] == "yes"
    assert response.headers["Content-Length"] == str(len(response.content))


@pytest.mark.parametrize("content_type", ["application/json", "text/csv", "text/event-stream"])
def test_an_answer_of_the_api_itself_stays_as_it_is(content_type):
    answer = HttpResponse(b"as it is", status=404, content_type=content_type)
    assert middleware.errors_in_json(lambda _request: answer)(RequestFactory().get(RUNS)).content == b"as it is"


def test_with_debug_on_its_pages_stay(client, settings):
    settings.DEBUG = True
    assert client.get("/api/nothing").headers["Content-Type"].startswith("text/html")


# --- Headers --------------------------------------------------------------------------------------------------
@pytest.mark.django_db
@pytest.mark.parametrize("path", PATHS)
def test_every_answer_says_what_browsers_may_not_do(client, path):
    for response in (client.get(path), async_to_sync(AsyncClient().get)(path)):
        response.close()  # of a file
        headers = response.headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "camera=()" in headers["Permissions-Policy"]
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


@pytest.mark.django_db
@pytest.mark.parametrize("path", [path for path in PATHS if not path.startswith("/static/")])
def test_no_answer_goes_into_a_frame(client, path):
    assert client.get(path).headers["X-Frame-Options"] == "DENY"


@pytest.mark.django_db
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["get", "options"])
def test_no_answer_lets_another_site_read_it(client, path, method):
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"}
    response = getattr(client, method)(path, headers=headers)
    response.close()  # of a file
    assert [name for name in response.headers if name.lower().startswith("access-control-")] == []


@pytest.mark.django_db
def test_the_cookie_of_a_session_is_for_this_site_alone(client, admin_user):
    admin_user.set_password("made-for-this")
    admin_user.save()
    client.post("/admin/login/", {"username": admin_user.username, "password": "made-for-this"})
    assert client.cookies["sessionid"]["httponly"]
    assert client.cookies["sessionid"]["samesite"] == "Lax"
    assert client.cookies["csrftoken"]["samesite"] == "Strict"
