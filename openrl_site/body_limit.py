"""No request brings more than forms need: Django writes a whole body to the disk before it asks who sends it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from openrl_site.middleware import error_body

LIMIT_BYTES = 1_048_576

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def limited(application: Application) -> Application:
    """Return the application behind a limit: longer bodies get a 413, and are never read to their end."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:19]) > LIMIT_BYTES:
            await _refuse(send)
            return
        counter = _Counter(receive)
        await application(scope, counter.receive, send)
        if counter.is_over:  # Django answers nobody who left
            await _refuse(send)

    return answer


class _Counter:
    """Reads a body up to the limit; past it the caller looks like one who left, and Django drops what it has."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._size_bytes = 0
        self.is_over = False

    async def receive(self) -> Mapping[str, Any]:
        """Return the next message of the server."""
        if not self.is_over:
            message = await self._receive()
            self._size_bytes += len(message.get("body", b""))
            self.is_over = self._size_bytes > LIMIT_BYTES
        return {"type": "http.disconnect"} if self.is_over else message


async def _refuse(send: Send) -> None:
    detail = f"The body must have at most {LIMIT_BYTES:,} bytes."
    content = json.dumps(error_body(413, "too_long", detail)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 413, "headers": [*headers, (b"connection", b"close")]})
    await send({"type": "http.response.body", "body": content})
