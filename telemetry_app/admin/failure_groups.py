"""Failures of all runs, grouped by run, op and error type."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from telemetry_app.admin.freshness import history_freshness
from telemetry_app.models import FailedOperation, FailedSample

SPANS = ((1, "last hour"), (24, "last day"), (168, "last week"), (0, "all that is kept"))
DEFAULT_HOURS = 24
MOST_FAILURES = 20_000  # newest ones of each kind that are grouped: a page never reads a big table
SHOWN_GROUPS = 200
VIEW_PERMISSION = "telemetry_app.view_failedoperation"

# Each newest part is read from the index of failures alone, whose condition it repeats.
_GROUPS = """
WITH newest AS (
    (SELECT run_id, 'operation' AS kind, operation AS what, error_type, at FROM telemetry_app_operation
     WHERE status = 'failed' AND at >= %(since)s AND (%(run)s = '' OR run_id = %(run)s)
     ORDER BY at DESC, id DESC LIMIT %(limit)s)
    UNION ALL
    (SELECT run_id, 'sample', source, error_type, at FROM telemetry_app_sample
     WHERE kind = 'failure' AND at >= %(since)s AND (%(run)s = '' OR run_id = %(run)s)
     ORDER BY at DESC, id DESC LIMIT %(limit)s)
)
SELECT run_id, kind, what, error_type, count(*), min(at), max(at), sum(count(*)) OVER (), count(*) OVER ()
FROM newest GROUP BY run_id, kind, what, error_type ORDER BY max(at) DESC, run_id, what LIMIT %(shown)s
"""


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failures of one run, op (or source of sampling requests) and error type."""

    run_id: str
    kind: str
    what: str
    error_type: str
    count: int
    first_at: datetime
    last_at: datetime

    @property
    def key(self) -> str:
        """What tells it from the others on a page."""
        return f"{self.kind} {self.what} {self.error_type} {self.run_id}"

    @property
    def run_url(self) -> str:
        """The page of the run."""
        return reverse("admin:telemetry_app_run_change", args=[quote(self.run_id)])

    @property
    def records_url(self) -> str:
        """The list of its records."""
        model, what = ("failedoperation", "operation") if self.kind == "operation" else ("failedsample", "source")
        wanted = {"run_id__exact": self.run_id, f"{what}__exact": self.what, "error_type__exact": self.error_type}
        return f"{reverse(f'admin:telemetry_app_{model}_changelist')}?{urlencode(wanted)}"


@dataclass(frozen=True, slots=True)
class FailureGroups:
    """Groups, the latest first, how many failures and groups there are, and whether older ones were left out."""

    groups: list[FailureGroup]
    failures_count: int
    groups_count: int

    @property
    def is_cut(self) -> bool:
        """Whether there may be more failures than were looked at."""
        return self.failures_count >= MOST_FAILURES


def failure_groups(*, since: datetime, run: str = "") -> FailureGroups:
    """Group the newest stored failures at or after `since`, of one run or (empty) of all."""
    parameters: dict[str, Any] = {"since": since, "run": run, "limit": MOST_FAILURES, "shown": SHOWN_GROUPS}
    with connection.cursor() as cursor:
        cursor.execute(_GROUPS, parameters)
        rows = cursor.fetchall()
    total, groups = (int(rows[0][-2]), int(rows[0][-1])) if rows else (0, 0)
    return FailureGroups([FailureGroup(*row[:-2]) for row in rows], total, groups)


def failures_view(request: HttpRequest) -> HttpResponse:
    """Show the groups of a span of time, `?hours=`, 0 for all that is kept, and of a run, `?run=`."""
    if not request.user.has_perm(VIEW_PERMISSION):
        raise PermissionDenied
    asked = request.GET.get("hours", "")
    hours = int(asked) if asked in {str(hours) for hours, _ in SPANS} else DEFAULT_HOURS
    run = request.GET.get("run", "").replace("\x00", "")
    since = timezone.now() - timedelta(hours=hours) if hours else datetime.min.replace(tzinfo=timezone.now().tzinfo)
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": "Failures",
        "found": failure_groups(since=since, run=run),
        "run_filter": run,
        "hours": hours,
        "spans": [
            {"label": label, "query": urlencode({"hours": str(value), **({"run": run} if run else {})}),
             "is_chosen": value == hours}
            for value, label in SPANS
        ],
        "freshness": history_freshness(),
        "operations_opts": FailedOperation._meta,
        "samples_opts": FailedSample._meta,
    }  # fmt: skip
    return TemplateResponse(request, "telemetry_app/failures.html", context)
