"""The endpoints of GPU turns: parse, call, render."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from telemetry_app.api.filters import InstantFilter, PagedFilters, TextFilter
from telemetry_app.api.paging import NUMBER, from_microseconds, microseconds, next_cursor, position
from telemetry_app.api.parameters import MOST_PAGE_SIZE
from telemetry_app.api.run_paths import part_of
from telemetry_app.api.tables import csv_response, wants_csv
from telemetry_app.api.views import RunViewSet
from telemetry_app.inspection.turn_pages import Position, TurnFilter, all_turns
from telemetry_app.inspection.turns import run_turns
from telemetry_app.instants import rfc3339

COLUMNS = ("id", "workload", "role", "worker", "node", "requested_at", "started_at", "ended_at", "wait_seconds",
           "hold_seconds", "switch_seconds", "run_ids", "operations")  # fmt: skip


class TurnFilters(PagedFilters):
    """Of a run's GPU turns."""

    since = InstantFilter(help_text="Turns that ended at or after this instant.")
    until = InstantFilter(help_text="Turns that ended before this instant.")


class AllTurnFilters(TurnFilters):
    """Of the GPU turns of all workloads."""

    workload = TextFilter(help_text="Turns of this workload.")
    node = TextFilter(help_text="Turns on this node.")
    worker = TextFilter(help_text="Turns of this worker.")


class RunTurnsViewSet(RunViewSet):
    """The GPU turns of one run."""

    @part_of("run")
    def turns(self, request: Request, run: str) -> Response:
        """Answer the turns in which ops of the run ran, newest first, with their waits and who held the device."""
        given = TurnFilters.read(request.query_params)
        after = _position(request)
        now = timezone.now().timestamp()
        page = run_turns(run, TurnFilter(given["since"], given["until"]), after, given["page_size"], now=now)
        return Response(
            {
                "run_id": page.run_id,
                "count": len(page.results),
                "total_matching": page.total_matching,
                "is_total_capped": page.is_total_capped,
                "next": _next(request, page.next_position),
                "as_of": rfc3339(now) if page.coverage["live"] else page.coverage["last_snapshot_at"],
                "coverage": page.coverage,
                "current": page.current,
                "results": page.results,
            }
        )


class TurnViewSet(ViewSet):
    """The GPU turns of all workloads."""

    def list(self, request: Request) -> HttpResponseBase:
        """Answer the turns of all workloads, newest first, with what ran in them for whom."""
        given = AllTurnFilters.read(request.query_params)
        wanted = TurnFilter(**{name: given[name] for name in ("since", "until", "workload", "node", "worker")})
        after = _position(request)
        if wants_csv(request):
            return csv_response(request, COLUMNS, _all_pages(wanted, after))
        now = timezone.now().timestamp()
        page = all_turns(wanted, after, given["page_size"])
        return Response(
            {
                "count": len(page.results),
                "total_matching": page.total_matching,
                "is_total_capped": page.is_total_capped,
                "next": _next(request, page.next_position),
                "as_of": rfc3339(now) if page.coverage["live"] else page.coverage["last_snapshot_at"],
                "coverage": page.coverage,
                "results": page.results,
            }
        )


def _all_pages(wanted: TurnFilter, after: Position | None) -> Iterator[list[dict[str, Any]]]:
    while True:
        page = all_turns(wanted, after, MOST_PAGE_SIZE)
        yield page.results
        after = page.next_position
        if after is None:
            return


def _position(request: Request) -> Position | None:
    mark = position(request, (NUMBER, str, str))
    return (from_microseconds(mark[0]), mark[1], mark[2]) if mark else None


def _next(request: Request, last: Position | None) -> str | None:
    return next_cursor(request, [microseconds(last[0]), *last[1:]] if last else None)
