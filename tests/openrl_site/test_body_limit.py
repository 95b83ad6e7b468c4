"""Bodies of requests end where forms do, declared or not."""

from __future__ import annotations

import asyncio
import json

import pytest
from asgiref.sync import async_to_sync

from openrl_site.asgi import application
from openrl_site.body_limit import LIMIT_BYTES

CHUNK = b"x" * 65_536


def status_of(*, declared, size_bytes):
    """Post a body piece by piece; return the status, the answer's body and how many bytes were read."""
    sent, read = [], 0

    async def receive():
        nonlocal read
        if read >= size_bytes:
            await asyncio.Future()  # the caller waits for its answer
        read += len(CHUNK)
        return {"type": "http.request", "body": CHUNK, "more_body": read < size_bytes}

    async def send(message):
        sent.append(message)

    headers = [(b"host", b"localhost")] + ([(b"content-length", declared)] if declared else [])
    scope = {
        "type": "http", "method": "POST", "path": "/healthz", "raw_path": b"/healthz", "query_string": b"",
        "headers": headers, "http_version": "1.1", "scheme": "http",
    }  # fmt: skip
    async_to_sync(application)(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], body, read


def test_a_body_that_says_that_it_is_too_long_is_not_read():
    status, body, read = status_of(declared=str(LIMIT_BYTES + 1).encode(), size_bytes=2 * LIMIT_BYTES)
    assert (status, json.loads(body)["errors"][0]["code"], read) == (413, "too_long", 0)


@pytest.mark.parametrize("declared", [None, b"7", b"-1", b"x", b"9" * 400])
def test_a_body_that_turns_out_too_long_is_read_no_further(declared):
    status, body, read = status_of(declared=declared, size_bytes=50 * LIMIT_BYTES)
    assert (status, json.loads(body)["type"]) == (413, "client_error")
    assert read <= LIMIT_BYTES + len(CHUNK)


def test_a_body_of_a_form_goes_through():
    assert status_of(declared=None, size_bytes=LIMIT_BYTES // 2)[0] in (200, 403)
