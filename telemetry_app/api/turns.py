"""The endpoint of a run's GPU turns: parse, call, render."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from telemetry_app.api.filters import InstantFilter, PagedFilters
from telemetry_app.api.paging import NUMBER, from_microseconds, microseconds, next_cursor, position
from telemetry_app.api.run_paths import part_of
from telemetry_app.api.views import RunViewSet
from telemetry_app.inspection.turns import TurnFilter, run_turns
from telemetry_app.instants import rfc3339


class TurnFilters(PagedFilters):
    """Of a run's GPU turns."""

    since = InstantFilter(help_text="Turns that ended at or after this instant.")
    until = InstantFilter(help_text="Turns that ended before this instant.")


class RunTurnsViewSet(RunViewSet):
    """The GPU turns of one run."""

    @part_of("run")
    def turns(self, request: Request, run: str) -> Response:
        """Answer the turns in which ops of the run ran, newest first, with their waits and who held the device."""
        given = TurnFilters.read(request.query_params)
        mark = position(request, (NUMBER, str, str))
        after = (from_microseconds(mark[0]), mark[1], mark[2]) if mark else None
        now = timezone.now().timestamp()
        page = run_turns(run, TurnFilter(given["since"], given["until"]), after, given["page_size"], now=now)
        last = page.next_position
        return Response(
            {
                "run_id": page.run_id,
                "count": len(page.results),
                "total_matching": page.total_matching,
                "is_total_capped": page.is_total_capped,
                "next": next_cursor(request, [microseconds(last[0]), *last[1:]] if last else None),
                "as_of": rfc3339(now) if page.coverage["live"] else page.coverage["last_snapshot_at"],
                "coverage": page.coverage,
                "current": page.current,
                "results": page.results,
            }
        )
