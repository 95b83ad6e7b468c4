"""The endpoints of devices: parse, call, render."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from telemetry_app.api.filters import InstantFilter, PagedFilters, WordFilter
from telemetry_app.api.paging import next_cursor, position
from telemetry_app.api.tables import csv_response, wants_csv
from telemetry_app.inspection.devices import DeviceTimes, device_fields, device_times, row_fields, rows_of_device
from telemetry_app.instants import rfc3339, to_unix

RUN, DAY = BY = ("run", "day")
COLUMNS = ("since", "until", "activity", "run_id", "seconds", "share", "neighbours_waited_seconds")


class DeviceFilters(PagedFilters):
    """Of the devices."""

    since = InstantFilter(help_text="From this instant on; a day before `until` where it is missing.")
    until = InstantFilter(help_text="Up to this instant; now where it is missing.")


class DeviceTimeFilters(DeviceFilters):
    """Of one device's time."""

    by = WordFilter(BY, default=RUN, help_text="One row a run over the whole time, or one a run and day (UTC).")


class DeviceViewSet(ViewSet):
    """Devices: the list, and the time of one."""

    def list(self, request: Request) -> Response:
        """Answer the devices that had turns, by name, with what they did."""
        given = DeviceFilters.read(request.query_params)
        mark = position(request, (str,))
        found = _times(given)
        names = sorted(found.seen)
        behind = [name for name in names if mark is None or name > mark[0]]
        page = behind[: given["page_size"]]
        following = next_cursor(request, [page[-1]] if len(behind) > len(page) else None)
        results = [device_fields(name, found) for name in page]
        return Response(_answer(found, results, len(names), following))

    def time(self, request: Request, device: str) -> HttpResponseBase:
        """Answer how long one device was in each state, by run, or by run and day."""
        given = DeviceTimeFilters.read(request.query_params)
        mark = position(request, (int,))
        found = _times(given)
        rows = [row_fields(row) for row in rows_of_device(device, found, by_day=given["by"] == DAY)]
        if wants_csv(request):
            return csv_response(request, COLUMNS, [rows])
        first = mark[0] if mark else 0
        last = first + given["page_size"]
        following = next_cursor(request, [last] if last < len(rows) else None)
        return Response({"device": device, **_answer(found, rows[first:last], len(rows), following)})


def _times(given: dict[str, Any]) -> DeviceTimes:
    return device_times(to_unix(given["since"]), to_unix(given["until"]), now=timezone.now().timestamp())


def _answer(found: DeviceTimes, results: list[dict[str, Any]], total: int, following: str | None) -> dict[str, Any]:
    return {
        "since": rfc3339(found.since),
        "until": rfc3339(found.until),
        "count": len(results),
        "total_matching": total,
        "next": following,
        "as_of": rfc3339(found.until),
        "coverage": found.coverage,
        "results": results,
    }
