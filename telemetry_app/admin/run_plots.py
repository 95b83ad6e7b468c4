"""What the plots of a run's page read besides the API, and the same as CSV: a link can't ask for that by a header."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib.admin.utils import unquote
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import URLPattern, path
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from telemetry_app.api.filters import Filters, NumberFilter, WordFilter
from telemetry_app.api.metrics import RunMetricsViewSet
from telemetry_app.api.renderers import CsvRenderer
from telemetry_app.api.tables import csv_response
from telemetry_app.inspection import step_times

_STEPS = (
    "step", "last_step", "steps_count", "started_at", "finished_at", "wall_seconds", "wall_max_seconds",
    "wall_max_step",
)  # fmt: skip
_BY_OP = (*_STEPS, "operation", "count", "failures", "seconds", "queue_seconds")
_BY_CLOCK = (*_STEPS, "clock_steps_count", "part", "seconds")
OP, CLOCK = SPLITS = ("op", "clock")


class StepTimesFilters(Filters):
    """Of how long steps took."""

    vars()["from"] = NumberFilter(help_text="Steps from this number on.")
    to = NumberFilter(help_text="Steps up to this number, included.")
    points = NumberFilter(
        default=step_times.DEFAULT_POINTS, least=1, most=step_times.MOST_POINTS, help_text="How many points at most."
    )
    split = WordFilter(SPLITS, default=OP, help_text="By op, or by where the time went as well.")


class StepTimesViewSet(ViewSet):
    """How long the steps of one run took, as its page plots it."""

    schema = None  # no part of the API

    def read(self, request: Request, object_id: str) -> Response:
        """Answer points of so many steps each."""
        return Response(_answer(request, object_id))

    def table(self, request: Request, object_id: str) -> HttpResponseBase:
        """Answer the same with a row for each op of each point, or for each part of its time."""
        answer = _answer(request, object_id)
        if answer["parts"]:
            return _as_file(csv_response(request, _BY_CLOCK, _part_rows(answer)), "step-times")
        return _as_file(csv_response(request, _BY_OP, _op_rows(answer)), "step-times")


def metrics_table(request: HttpRequest, object_id: str) -> HttpResponseBase:
    """Answer metric series as CSV, with the parameters of the API."""
    view = RunMetricsViewSet.as_view({"get": "metrics"}, renderer_classes=(CsvRenderer,))
    request.META["HTTP_ACCEPT"] = CsvRenderer.media_type
    return _as_file(view(request, run=unquote(object_id)), "metrics")


def plot_urls() -> list[URLPattern]:
    """Return the paths below a run's page."""
    json, table = StepTimesViewSet.as_view({"get": "read"}), StepTimesViewSet.as_view({"get": "table"})
    return [
        path("<path:object_id>/step-times", json, name="telemetry_app_run_step_times"),
        path("<path:object_id>/step-times.csv", table, name="telemetry_app_run_step_times_csv"),
        path("<path:object_id>/metrics.csv", metrics_table, name="telemetry_app_run_metrics_csv"),
    ]


def _answer(request: Request, object_id: str) -> dict[str, Any]:
    given = StepTimesFilters.read(request.query_params)
    wanted = step_times.StepTimesQuery(given["from"], given["to"], given["points"], given["split"] == CLOCK)
    return step_times.run_step_times(unquote(object_id), wanted)


def _op_rows(answer: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    for point in answer["results"]:
        yield [{**point, "operation": name, **fields} for name, fields in point["operations"].items()]


def _part_rows(answer: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    for point in answer["results"]:
        yield [{**point, "part": part, "seconds": taken} for part, taken in (point["parts"] or {}).items()] or [point]


def _as_file(response: HttpResponseBase, name: str) -> HttpResponseBase:
    if response.status_code == 200:
        response.headers["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response
