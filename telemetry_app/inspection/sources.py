"""The two sources of one run, each of which may be out: what Redis holds now, and the row that PostgreSQL keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.db import DatabaseError, InterfaceError

from telemetry_app import readers
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError, NotFoundError
from telemetry_app.history_faults import fault_sentence
from telemetry_app.ledger_totals import advance, missing_records
from telemetry_app.models import ListCursor, Run
from telemetry_app.receipt_times import place_received
from telemetry_app.step_numbers import count_unstamped_steps
from workers_client import wire

T = TypeVar("T")


def or_none_where_live_is_out(read: Callable[[], T]) -> T | None:
    """Return what `read` returns, or None where Redis can't be asked: the caller says so in its answer."""
    try:
        return read()
    except LiveDataUnavailableError:
        return None


def history(query: Callable[[], T]) -> T:
    """Run a query of PostgreSQL.

    Raises:
        HistoryUnavailableError: PostgreSQL can't be asked.
    """
    try:
        return query()
    except (DatabaseError, InterfaceError) as error:
        raise HistoryUnavailableError(fault_sentence(error)) from error


@dataclass(slots=True)
class RunSources:
    """One run as both sources have it. `live` is None where Redis is out, `row` where history has no such run or is
    out itself (`has_history` tells which)."""

    run_id: str
    live: readers.LiveRun | None
    row: Run | None
    has_history: bool = True
    new_operations: list[wire.OpRecord] = field(default_factory=list)  # in Redis, and not in a snapshot yet
    new_samples: list[wire.SampleRecord] = field(default_factory=list)
    told_since: float | None = None  # before it there are more stored records than were looked at

    @property
    def steps_completed(self) -> int:
        """Successful `optim_step`s of the run."""
        stored = self.row.steps_completed if self.row else 0
        counted = stored + count_unstamped_steps(self.new_operations)
        return max(counted, self.live.steps_completed if self.live else 0)

    @property
    def ledger_totals(self) -> dict[str, int]:
        """The ledger over the run's whole life: what the newest snapshot has, and what Redis counted since."""
        stored = {name: getattr(self.row, name) or 0 for name in wire.LEDGER_COUNTS} if self.row else {}
        if self.live is None:
            return stored
        return dict(advance(stored, self.row.ledger_seen if self.row else {}, self.live.ledger).totals)

    @property
    def malformed_count(self) -> int:
        """Elements of the run's lists that were no usable record."""
        stored = self.row.malformed_count if self.row else 0
        return max(stored, self.live.malformed_count if self.live else 0)

    @property
    def wrong_clock_records(self) -> int:
        """Records of clocks that can't be right, of which nobody knows when they were received: read as just now."""
        return sum(len(part.of_wrong_clocks) for part in (self.live.operations, self.live.samples)) if self.live else 0

    @property
    def missing_records(self) -> int:
        """Records that are known to exist and that neither Redis nor PostgreSQL holds."""
        totals: dict[str, int | None] = dict(self.ledger_totals)
        if not self._tells_records:
            totals["recorded"] = None
        row = self.row
        return missing_records(
            totals,
            operations_count=(row.operations_count if row else 0) + len(self.new_operations),
            samples_count=(row.sample_records_count if row else 0) + len(self.new_samples),
            malformed_count=self.malformed_count,
        )

    @property
    def _tells_records(self) -> bool:
        """Whether the run's workers say how many records they wrote."""
        in_live = self.live is not None and self.live.ledger.recorded is not None
        return in_live or (self.row is not None and self.row.recorded is not None)


def run_sources(run_id: str) -> RunSources:
    """Read one run from both sources. A reference (`tinker://<run>/…`) means its run, where no run is called so.

    Raises:
        NotFoundError: both could be asked and neither knows the run, or no run may be called so.
        LiveDataUnavailableError: neither can be asked, or Redis is out and history does not know the run.
    """
    try:
        return _sources_of(run_id)
    except NotFoundError:
        meant = wire.checked_run_id(run_id)
        if meant is None or meant == run_id:
            raise
        return _sources_of(meant)


def _sources_of(run_id: str) -> RunSources:
    if not wire.is_run_id(run_id):  # another run's samples, or a text that PostgreSQL refuses
        raise NotFoundError(f"There is no run {run_id[: wire.RUN_ID_LIMIT]!r}.")
    sources = RunSources(run_id, None, None)
    try:
        sources.row = history(lambda: _row_and_cursors(run_id))
    except HistoryUnavailableError:
        sources.has_history = False
    # After the cursors: behind a cursor that a snapshot moves meanwhile, everything in Redis would look new.
    sources.live = or_none_where_live_is_out(lambda: readers.read_run(run_id))
    if sources.live is not None:
        _place_received(sources, sources.live)
        row: Any = sources.row
        sources.new_operations = _behind(sources.live.operations.records, row and row.operations_cursor)
        sources.new_samples = _behind(sources.live.samples.records, row and row.samples_cursor)
    _require_something(sources)
    return sources


def _place_received(sources: RunSources, live: readers.LiveRun) -> None:
    """Let stored records of wrong clocks end when they were received, where history can be asked for that."""
    if sources.row is not None:
        try:
            history(lambda: place_received([live]))
        except HistoryUnavailableError:
            sources.has_history = False


def _require_something(sources: RunSources) -> None:
    if sources.row is not None or (sources.live is not None and sources.live.exists):
        return
    if sources.live is None:
        raise LiveDataUnavailableError(f"Redis can't be read, and history has no run {sources.run_id!r}.")
    if not sources.has_history:
        raise HistoryUnavailableError(f"PostgreSQL can't be read, and Redis has no run {sources.run_id!r}.")
    raise NotFoundError(f"There is no run {sources.run_id!r}.")


def _row_and_cursors(run_id: str) -> Run | None:
    """Return the run's row with the newest records taken: in one statement, so that they belong together."""
    keys = (wire.operations_key(run_id), wire.samples_key(run_id))
    return next(iter(Run.objects.raw(_ROW_AND_CURSORS, (*keys, run_id))), None)


# As text: to compile it anew for each answer takes longer than PostgreSQL does.
_NEWEST_TAKEN = f"(SELECT newest_record_id FROM {ListCursor._meta.db_table} WHERE list_key = %s)"
_ROW_AND_CURSORS = f"""
SELECT run.*, {_NEWEST_TAKEN} AS operations_cursor, {_NEWEST_TAKEN} AS samples_cursor
FROM {Run._meta.db_table} run WHERE run_id = %s
"""


R = TypeVar("R", wire.OpRecord, wire.SampleRecord)


def _behind(records: list[R], newest_record_id: str | None) -> list[R]:
    """Return the records behind the one a snapshot took last; all where it is not among them."""
    for index in range(len(records) - 1, -1, -1):
        if newest_record_id and records[index].identity == newest_record_id:
            return records[index + 1 :]
    return records
