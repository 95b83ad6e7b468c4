"""`/mcp`: the agents' tools over HTTP (Model Context Protocol), with the API's sign-in, permission and limits.

A tool asks the API in this very process with the caller's own token, so nothing is told here that is not told there. No
session is kept: each request stands alone, and is answered whole.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from functools import cache
from typing import Any

import httpx2
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from openrl_inspect.addresses import Address
from openrl_inspect.site import Site, open_site
from openrl_site.threaded_handler import ThreadedHandler
from telemetry_app.api.authentication import BearerOrTokenAuthentication

_GRANTED = 204
_caller: ContextVar[Address] = ContextVar("caller")  # this site, with the token of whoever asks now


class AgentGate(APIView):
    """Whether a caller may use the tools. By token alone: a session would let other sites' pages ask in its name."""

    authentication_classes = (BearerOrTokenAuthentication,)
    schema = None

    def post(self, request: Request) -> Response:
        """Check where the request comes from; who sends it and how often was checked before."""
        origin = request.headers.get("Origin")
        own = f"{request.scheme}://{request.get_host()}"
        if origin is not None and origin not in (own, *settings.CSRF_TRUSTED_ORIGINS):
            raise PermissionDenied(f"Origin={origin[:100]!r} must be this site's own.")
        return Response(status=_GRANTED)


_gate = AgentGate.as_view()


@csrf_exempt
async def mcp(request: HttpRequest) -> HttpResponseBase:
    """Answer one message of an agent."""
    refusal: HttpResponseBase = await sync_to_async(_asked)(request)
    if refusal.status_code != _GRANTED:
        return refusal
    token = request.headers["Authorization"].split(None, 1)[1]
    _caller.set(Address(f"{request.scheme}://{request.get_host()}", token, "this site", "your request"))
    assert isinstance(request, ASGIRequest)  # the site is served by ASGI alone
    return await _answered(request)


def _asked(request: HttpRequest) -> HttpResponseBase:
    response = _gate(request)
    if isinstance(response, Response):
        response.render()
    close_old_connections()
    return response


async def _answered(request: ASGIRequest) -> HttpResponse:
    """Hand a request to the library, and return what it answers."""
    from mcp.server.transport_security import TransportSecuritySettings  # see `_server`

    server = await sync_to_async(_server, thread_sensitive=False)()
    # Django's ALLOWED_HOSTS and the gate have looked at Host and Origin.
    unlooked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    server.streamable_http_app(json_response=True, stateless_http=True, transport_security=unlooked)
    manager = server.session_manager
    answer = _Answer(request.body)
    async with manager.run():
        await manager.handle_request(request.scope, answer.receive, answer.send)
    return answer.response()


@cache
def _server() -> Any:
    # A second's work that the start of the site and most processes of it don't need.
    from openrl_inspect.agent_tools import agent_server

    return agent_server(_opened)


def _opened() -> AbstractAsyncContextManager[Site]:
    return open_site(_caller.get(), httpx2.ASGITransport(_application(), raise_app_exceptions=False))


@cache
def _application() -> Any:
    return ThreadedHandler()


class _Answer:
    """The two ends of one exchange with an ASGI application."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._start: dict[str, Any] = {}
        self._chunks: list[bytes] = []

    async def receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._start = dict(message)
        else:
            self._chunks.append(message.get("body", b""))

    def response(self) -> HttpResponse:
        response = HttpResponse(b"".join(self._chunks), status=self._start["status"])
        response.headers["Cache-Control"] = "no-store"
        for name, value in self._start.get("headers", ()):
            if name.lower() != b"content-length":
                response.headers[name.decode("latin-1")] = value.decode("latin-1")
        return response
