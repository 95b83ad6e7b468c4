"""The endpoints of open requests: parse, call, render."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from telemetry_app.api.filters import PagedFilters, WordFilter
from telemetry_app.api.paging import NUMBER, next_cursor, position
from telemetry_app.api.run_paths import part_of
from telemetry_app.api.views import RunViewSet
from telemetry_app.inspection import requests
from telemetry_app.instants import rfc3339


class RequestFilters(PagedFilters):
    """Of open requests."""

    stuck = WordFilter(("true", "false"), help_text="Only those that are stuck (`true`), or that are not (`false`).")


class RunRequestsViewSet(RunViewSet):
    """The open requests of one run."""

    @part_of("run")
    def requests(self, request: Request, run: str) -> Response:
        """Answer what is enqueued and not answered: who holds it since when, and whether it is stuck and why."""
        wanted = _wanted(request)
        page, sources, coverage = requests.run_requests(run, now=timezone.now().timestamp(), **wanted)
        return Response(_answer(request, page, coverage, run_id=sources.run_id))


class RequestViewSet(ViewSet):
    """The open requests of all runs."""

    def list(self, request: Request) -> Response:
        """Answer what is enqueued and not answered in all runs, oldest first."""
        page, coverage = requests.all_requests(now=timezone.now().timestamp(), **_wanted(request))
        return Response(_answer(request, page, coverage))


def _wanted(request: Request) -> dict[str, Any]:
    given = RequestFilters.read(request.query_params)
    after = position(request, (NUMBER, str, str, str))
    stuck = None if given["stuck"] is None else given["stuck"] == "true"
    return {"stuck": stuck, "after": tuple(after) if after else None, "size": given["page_size"]}


def _answer(request: Request, page: requests.RequestsPage, coverage: dict[str, Any], **names: Any) -> dict[str, Any]:
    return {
        **names,
        "count": len(page.results),
        "total_matching": page.total_matching,
        "requests_count": page.requests_count,
        "next": next_cursor(request, list(page.next_position) if page.next_position else None),
        "as_of": rfc3339(page.as_of) if coverage["live"] else coverage["last_snapshot_at"],
        "coverage": coverage,
        "results": page.results,
    }
