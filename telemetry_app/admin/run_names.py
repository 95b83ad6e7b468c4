"""What people call runs, for pages that name many."""

from __future__ import annotations

from collections.abc import Iterable

from telemetry_app.exceptions import HistoryUnavailableError
from telemetry_app.inspection.sources import history
from telemetry_app.models import Run


def run_names(run_ids: Iterable[str | None]) -> dict[str, str]:
    """Return the names of these runs, of those that have one; none where they can't be read: ids stand there then."""
    named = Run.objects.filter(pk__in={run for run in run_ids if run}).exclude(name="").values_list("pk", "name")
    try:
        return history(lambda: dict(named))
    except HistoryUnavailableError:
        return {}
