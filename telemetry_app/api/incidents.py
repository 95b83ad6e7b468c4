"""The endpoints of incidents: parse, call, render."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from telemetry_app.api.filters import InstantFilter, PagedFilters, TextFilter, WordFilter
from telemetry_app.api.paging import NUMBER, from_microseconds, microseconds, next_cursor, position
from telemetry_app.api.run_paths import part_of
from telemetry_app.api.views import RunViewSet
from telemetry_app.inspection.coverage import run_coverage
from telemetry_app.inspection.incidents import IncidentFilter, IncidentsPage, list_incidents
from telemetry_app.inspection.sources import run_sources
from telemetry_app.instants import rfc3339
from telemetry_app.models import IncidentCode


class RunIncidentFilters(PagedFilters):
    """Of a run's incidents."""

    code = WordFilter(IncidentCode.values, help_text="Incidents of this kind.")
    open = WordFilter(("true", "false"), help_text="Only those that are open (`true`), or that ended (`false`).")
    since = InstantFilter(help_text="Incidents that held at or after this instant.")


class IncidentFilters(RunIncidentFilters):
    """Of the incidents of all runs."""

    run = TextFilter(help_text="Incidents of this run.")


class RunIncidentsViewSet(RunViewSet):
    """The incidents of one run."""

    @part_of("run")
    def incidents(self, request: Request, run: str) -> Response:
        """Answer what went wrong with the run, newest first."""
        given = RunIncidentFilters.read(request.query_params)
        sources = run_sources(run)
        page = _page(request, {**given, "run": sources.run_id})
        coverage = run_coverage(sources, (), source="history") | {"last_pass_at": rfc3339(page.last_pass_at)}
        return Response(_answer(request, page, coverage, run_id=sources.run_id))


class IncidentViewSet(ViewSet):
    """The incidents of all runs."""

    def list(self, request: Request) -> Response:
        """Answer what went wrong with all runs, newest first."""
        page = _page(request, IncidentFilters.read(request.query_params))
        coverage = {"source": "history", "history": True, "last_pass_at": rfc3339(page.last_pass_at)}
        return Response(_answer(request, page, coverage))


def _page(request: Request, given: dict[str, Any]) -> IncidentsPage:
    mark = position(request, (NUMBER, int))
    after = (from_microseconds(mark[0]), mark[1]) if mark else None
    is_open = None if given["open"] is None else given["open"] == "true"
    wanted = IncidentFilter(run=given["run"], code=given["code"], is_open=is_open, since=given["since"])
    return list_incidents(wanted, after, given["page_size"])


def _answer(request: Request, page: IncidentsPage, coverage: dict[str, Any], **names: Any) -> dict[str, Any]:
    last = page.next_position
    return {
        **names,
        "count": len(page.results),
        "total_matching": page.total_matching,
        "is_total_capped": page.is_total_capped,
        "next": next_cursor(request, [microseconds(last[0]), last[1]] if last else None),
        "as_of": rfc3339(page.last_pass_at),
        "coverage": coverage,
        "results": page.results,
    }
