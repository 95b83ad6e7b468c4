"""Requests are answered whole in threads of their own; what streams ends with whoever reads it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial

import pytest
from asgiref.sync import async_to_sync, iscoroutinefunction
from django.core import signals
from django.db import connection
from django.http import HttpResponse, StreamingHttpResponse
from django.test import override_settings
from django.urls import get_resolver, path

from openrl_site import asgi
from openrl_site.threaded_handler import THREADS, ThreadedHandler

HOST = (b"host", b"localhost")
seen: dict[str, object] = {}


# --- A site of its own ----------------------------------------------------------------------------------------
def thread_name(_request):
    return HttpResponse(threading.current_thread().name)


def cookies(_request):
    response = HttpResponse(b"twice")
    response.set_cookie("one", "1")
    response.set_cookie("two", "2")
    return response


def fail(_request):
    raise RuntimeError("of the tests")


def meet(_request):
    seen["barrier"].wait(20)
    return HttpResponse(b"met")


def count_users(_request):
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    seen["connection"] = connection.connection
    return HttpResponse(b"asked")


def stream(_request):
    async def pieces() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"piece"
                await asyncio.sleep(0)
        finally:
            seen["ended"] = True

    return StreamingHttpResponse(pieces())


def break_off(_request):
    async def pieces() -> AsyncIterator[bytes]:
        yield b"piece"
        raise RuntimeError("of the tests")

    return StreamingHttpResponse(pieces())


urlpatterns = [
    path(view.__name__, view) for view in (thread_name, cookies, fail, meet, count_users, stream, break_off)
]  # fmt: skip


async def asked(application, path, *, method="GET", query=b"", headers=(), pieces=None):
    """Ask once; leave after so many pieces of the answer. Returns status, headers and body."""
    sent, left = [], asyncio.Event()
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive():
        if messages:
            return messages.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)
        if pieces is not None and len(sent) > pieces:
            left.set()

    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query,
        "headers": [HOST, *headers], "http_version": "1.1", "scheme": "http",
    }  # fmt: skip
    await application(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], sent[0]["headers"], body


@pytest.fixture
def site(settings):
    settings.ROOT_URLCONF = __name__
    seen.clear()
    handler = ThreadedHandler()
    yield partial(async_to_sync(asked), handler)
    handler._threads.shutdown()


# --- Where a request is answered ------------------------------------------------------------------------------
def test_a_request_is_answered_in_a_thread_of_the_pool(site):
    status, _, body = site("/thread_name")
    assert (status, body[:8]) == (200, b"request_")


def test_the_site_s_own_application_answers_so():
    names = []
    signals.request_finished.connect(receiver := lambda **_: names.append(threading.current_thread().name), weak=False)
    try:
        assert async_to_sync(asked)(asgi.application, "/healthz")[0] == 200
    finally:
        signals.request_finished.disconnect(receiver)
    assert [name.partition("_")[0] for name in names] == ["request"]


def test_one_that_waits_keeps_no_other_from_an_answer(settings):
    settings.ROOT_URLCONF = __name__
    seen["barrier"] = threading.Barrier(THREADS)
    handler = ThreadedHandler()

    async def all_at_once():
        return await asyncio.gather(*(asked(handler, "/meet") for _ in range(THREADS)))

    assert {body for _, _, body in async_to_sync(all_at_once)()} == {b"met"}
    handler._threads.shutdown()


def test_what_streams_for_hours_is_answered_on_the_event_loop():
    views = dict(_views(get_resolver()))
    streams = {route for route, view in views.items() if iscoroutinefunction(view)}
    on_loop = {route for route in views if f"/{route}".endswith(asgi.ON_THE_LOOP)}
    assert len(streams) == 3
    # Its path looks like a stream's; the event loop answers it too, after more crossings.
    assert on_loop - streams == {"api/v1/inspect/workers/<path:worker>/events"}
    assert streams <= on_loop


def _views(resolver, prefix=""):
    for pattern in resolver.url_patterns:
        route = prefix + str(pattern.pattern)
        if hasattr(pattern, "url_patterns"):
            yield from _views(pattern, route)
        else:
            yield route, pattern.callback


# --- What is answered -----------------------------------------------------------------------------------------
def test_cookies_are_a_header_each(site):
    _, headers, body = site("/cookies")
    assert body == b"twice"
    assert [value.split(b"=")[0] for name, value in headers if name == b"Set-Cookie"] == [b"one", b"two"]


def test_a_fault_is_answered_and_the_next_request_is_served(site):
    assert site("/fail")[0] == 500
    assert site("/thread_name")[0] == 200


def test_a_query_that_is_no_text_is_a_bad_request(site):
    assert site("/thread_name", query=b"q=\xff\xfe")[0] == 400


def test_a_static_file_is_answered_whole_with_its_headers():
    ask = partial(async_to_sync(asked), asgi.application, "/static/telemetry_app/icon.svg")
    status, headers, body = ask()
    named = {name.lower(): value for name, value in headers}
    assert (status, named[b"content-type"], len(body)) == (200, b"image/svg+xml", int(named[b"content-length"]))
    assert ask(headers=[(b"if-none-match", named[b"etag"])])[::2] == (304, b"")
    assert ask(method="HEAD")[::2] == (200, b"")


@pytest.mark.django_db(transaction=True)
def test_a_connection_to_postgresql_goes_back_with_the_answer(site):
    ended = []
    end = partial(ended.append)
    signals.request_finished.connect(receiver := lambda **_: end(threading.current_thread().name), weak=False)
    try:
        assert site("/count_users")[2] == b"asked"
    finally:
        signals.request_finished.disconnect(receiver)
    assert ended == ["request_0"]
    assert seen["connection"].closed or seen["connection"].pgconn is None


# --- Streams --------------------------------------------------------------------------------------------------
def test_a_stream_ends_when_its_reader_leaves(site):
    status, _, body = site("/stream", pieces=3)
    assert (status, seen["ended"]) == (200, True)
    assert body.startswith(b"piecepiece")


def test_a_stream_that_fails_has_no_end_that_looks_like_one(site):
    with pytest.raises(RuntimeError, match="of the tests"):
        site("/break_off")


@override_settings(ROOT_URLCONF=__name__)
def test_a_reader_who_left_before_the_answer_is_no_fault():
    async def receive():
        return {"type": "http.disconnect"}

    sent = []
    async_to_sync(ThreadedHandler())({"type": "http"}, receive, sent.append)
    assert sent == []
