"""The endpoint of a run's metric series: parse, call, render."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from telemetry_app.api.filters import Filters, NumberFilter, TextFilter
from telemetry_app.api.run_paths import part_of
from telemetry_app.api.tables import csv_response, wants_csv
from telemetry_app.api.views import RunViewSet
from telemetry_app.inspection import metric_series
from telemetry_app.instants import rfc3339

# `from` is a word of the language, so the class can't name it as an attribute.
_FROM = NumberFilter(help_text="Steps from this number on.")


class MetricFilters(Filters):
    """Of a run's metric series."""

    names = TextFilter(
        help_text="Comma-separated names as `grad_norm:mean`, or `optim_step.grad_norm:mean` of one op alone; at most "
        "20. Without it the answer says which there are."
    )
    vars()["from"] = _FROM
    to = NumberFilter(help_text="Steps up to this number, included.")
    points = NumberFilter(
        default=metric_series.DEFAULT_POINTS,
        least=1,
        most=metric_series.MOST_POINTS,
        help_text="How many points a series has at most.",
    )


CSV_COLUMNS = (
    "operation", "name", "step", "last_step", "count", "min", "min_step", "mean", "max", "max_step", "last",
)  # fmt: skip


class RunMetricsViewSet(RunViewSet):
    """The metric series of one run."""

    @part_of("run")
    def metrics(self, request: Request, run: str) -> HttpResponseBase:
        """Answer metric series by step, downsampled to at most so many points, with minima and maxima kept."""
        given = MetricFilters.read(request.query_params)
        names = tuple(dict.fromkeys(name for name in (given["names"] or "").split(",") if name))
        wanted = metric_series.MetricsQuery(names, given["from"], given["to"], given["points"])
        answer = metric_series.run_metrics(run, wanted)
        if wants_csv(request):
            return csv_response(request, CSV_COLUMNS, _tables(answer.series))
        coverage, span = answer.coverage, answer.span
        return Response(
            {
                "run_id": answer.run_id,
                "steps_completed": answer.steps_completed,
                "from": span.first if span else None,
                "to": span.last if span else None,
                "steps_per_point": answer.steps_per_point,
                "available": answer.available,
                "unmatched_names": answer.unmatched,
                "count": len(answer.series),
                "as_of": rfc3339(timezone.now()) if coverage["live"] else coverage["last_snapshot_at"],
                "coverage": coverage,
                "results": answer.series,
            }
        )


def _tables(series: Iterable[Mapping[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the points of one series after another, each with the series it belongs to."""
    for each in series:
        yield [{"operation": each["operation"], "name": each["name"], **point} for point in each["points"]]
