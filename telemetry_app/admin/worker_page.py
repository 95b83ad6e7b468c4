"""The page of one worker: its health, what it did over time, what it holds, and what it says of itself."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.utils import quote, unquote
from django.http import Http404
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from telemetry_app.api.filters import Filters, InstantFilter
from telemetry_app.exceptions import (
    HistoryUnavailableError,
    InvalidQueryError,
    LiveDataUnavailableError,
    NotFoundError,
)
from telemetry_app.inspection.worker_turns import worker_turns
from telemetry_app.inspection.workers import event_fields, known_worker, worker_detail_fields, worker_events
from telemetry_app.instants import from_unix, rfc3339

SHOWN_EVENTS = 50
TURN_SECONDS = 3_600.0  # of turns, where it is not said since when


def worker_page(worker: str) -> dict[str, Any]:
    """Return what the page of one worker shows.

    Raises:
        Http404: there is no such worker.
    """
    now = timezone.now().timestamp()
    try:
        fields = worker_detail_fields(known_worker(worker, now=now))
    except NotFoundError as error:
        raise Http404(str(error)) from error
    except (LiveDataUnavailableError, HistoryUnavailableError) as error:
        return {"outage": str(error)}
    return {
        "worker": fields,
        "process": _process(fields),
        "plot_base": reverse("admin:telemetry_app_worker_change", args=[quote(worker)]).removesuffix("change/"),
        "as_of": rfc3339(now),
        **_events(worker, now),
    }


def _process(fields: dict[str, Any]) -> dict[str, Any]:
    """Return where the worker runs; its process id is a name, not a figure."""
    named = ("host", "pid", "node", "pod", "pod_uid", "parent", "interval_seconds")
    told = {name: fields[name] for name in named if fields[name] is not None}
    return told | ({"pid": str(told["pid"])} if "pid" in told else {})


def _events(worker: str, now: float) -> dict[str, Any]:
    """Return what happened to the worker; where that can't be read, the sentence that says so."""
    try:
        found = worker_events(worker, None, SHOWN_EVENTS, now=now)
    except (LiveDataUnavailableError, HistoryUnavailableError, NotFoundError) as error:
        return {"events_unknown": str(error)}
    return {"events": [event_fields(event) for event in found.events], "events_total": found.total_matching}


class WorkerTurnsFilters(Filters):
    """Of a worker's GPU turns."""

    since = InstantFilter(help_text="Turns that ended at or after this instant.")
    until = InstantFilter(help_text="Turns that ended before this instant.")


class WorkerTurnsViewSet(ViewSet):
    """The GPU turns of one worker, as its page plots them."""

    schema = None  # no part of the API

    def read(self, request: Request, object_id: str) -> Response:
        """Answer the newest turns in a time, oldest first."""
        given = WorkerTurnsFilters.read(request.query_params)
        now = timezone.now()
        until = given["until"] or now
        since = given["since"] or from_unix(until.timestamp() - TURN_SECONDS)
        if since >= until:
            raise InvalidQueryError("until", f"until={rfc3339(until)} must be after since={rfc3339(since)}.")
        found = worker_turns(unquote(object_id), since, until)
        return Response(
            {
                "as_of": rfc3339(now),
                "live": found.live,
                "history": found.has_history,
                "is_cut": found.is_cut,
                "results": found.turns,
            }
        )


def worker_plot_urls() -> list[URLPattern]:
    """Return the paths below a worker's page."""
    turns = WorkerTurnsViewSet.as_view({"get": "read"})
    return [path("<path:object_id>/turns", turns, name="telemetry_app_worker_turns")]
