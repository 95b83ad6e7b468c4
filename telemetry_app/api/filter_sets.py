"""What each endpoint takes: one class of declared parameters for each."""

from __future__ import annotations

from telemetry_app.api.filters import (
    Filters,
    InstantFilter,
    NumberFilter,
    OrderingFilter,
    PagedFilters,
    TextFilter,
    WordFilter,
)
from telemetry_app.health import Health
from telemetry_app.inspection import runs
from telemetry_app.inspection.steps import DEFAULT_LAST, MOST_STEPS
from telemetry_app.models import RunState
from workers_client import wire


class RunFilters(PagedFilters):
    """Of the list of runs."""

    state = WordFilter(RunState.values, help_text="Runs that are in this state now.")
    q = TextFilter(help_text="Runs whose id, name or one of whose tags contains this, in upper or lower case.")
    tag = TextFilter(help_text="Runs that have this tag.")
    worker = TextFilter(help_text="Runs that this worker names.")
    active_since = InstantFilter(help_text="Runs with activity at or after this instant.")
    ordering = OrderingFilter(
        runs.ORDERINGS, default="-last_activity_at", help_text="What runs are ordered by; `-` for descending."
    )


class StepFilters(Filters):
    """Of a run's steps."""

    last = NumberFilter(default=DEFAULT_LAST, least=1, most=MOST_STEPS, help_text="The newest so many steps.")
    before = NumberFilter(help_text="Only steps below this number.")
    fields = TextFilter(
        help_text="Comma-separated paths to keep of each step, as `step,operations.optim_step.seconds`."
    )


class OperationFilters(PagedFilters):
    """Of a run's op records."""

    status = WordFilter([status.value for status in wire.Status], help_text="Ops that ended so.")
    operation = TextFilter(help_text="Ops of this name, as `optim_step`.")
    step = NumberFilter(help_text="Ops with this step stamp.")
    since = InstantFilter(help_text="Ops that finished at or after this instant.")
    until = InstantFilter(help_text="Ops that finished before this instant.")


class FailureFilters(PagedFilters):
    """Of the failures of all runs."""

    since = InstantFilter(help_text="Failures at or after this instant.")
    error_type = TextFilter(help_text="Failures of this type, as `OutOfMemoryError`.")
    run = TextFilter(help_text="Failures of this run.")


class WorkerFilters(PagedFilters):
    """Of the workers."""

    role = WordFilter([role.value for role in wire.Role], help_text="Workers of this role.")
    health = WordFilter([health.value for health in Health], help_text="Workers of this health now.")
    node = TextFilter(help_text="Workers on this node.")
    run = TextFilter(help_text="Workers that name this run.")
