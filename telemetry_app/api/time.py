"""The endpoint of a run's step clock: parse, call, render."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from telemetry_app.api.filters import Filters, NumberFilter, TextFilter
from telemetry_app.api.run_paths import part_of
from telemetry_app.api.views import RunViewSet
from telemetry_app.inspection.steps import DEFAULT_LAST, MOST_STEPS
from telemetry_app.inspection.time import Against, comparison, run_time, slowest_fields, totals_fields
from telemetry_app.instants import rfc3339


class TimeFilters(Filters):
    """Of a run's step clock."""

    last = NumberFilter(default=DEFAULT_LAST, least=1, most=MOST_STEPS, help_text="The newest so many steps.")
    before = NumberFilter(help_text="Only steps below this number.")
    against = TextFilter(help_text="The run whose newest steps, as many, these are compared with; this one by default.")
    against_before = NumberFilter(help_text="Compare with steps below this number.")


class RunTimeViewSet(RunViewSet):
    """The step clock of one run."""

    @part_of("run")
    def time(self, request: Request, run: str) -> Response:
        """Answer where each step's wall time went, newest step last."""
        given = TimeFilters.read(request.query_params)
        now = timezone.now().timestamp()
        answer = run_time(run, last=given["last"], before=given["before"], now=now)
        against = Against(given["against"], given["against_before"])
        coverage = answer.coverage
        return Response(
            {
                "run_id": answer.run_id,
                "steps_completed": answer.steps_completed,
                "count": len(answer.results),
                "next_before": answer.next_before,
                "as_of": rfc3339(now) if coverage["live"] else coverage["last_snapshot_at"],
                "coverage": coverage,
                "totals": totals_fields(answer.times),
                "slowest": slowest_fields(answer.times),
                "comparison": comparison(answer, against, last=given["last"], now=now),
                "results": answer.results,
            }
        )
