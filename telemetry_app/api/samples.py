"""The endpoint of a run's sampling: parse, call, render."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from telemetry_app.api.filters import InstantFilter, NumberFilter, PagedFilters
from telemetry_app.api.paging import next_cursor, record_mark, record_position
from telemetry_app.api.run_paths import part_of
from telemetry_app.api.views import RunViewSet
from telemetry_app.inspection import samples
from telemetry_app.instants import rfc3339


class SampleFilters(PagedFilters):
    """Of a run's sampling."""

    window_seconds = NumberFilter(
        default=samples.WINDOW_SECONDS,
        least=1,
        most=samples.MOST_WINDOW_SECONDS,
        help_text="How long a window is; windows are aligned to the Unix epoch.",
    )
    since = InstantFilter(help_text="From the window of this instant on; failed answers at or after it.")
    until = InstantFilter(help_text="Up to the window of this instant; failed answers before it.")


class RunSamplesViewSet(RunViewSet):
    """The sampling of one run."""

    @part_of("run")
    def samples(self, request: Request, run: str) -> Response:
        """Answer sampling by window, oldest first, and the failed answers, newest first."""
        given = SampleFilters.read(request.query_params)
        after = record_position(request)
        wanted = samples.SamplesQuery(given["window_seconds"], given["since"], given["until"])
        now = timezone.now().timestamp()
        answer = samples.run_samples(run, wanted, after, given["page_size"], now=now)
        page, coverage = answer.failures, answer.coverage
        return Response(
            {
                "run_id": answer.run_id,
                "window_seconds": wanted.window_seconds,
                "since": rfc3339(answer.since),
                "until": rfc3339(answer.until),
                "totals": answer.totals,
                "windows": answer.windows,
                "count": len(page.results),
                "total_matching": page.total_matching,
                "is_total_capped": page.is_count_capped,
                "next": next_cursor(request, record_mark(page.next_position)),
                "as_of": rfc3339(now) if coverage["live"] else coverage["last_snapshot_at"],
                "coverage": coverage,
                "results": page.results,
            }
        )
