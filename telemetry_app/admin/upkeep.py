"""Retention and snapshots on one page: policies with what they would free, what ran, and running one now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from telemetry_app.admin.freshness import history_freshness
from telemetry_app.instants import from_unix
from telemetry_app.models import Execution, RetentionPolicy
from telemetry_app.retention_estimates import estimate_expired, oldest_at
from telemetry_app.retention_policies import HOLDINGS, ensure_policies, policies_in_order
from telemetry_app.task_queue import EXPIRE_SECONDS

VIEW_PERMISSION = "telemetry_app.view_execution"
START_PERMISSION = "telemetry_app.add_execution"  # there is no other way to add one
SHOWN_EXECUTIONS = 8  # of each task
_CLOCK_SECONDS = 2.0  # what the clocks of this site and of a Celery worker may be apart


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a task is that was asked for by hand: parts that ended of all, and what they did."""

    task: str
    asked_at: datetime
    executions: list[Execution]
    parts_count: int
    now: datetime

    @property
    def ended_count(self) -> int:
        """Parts that ended."""
        return sum(execution.finished_at is not None for execution in self.executions)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be seen: all parts ended, or nobody took it in time."""
        return self.ended_count >= self.parts_count or self.is_expired

    @property
    def is_expired(self) -> bool:
        """Whether nobody took it while the queue kept it."""
        return not self.executions and (self.now - self.asked_at).total_seconds() > EXPIRE_SECONDS

    @property
    def rows_count(self) -> int:
        """Rows that were written, or removed, so far."""
        return sum(execution.rows_written + execution.rows_removed for execution in self.executions)

    @property
    def errors(self) -> list[str]:
        """What failed."""
        return [execution.error for execution in self.executions if execution.error]


def progress_of(task: str, asked: str, *, now: datetime) -> Progress | None:
    """Return the progress of a task that was asked for at an instant (unix seconds, as text); None for neither."""
    if task not in Execution.Task.values or not asked.isascii() or not asked.isdecimal() or len(asked) > 12:
        return None
    asked_at = from_unix(float(asked))
    since = asked_at - timedelta(seconds=_CLOCK_SECONDS)
    parts = _retention_parts() if task == Execution.Task.RETENTION else 1
    begun = Execution.objects.filter(task=task, started_at__gte=since).order_by("started_at", "id")
    return Progress(task, asked_at, list(begun[:parts]), parts, now)


def _retention_parts() -> int:
    """Return how many executions one retention is: a policy with days each, Redis, and old executions."""
    policies = RetentionPolicy.objects.exclude(days_to_keep=None).count()
    return policies + bool(settings.TELEMETRY_REDIS_IDLE_DAYS) + 1


def policy_lines(now: datetime) -> list[dict[str, Any]]:
    """Return each policy with what it would free now, its oldest row and its newest execution."""
    ensure_policies()
    executions = Execution.objects.filter(task=Execution.Task.RETENTION).order_by("policy", "-started_at")
    newest = {execution.policy: execution for execution in executions.distinct("policy")}
    return [
        {
            "policy": policy,
            "expired": None if policy.days_to_keep is None else estimate_expired(policy, now=now),
            "oldest_at": oldest_at(HOLDINGS[policy.kind]),
            "is_by_day": HOLDINGS[policy.kind].is_partitioned,
            "newest": newest.get(policy.kind),
        }
        for policy in policies_in_order()
    ]


def upkeep_view(request: HttpRequest) -> HttpResponse:
    """Show the page; `?task=` and `?asked=` name a task that was started from it."""
    if not request.user.has_perm(VIEW_PERMISSION):
        raise PermissionDenied
    now = timezone.now()
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": "Retention and snapshots",
        "progress": progress_of(request.GET.get("task", ""), request.GET.get("asked", ""), now=now),
        "policies": policy_lines(now),
        "histories": [
            (task.label, Execution.objects.filter(task=task)[:SHOWN_EXECUTIONS])
            for task in (Execution.Task.RETENTION, Execution.Task.SNAPSHOT)
        ],
        "may_start": request.user.has_perm(START_PERMISSION),
        "may_change": request.user.has_perm("telemetry_app.change_retentionpolicy"),
        "tasks": Execution.Task.values,
        "freshness": history_freshness(),
    }
    return TemplateResponse(request, "telemetry_app/upkeep.html", context)
