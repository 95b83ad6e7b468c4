"""The endpoints: parse, call, render. What they answer is made in `telemetry_app.inspection`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from telemetry_app.api.conditional import unless_known
from telemetry_app.api.field_paths import select_fields
from telemetry_app.api.filter_sets import FailureFilters, OperationFilters, RunFilters, StepFilters, WorkerFilters
from telemetry_app.api.filters import NoFilters, PagedFilters
from telemetry_app.api.paging import (
    NUMBER,
    from_microseconds,
    microseconds,
    next_cursor,
    position,
    record_mark,
    record_position,
)
from telemetry_app.api.parameters import MOST_PAGE_SIZE
from telemetry_app.api.run_paths import part_of
from telemetry_app.api.serializers import FailureItem, OperationItem
from telemetry_app.api.tables import csv_response, step_rows, wants_csv
from telemetry_app.exceptions import HistoryUnavailableError, NotFoundError
from telemetry_app.inspection import records, runs, workers
from telemetry_app.inspection.coverage import run_coverage, source_word
from telemetry_app.inspection.sources import RunSources, or_none_where_live_is_out, run_sources
from telemetry_app.inspection.steps import run_steps, step_fields
from telemetry_app.instants import rfc3339
from telemetry_app.readers import read_workers


class RunViewSet(ViewSet):
    """Runs: the list, one run, its steps, operations and failures."""

    def list(self, request: Request) -> Response:
        """Answer runs, newest activity first."""
        given = RunFilters.read(request.query_params)
        after = position(request, runs.position_types(given["ordering"]))
        now = timezone.now().timestamp()
        wanted = runs.RunFilter(
            **{name: given[name] for name in ("state", "q", "tag", "worker", "active_since", "ordering")}
        )
        page = runs.list_runs(wanted, runs.RunPosition(*after) if after else None, given["page_size"], now=now)
        mark = [page.next_position.value, page.next_position.run_id] if page.next_position else None
        return Response(
            {
                "count": len(page.results),
                "total_matching": page.total_matching,
                "next": next_cursor(request, mark),
                "as_of": rfc3339(page.as_of),
                "coverage": {"live": page.live, "history": page.has_history},
                "results": page.results,
            }
        )

    def retrieve(self, request: Request, run: str) -> Response:
        """Answer all about one run."""
        NoFilters.read(request.query_params)
        return Response(runs.run_detail(run, now=timezone.now().timestamp()))

    @part_of("run")
    @unless_known
    def steps(self, request: Request, run: str) -> HttpResponseBase:
        """Answer op records grouped by step, newest step last."""
        given = StepFilters.read(request.query_params)
        answer = run_steps(run, last=given["last"], before=given["before"])
        results = [step_fields(group) for group in answer.groups]
        if given["fields"] is not None:
            results = select_fields(results, given["fields"])
        if wants_csv(request):
            columns, rows = step_rows(results)
            return csv_response(request, columns, [rows])
        return Response(
            {
                "run_id": answer.run_id,
                "steps_completed": answer.steps_completed,
                "count": len(results),
                "next_before": answer.next_before,
                "as_of": _as_of(answer.coverage),
                "coverage": answer.coverage,
                "results": results,
            }
        )

    @part_of("run")
    @unless_known
    def operations(self, request: Request, run: str) -> HttpResponseBase:
        """Answer op records, newest first."""
        given = OperationFilters.read(request.query_params)
        wanted = records.OperationFilter(
            **{name: given[name] for name in ("status", "operation", "step", "since", "until")}
        )
        after = record_position(request)
        sources = run_sources(run)
        if wants_csv(request):
            rows = _all_pages(lambda after: records.run_operations(sources, wanted, after, MOST_PAGE_SIZE), after)
            return csv_response(request, list(OperationItem().fields), rows)
        page = records.run_operations(sources, wanted, after, given["page_size"])
        return Response(_records_answer(request, page, _run_coverage(sources, page), run_id=sources.run_id))

    @part_of("run")
    @unless_known
    def failures(self, request: Request, run: str) -> HttpResponseBase:
        """Answer failed ops and failed sampling answers of the run, newest first."""
        given = PagedFilters.read(request.query_params)
        after = record_position(request)
        sources = run_sources(run)
        if wants_csv(request):
            rows = _all_pages(lambda after: records.run_failures(sources, after, MOST_PAGE_SIZE), after)
            return csv_response(request, list(FailureItem().fields), rows)
        page = records.run_failures(sources, after, given["page_size"])
        return Response(_records_answer(request, page, _run_coverage(sources, page), run_id=sources.run_id))


class FailureViewSet(ViewSet):
    """Failures over all runs."""

    def list(self, request: Request) -> HttpResponseBase:
        """Answer failures over all runs, newest first."""
        given = FailureFilters.read(request.query_params)
        wanted = records.FailureFilter(since=given["since"], error_type=given["error_type"], run=given["run"])
        after = record_position(request)
        if wants_csv(request):
            rows = _all_pages(lambda after: records.all_failures(wanted, after, MOST_PAGE_SIZE)[0], after)
            return csv_response(request, list(FailureItem().fields), rows)
        page, is_live = records.all_failures(wanted, after, given["page_size"])
        coverage = {
            "live": is_live,
            "history": page.has_history,
            "source": source_word(live=page.has_live, stored=page.has_stored),
            "last_snapshot_at": rfc3339(_newest_snapshot_at()),
        }
        return Response(_records_answer(request, page, coverage))


class WorkerViewSet(ViewSet):
    """Workers: the list, one, and its events."""

    def list(self, request: Request) -> Response:
        """Answer workers, newest heartbeat first."""
        given = WorkerFilters.read(request.query_params)
        role, health, node, run = given["role"], given["health"], given["node"], given["run"]
        now = timezone.now().timestamp()
        answer = workers.known_workers(now=now)
        matching = [
            worker
            for worker in answer.workers
            if (role is None or worker.record.role == role)
            and (health is None or worker.health.value == health)
            and (node is None or worker.record.node == node)
            and (run is None or run in worker.record.runs)
        ]
        after = position(request, (NUMBER, str))
        if after is not None:
            mark = (-after[0], after[1])
            matching_behind = [w for w in matching if (-w.heartbeat_at, w.record.worker) > mark]
        else:
            matching_behind = matching
        size = given["page_size"]
        page = matching_behind[:size]
        more = len(matching_behind) > size
        return Response(
            {
                "count": len(page),
                "total_matching": len(matching),
                "next": next_cursor(request, [page[-1].heartbeat_at, page[-1].record.worker] if more else None),
                "as_of": rfc3339(now),
                "coverage": {
                    "live": answer.live,
                    "history": answer.has_history,
                    "malformed": answer.malformed_count,
                },
                "results": [workers.worker_fields(worker) for worker in page],
            }
        )

    def retrieve(self, request: Request, worker: str) -> Response:
        """Answer one worker, with its settings, versions, buffer and turns."""
        NoFilters.read(request.query_params)
        now = timezone.now().timestamp()
        found = workers.known_worker(worker, now=now)
        return Response({**workers.worker_detail_fields(found), "as_of": rfc3339(now)})

    @part_of("worker")
    def events(self, request: Request, worker: str) -> Response:
        """Answer what happened to one worker, newest first."""
        given = PagedFilters.read(request.query_params)
        mark = position(request, (NUMBER, str))
        after = workers.EventPosition(from_microseconds(mark[0]), mark[1]) if mark else None
        page = workers.worker_events(worker, after, given["page_size"], now=timezone.now().timestamp())
        last = page.next_position
        taken_at = rfc3339(page.last_snapshot_at)
        return Response(
            {
                "worker": worker,
                "count": len(page.events),
                "total_matching": page.total_matching,
                "next": next_cursor(request, [microseconds(last.at), last.event] if last else None),
                "as_of": taken_at,
                "coverage": {"source": "history", "history": True, "last_snapshot_at": taken_at},
                "results": [workers.event_fields(event) for event in page.events],
            }
        )


class NoEndpointView(APIView):
    """Whatever path leads nowhere."""

    def get(self, request: Request, unknown: str = "") -> Response:
        """Answer that there is no such endpoint."""
        raise NotFoundError(f"There is no endpoint {unknown[:200]!r}.")


# --- Answers of records --------------------------------------------------------------------------------------
def _all_pages(
    read: Callable[[records.Position | None], records.RecordsPage], after: records.Position | None
) -> Iterator[list[dict[str, Any]]]:
    """Yield the results of one page after another, so that no table stands in memory whole."""
    while True:
        page = read(after)
        yield page.results
        after = page.next_position
        if after is None:
            return


def _records_answer(
    request: Request, page: records.RecordsPage, coverage: dict[str, Any], **names: Any
) -> dict[str, Any]:
    return {
        **names,
        "count": len(page.results),
        "total_matching": page.total_matching,
        "is_total_capped": page.is_count_capped,
        "next": next_cursor(request, record_mark(page.next_position)),
        "as_of": _as_of(coverage),
        "coverage": coverage,
        "results": page.results,
    }


# --- Age and coverage of an answer ----------------------------------------------------------------------------
def _as_of(coverage: dict[str, Any]) -> str | None:
    """Return the instant an answer speaks of: now where it is live, else that of the newest snapshot."""
    return rfc3339(timezone.now()) if coverage.get("live") else coverage.get("last_snapshot_at")


def _run_coverage(sources: RunSources, page: records.RecordsPage) -> dict[str, Any]:
    known = or_none_where_live_is_out(read_workers) if sources.live else None
    source = source_word(live=page.has_live and sources.live is not None, stored=page.has_stored)
    return run_coverage(sources, known.records.values() if known else (), source=source)


def _newest_snapshot_at() -> datetime | None:
    try:
        return records.newest_snapshot_at()
    except HistoryUnavailableError:
        return None
