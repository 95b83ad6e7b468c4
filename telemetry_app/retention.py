"""Forget on purpose: remove what is older than its policy keeps, and from Redis what is idle and stored.

Each policy is one execution, with a row of its own; one that fails does not stop the others, and what it leaves goes
with the next. Two at once: the second does nothing and says so.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from psycopg import sql

from telemetry_app import locks, partitions, redis_trimming
from telemetry_app.instants import rfc3339
from telemetry_app.models import Execution
from telemetry_app.partition_removal import remove_days
from telemetry_app.removal import Removal, remove_rows
from telemetry_app.retention_policies import (
    EXECUTIONS,
    HOLDINGS,
    REDIS,
    Holding,
    Kind,
    cutoff_at,
    ensure_policies,
    policies_in_order,
)
from telemetry_app.run_removal import remove_runs

logger = logging.getLogger(__name__)

LOCK = "retention"
EXECUTION_DAYS = 90
# A snapshot that did its work says little later, and there are thousands a day.
SNAPSHOT_EXECUTION_DAYS = 7

OnProgress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """What one policy removed. `cutoff_at` is the first instant that is kept; an empty `error` is success."""

    policy: str
    cutoff_at: str | None
    rows_removed: int
    bytes_removed: int
    keys_removed: int
    seconds: float
    error: str


@dataclass(slots=True)
class RetentionSummary:
    """What one retention did. `was_skipped`: another one was under way."""

    was_skipped: bool = False
    is_complete: bool = True  # else the time was over, and the next one goes on
    policies: list[PolicyResult] = field(default_factory=list)

    @property
    def rows_removed(self) -> int:
        """Rows removed by all policies."""
        return sum(result.rows_removed for result in self.policies)

    @property
    def errors(self) -> dict[str, str]:
        """Why policies failed, by policy."""
        return {result.policy: result.error for result in self.policies if result.error}

    def as_dict(self) -> dict[str, Any]:
        """Return the values by name, as tasks and commands report them."""
        return {
            "was_skipped": self.was_skipped,
            "is_complete": self.is_complete,
            "rows_removed": self.rows_removed,
            "policies": [asdict(result) for result in self.policies],
        }


@dataclass(frozen=True, slots=True)
class _Part:
    policy: str
    cutoff_at: datetime
    remove: Callable[[datetime, Removal], None]


def apply_retention(
    *, now: datetime | None = None, budget_seconds: float | None = None, on_progress: OnProgress | None = None
) -> RetentionSummary:
    """Apply every policy that has days to keep.

    After `budget_seconds` the rest is left to the next execution. `on_progress` is told the policy and how many rows or
    keys went, after each transaction. Nothing is raised for what fails within a policy: see the summary's `errors`.
    """
    clock = _Clock(now or timezone.now(), time.monotonic(), budget_seconds)
    ensure_policies()
    with transaction.atomic():
        partitions.ensure_ahead(clock.now().astimezone(UTC).date())
    summary = RetentionSummary()
    waiting = deque(_parts(clock.now()))
    while waiting and summary.is_complete and not summary.was_skipped:
        # Once more where the connection broke: the lock went with it.
        with locks.held(LOCK) as is_free:
            summary.was_skipped = not is_free
            if is_free:
                _apply_in_session(waiting, clock, on_progress, summary)
    if summary.was_skipped:
        logger.warning("retention left out: another one is under way")
    return summary


@dataclass(frozen=True, slots=True)
class _Clock:
    """The clock of one retention: it may be set, and goes on from there."""

    began_at: datetime
    began: float  # monotonic seconds
    budget_seconds: float | None

    @property
    def ends(self) -> float | None:
        """When the time is over (monotonic seconds)."""
        return None if self.budget_seconds is None else self.began + self.budget_seconds

    def now(self) -> datetime:
        """Return the instant it is."""
        return self.began_at + timedelta(seconds=time.monotonic() - self.began)


def _apply_in_session(
    waiting: deque[_Part], clock: _Clock, on_progress: OnProgress | None, summary: RetentionSummary
) -> None:
    """Apply what waits as long as there is time, and the connection that holds the lock lasts."""
    session = connection.connection
    while waiting and connection.connection is session:
        result, is_complete = _apply(waiting.popleft(), clock, on_progress)
        summary.policies.append(result)
        if not is_complete:
            summary.is_complete = False
            return


def _parts(now: datetime) -> Iterator[_Part]:
    for policy in policies_in_order():
        if policy.days_to_keep is not None:
            yield _Part(policy.kind, cutoff_at(now, policy.days_to_keep), _remover(HOLDINGS[policy.kind]))
    if settings.TELEMETRY_REDIS_IDLE_DAYS:
        yield _Part(REDIS, now - timedelta(days=settings.TELEMETRY_REDIS_IDLE_DAYS), redis_trimming.trim_idle)
    yield _Part(EXECUTIONS, now - timedelta(days=EXECUTION_DAYS), _remove_executions)


def _remover(holding: Holding) -> Callable[[datetime, Removal], None]:
    if holding is HOLDINGS[Kind.RUNS]:
        return remove_runs
    if holding.is_partitioned:
        return lambda before, removal: remove_days(holding, before, removal)
    return lambda before, removal: _remove_plain(holding, before, removal)


def _remove_plain(holding: Holding, before: datetime, removal: Removal) -> None:
    at = holding.at_column
    gone = sql.SQL("{} < {} AND ({}) IS NOT TRUE").format(
        sql.Identifier(at), sql.Literal(before), sql.SQL(holding.kept_sql)
    )
    remove_rows(holding.table, at, gone, removal, start="-infinity")
    if holding.beside is not None:
        _remove_plain(holding.beside, before, removal)


def _remove_executions(before: datetime, removal: Removal) -> None:
    uneventful_before = before + timedelta(days=EXECUTION_DAYS - SNAPSHOT_EXECUTION_DAYS)
    gone = sql.SQL("(started_at < {} OR (started_at < {} AND task = {} AND error = ''))").format(
        sql.Literal(before), sql.Literal(uneventful_before), sql.Literal(Execution.Task.SNAPSHOT.value)
    )
    remove_rows(Execution._meta.db_table, "started_at", gone, removal, start="-infinity")


def _apply(part: _Part, clock: _Clock, on_progress: OnProgress | None) -> tuple[PolicyResult, bool]:
    """Apply one policy; return what it did, and whether there was time for all. What fails stands in its execution."""
    started_at = clock.now()
    execution = Execution.objects.create(
        task=Execution.Task.RETENTION, policy=part.policy, cutoff_at=part.cutoff_at, started_at=started_at
    )
    removal = Removal(execution, clock.ends, on_progress)
    try:
        part.remove(part.cutoff_at, removal)
    except Exception as error:  # counted and shown; the other policies go on
        logger.exception("retention of %s failed", part.policy)
        execution.error = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    _reconnect_where_broken()
    execution.finished_at = clock.now()
    execution.save(update_fields=["error", "finished_at"])
    execution.refresh_from_db()
    result = PolicyResult(
        policy=part.policy,
        cutoff_at=rfc3339(part.cutoff_at),
        rows_removed=execution.rows_removed,
        bytes_removed=execution.bytes_removed,
        keys_removed=execution.keys_removed,
        seconds=round((execution.finished_at - started_at).total_seconds(), 3),
        error=execution.error,
    )
    return result, not removal.is_out_of_time()


def _reconnect_where_broken() -> None:
    """Close a connection that died; the next query opens another."""
    if not connection.in_atomic_block and connection.connection is not None and not connection.is_usable():
        connection.close()
