"""Django's way from the web server to the views, each request answered whole in one thread.

Django's own handler crosses between the event loop and threads half a dozen times a request, which takes three times as
long as an empty view (`script/benchmark answers`). Here a request crosses once there and once back. What streams for
hours must not hold a thread, and stays with Django's handler (see `asgi.py`).
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import IO

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.db import close_old_connections
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from openrl_site.body_limit import Receive, Scope, Send

# Twice the connections to PostgreSQL (`asgi.py`): who waits for one of those keeps nobody else from an answer.
THREADS = 64


class ThreadedHandler(ASGIHandler):
    """An ASGI application that answers in threads of its own."""

    def __init__(self) -> None:
        BaseHandler.__init__(self)
        self.load_middleware(is_async=False)
        self._threads = ThreadPoolExecutor(THREADS, "request")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        loop = asyncio.get_running_loop()
        response = await loop.run_in_executor(self._threads, copy_context().run, self._answered, scope, body)
        if response.streaming:
            await self._stream(response, receive, send)
        else:
            await self.send_response(response, send)

    def _answered(self, scope: Scope, body: IO[bytes]) -> HttpResponseBase:
        """Run in a thread of the pool: all of a request, but what streams."""
        with body:
            set_script_prefix(get_script_prefix(scope))
            signals.request_started.send(sender=self.__class__, scope=scope)
            request, refusal = self.create_request(scope, body)
            response = refusal if request is None else self.get_response(request)
            assert response is not None  # there is always one of both
        if isinstance(response, StreamingHttpResponse) and response.is_async:
            close_old_connections()  # the rest is read in another thread
            return response
        try:
            return _whole(response) if isinstance(response, StreamingHttpResponse) else response
        finally:
            response.close()

    async def _stream(self, response: HttpResponseBase, receive: Receive, send: Send) -> None:
        """Send a response piece by piece until its end, or until nobody is there to read it."""
        async with ThreadSensitiveContext():
            sending = asyncio.ensure_future(self.send_response(response, send))
            leaving = asyncio.ensure_future(self.listen_for_disconnect(receive))
            try:
                await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sending.cancel()
                leaving.cancel()
                await asyncio.gather(sending, leaving, return_exceptions=True)
                await sync_to_async(response.close)()
            if not sending.cancelled():
                sending.result()  # what failed is the web server's to end and to log


def _whole(response: StreamingHttpResponse) -> HttpResponse:
    """Return a file's response as one with the same headers, so that the event loop has nothing to read."""
    whole = HttpResponse(b"".join(response), status=response.status_code)
    whole.headers, whole.cookies = response.headers, response.cookies
    return whole
