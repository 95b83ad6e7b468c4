"""Server-sent events: what changed, pushed. Sign-in, parameters and errors are those of every other endpoint."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from telemetry_app.api.filters import NoFilters
from telemetry_app.api.renderers import CompactJSONRenderer
from telemetry_app.api.run_paths import part_of
from telemetry_app.api.views import RunViewSet
from telemetry_app.event_hub import Subscriber, encode, the_hub
from telemetry_app.exceptions import InvalidQueryError
from telemetry_app.inspection.events import past_events
from telemetry_app.inspection.sources import run_sources

HEARTBEAT_SECONDS = 10.0
RETRY_MILLISECONDS = 2_000  # how long a browser waits before it asks again
OVERLAP_SECONDS = 30.0  # records come in flushes, so one that finished before the last event may have come after it
MOST_PAST = 1_000  # events told again to one who was away
LONGEST_AWAY_SECONDS = 86_400
_GRANTED = 204


class EventStreamRenderer(CompactJSONRenderer):
    """Stands for the stream; what is rendered here are errors, and they are JSON."""

    media_type = "text/event-stream"
    format = "events"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        """Return an error's bytes."""
        if data is not None and renderer_context:
            renderer_context["response"].headers["Content-Type"] = CompactJSONRenderer.media_type
        return super().render(data, accepted_media_type, renderer_context)


class EventsGate(ViewSet):
    """Whether a caller may have the events of all runs."""

    renderer_classes = (EventStreamRenderer, CompactJSONRenderer)

    def list(self, request: Request) -> Response:
        """Check the request."""
        _checked_since(request)
        return Response(status=_GRANTED)


class RunEventsGate(RunViewSet):
    """Whether a caller may have the events of a run, and whether there is such a run."""

    renderer_classes = (EventStreamRenderer, CompactJSONRenderer)

    @part_of("run")
    def events(self, request: Request, run: str) -> Response:
        """Check the request."""
        _checked_since(request)
        return Response({"run_id": run_sources(run).run_id}, status=_GRANTED)


@csrf_exempt
async def all_events(request: HttpRequest) -> HttpResponseBase:
    """Stream what happens in all runs and workers."""
    return await _stream(request, EventsGate.as_view({"get": "list"}), None)


@csrf_exempt
async def run_events(request: HttpRequest, run: str) -> HttpResponseBase:
    """Stream what happens in one run and its workers."""
    return await _stream(request, RunEventsGate.as_view({"get": "events"}), run)


async def _stream(request: HttpRequest, gate: Any, run: str | None) -> HttpResponseBase:
    names = {} if run is None else {"run": run}
    answer: Response = await sync_to_async(_asked)(gate, request, names)
    if answer.status_code != _GRANTED or request.method != "GET":
        return answer
    since = _since(request.META.get("HTTP_LAST_EVENT_ID"))
    meant = answer.data["run_id"] if answer.data else None  # a reference may stand for its run
    response = StreamingHttpResponse(_messages(meant, since), content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"  # nginx would hold events back
    return response


def _asked(gate: Any, request: HttpRequest, names: dict[str, str]) -> Response:
    response: Response = gate(request, **names)
    response.render()
    close_old_connections()  # sign-in opened one, and the stream would keep it for hours
    return response


async def _messages(run: str | None, since: float | None) -> AsyncIterator[bytes]:
    hub = the_hub()
    subscriber = hub.join(run)  # before the past is read: what happens meanwhile waits in the queue
    try:
        yield f"retry: {RETRY_MILLISECONDS}\n: what happens from now on\n\n".encode()
        told: set[str] = set()
        if since is not None:
            past, is_whole = await sync_to_async(_past, thread_sensitive=False)(run, since)
            if not is_whole:
                yield _missed(None)
            for event in past:
                told.add(event.key)
                yield encode(event)
        async for content in _from_queue(subscriber, told):
            yield content
    finally:
        hub.leave(subscriber)


async def _from_queue(subscriber: Subscriber, told: set[str]) -> AsyncIterator[bytes]:
    while True:
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                message = await subscriber.queue.get()
        except TimeoutError:
            yield b": heartbeat\n\n"
            continue
        if message.key not in told:
            yield message.content
        if subscriber.queue.empty() and (missed := subscriber.take_missed()):
            yield _missed(missed)


def _past(run: str | None, since: float) -> tuple[list[Any], bool]:
    now = time.time()
    start = max(since - OVERLAP_SECONDS, now - LONGEST_AWAY_SECONDS)
    try:
        past, is_whole = past_events(since=start, run=run, limit=MOST_PAST, now=now)
    finally:
        close_old_connections()
    return past, is_whole and start <= since


def _missed(count: int | None) -> bytes:
    """Return the event that says that others are missing; `count` is null where nobody knows how many."""
    return b"event: missed\ndata: %b\n\n" % msgspec.json.encode({"count": count})


def _checked_since(request: Request) -> None:
    NoFilters.read(request.query_params)
    _since(request.META.get("HTTP_LAST_EVENT_ID"))


def _since(last_event_id: str | None) -> float | None:
    """Return the instant of the last event that the caller has, in unix seconds; None where it has none."""
    if not last_event_id:
        return None
    microseconds, _, _ = last_event_id.partition("-")
    if not microseconds.isdecimal() or not microseconds.isascii() or len(microseconds) > 16:
        raise InvalidQueryError("Last-Event-ID", f"Last-Event-ID={last_event_id[:100]!r} is no id of an event.")
    return int(microseconds) / 1e6
