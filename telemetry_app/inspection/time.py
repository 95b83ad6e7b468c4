"""Where each step's wall time of a run went: the step clock over what both sources have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from telemetry_app import step_clock, stored_activity
from telemetry_app.exceptions import HistoryUnavailableError
from telemetry_app.facts import known_workers
from telemetry_app.inspection.sources import RunSources, history, or_none_where_live_is_out, run_sources
from telemetry_app.inspection.steps import DEFAULT_LAST, Numbered, StepsAnswer, answer_steps, check_span
from telemetry_app.inspection.turn_sources import new_turns
from telemetry_app.instants import rfc3339
from telemetry_app.open_activity import SERVING, life_of, offsets_of, open_activity
from telemetry_app.readers import LiveWorkers, read_workers
from telemetry_app.run_activity import Life, RunActivity, begin_of, run_step_times
from telemetry_app.run_state import WorkerFact
from telemetry_app.spans import seconds
from telemetry_app.step_clock import StepTime
from telemetry_app.step_numbers import number_steps
from telemetry_app.step_time_rows import kept_step_times
from telemetry_app.stored_activity import StoredWorkers
from telemetry_app.time_comparison import Difference, compared, slowest, totals
from telemetry_app.turn_spans import Use
from workers_client import wire

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Against:
    """The steps that those of an answer are compared with: as many, of a run (None: its own), below `before`."""

    run_id: str | None = None
    before: int | None = None


@dataclass(slots=True)
class TimeAnswer:
    """Steps oldest first, each with where its time went; `next_before` continues below them."""

    run_id: str
    steps_completed: int
    results: list[dict[str, Any]]
    next_before: int | None
    coverage: dict[str, Any]
    times: list[StepTime]


def run_time(run_id: str, *, last: int = DEFAULT_LAST, before: int | None = None, now: float) -> TimeAnswer:
    """Return where the time of the newest `last` steps of a run went, of those below `before` where it is given.

    Raises:
        InvalidQueryError: `last` is not from 1 to 2,000, or `before` is negative.
        NotFoundError, LiveDataUnavailableError, HistoryUnavailableError: see `run_sources`.
    """
    check_span(last, before)
    sources = run_sources(run_id)
    workers = or_none_where_live_is_out(read_workers) if sources.live is not None else None
    listed = answer_steps(sources, workers, last=last, before=before)
    times = times_of_steps(sources, workers, listed, is_newest=before is None, now=now)
    results = _results(listed, times)[-last:]
    return TimeAnswer(
        run_id=sources.run_id,
        steps_completed=listed.steps_completed,
        results=results,
        next_before=results[0]["step"] if results and results[0]["step"] > 0 else None,
        coverage={
            **listed.coverage,
            "complete": listed.coverage["complete"] and sources.told_since is None,
            "told_since": rfc3339(sources.told_since),
        },
        times=[time for time in times if results and time.window.step >= results[0]["step"]],
    )


def comparison(answer: TimeAnswer, against: Against, *, last: int, now: float) -> dict[str, Any] | None:
    """Compare an answer's completed steps: with others, or where none are named, their newer half with the older.

    None where there is nothing to compare.

    Raises:
        InvalidQueryError, NotFoundError, LiveDataUnavailableError, HistoryUnavailableError: see `run_time`.
    """
    own = [time for time in answer.times if time.window.completed]
    run_id = answer.run_id
    if against == Against():
        others, own = own[: len(own) // 2], own[len(own) // 2 :]
    else:
        other = run_time(against.run_id or run_id, last=last, before=against.before, now=now)
        run_id, others = other.run_id, [time for time in other.times if time.window.completed]
    if not own or not others:
        return None
    what, with_what = _range_words(own), _range_words(others)
    if run_id != answer.run_id:
        what, with_what = f"{what} of {answer.run_id}", f"{with_what} of {run_id}"
    newer, older = totals(own), totals(others)
    return {
        "run_id": run_id,
        "first_step": others[0].window.step,
        "last_step": others[-1].window.step,
        "steps_count": older.count,
        "compared_first_step": own[0].window.step,
        "compared_last_step": own[-1].window.step,
        "compared_steps_count": newer.count,
        **difference_fields(compared(newer, older, what=what, with_what=with_what)),
    }


def _range_words(times: Sequence[StepTime]) -> str:
    first, last = times[0].window.step, times[-1].window.step
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _results(listed: StepsAnswer, times: Sequence[StepTime]) -> list[dict[str, Any]]:
    """Return the fields of each step listed, and of the one that goes on and has no finished op yet."""
    by_step = {time.window.step: time for time in times}
    results = [step_fields(group.step, group.completed, by_step.pop(group.step, None)) for group in listed.groups]
    newest = listed.groups[-1].step if listed.groups else -1
    return results + [step_fields(step, False, time) for step, time in by_step.items() if step > newest]


# --- Both sources ---------------------------------------------------------------------------------------------
def times_of_steps(
    sources: RunSources, workers: LiveWorkers | None, listed: StepsAnswer, *, is_newest: bool, now: float
) -> list[StepTime]:
    """Return where the time of the listed steps went, as far as their records are at hand: oldest first.

    `is_newest`: the list has the run's newest step, so that what goes on now counts.
    """
    steps = [group.step for group in listed.groups]
    kept = _kept(sources, steps)
    missing = [step for step in steps if step not in kept]
    is_open = is_newest and sources.live is not None and _is_waiting(sources)
    newest = max(kept, default=-1)
    if kept and (is_open or (missing and missing[-1] > newest)):
        missing = sorted({*missing, newest})  # it may have got longer, and is where the next one begins
    if not missing:
        return list(kept.values())
    first, last = missing[0], None if is_newest else missing[-1]
    split = {time.window.step: time for time in _split(sources, workers, first, last, now=now)}
    found = kept | {step: time for step, time in split.items() if step in missing or step not in kept}
    return [found[step] for step in sorted(found)]


def _kept(sources: RunSources, steps: Sequence[int]) -> dict[int, StepTime]:
    """Return what history keeps of these steps."""
    if not steps:
        return {}
    return _stored(sources, lambda: kept_step_times(sources.run_id, steps[0], steps[-1]), {})


def _split(
    sources: RunSources, workers: LiveWorkers | None, first: int, last: int | None, *, now: float
) -> list[StepTime]:
    """Return the times of steps that history does not keep (yet), from the records of both sources."""
    is_newest = last is None
    operations = _operations(sources, first - 1, last)
    if not operations:
        return []
    clock = (workers.redis_time if workers else None) or now
    facts = known_workers(workers, clock) if workers else []
    start = begin_of(operations)
    end = clock if is_newest else max(record.at for _, record in operations)
    opened = open_activity(
        sources.run_id,
        facts if is_newest else (),
        enqueued=sorted(record.enqueued_at for _, record in operations if record.enqueued_at is not None),
        is_waiting=_is_waiting(sources),
    )
    samples = _samples(sources, start, end)
    turns = _turns(sources, start, end)
    others = stored_activity.writers_of([*turns, *samples])
    known = _known_workers(sources, facts, {record.worker for _, record in operations if record.worker}, others, clock)
    activity = RunActivity(
        run_id=sources.run_id,
        operations=operations,
        steps_completed=sources.steps_completed,
        samples=samples,
        turns=[*turns, *opened.turns],
        lives=list(known.lives.values()),
        unknown=_stored(sources, lambda: stored_activity.gaps_of(sources.run_id), []),
        open_claims=opened.claims,
        offsets=known.offsets,
        enqueue_offset=known.enqueue_offset,
    )
    return run_step_times(activity, first=first, last=last)


def _is_waiting(sources: RunSources) -> bool:
    totals = sources.ledger_totals
    return totals.get("enqueued", 0) > totals.get("answered", 0)


def _stored(sources: RunSources, query: Callable[[], T], default: T) -> T:
    """Return what PostgreSQL says, or the default where it can't be asked or has no such run."""
    if not sources.has_history or sources.row is None:
        return default
    try:
        return history(query)
    except HistoryUnavailableError:
        sources.has_history = False
        return default


def _note_oldest(sources: RunSources, records: Sequence[Any]) -> None:
    oldest = stored_activity.oldest_looked_at(records)
    if oldest is not None:
        sources.told_since = max(oldest, sources.told_since or oldest)


def _operations(sources: RunSources, first: int, last: int | None) -> Numbered:
    """Return the ops of some steps: of Redis as far as it reaches back, of PostgreSQL before."""
    live = sources.live.operations.records if sources.live else []
    numbered = number_steps(live, steps_completed=sources.steps_completed)
    found = {
        record.identity: (step, record)
        for step, record in numbered
        if step >= first and (last is None or step <= last + 1)
    }
    oldest = numbered[0][0] if numbered else None
    if oldest is None or oldest >= max(first, 1):  # the oldest step of Redis may have lost its beginning
        until = min((step for step in (oldest, None if last is None else last + 1) if step is not None), default=None)
        stored: Numbered = _stored(sources, lambda: stored_activity.operations_of(sources.run_id, first, until), [])
        _note_oldest(sources, [record for _, record in stored])
        found = {record.identity: (step, record) for step, record in stored} | found
    return list(found.values())


def _samples(sources: RunSources, start: float, end: float) -> list[wire.SampleRecord]:
    live = list(sources.live.samples.records) if sources.live else []
    if (live and live[0].at <= start) or _has_all_samples(sources):
        return live
    stored: list[wire.SampleRecord] = _stored(
        sources, lambda: stored_activity.samples_of(sources.run_id, start, end), []
    )
    _note_oldest(sources, stored)
    return list(
        ({record.identity: record for record in stored} | {record.identity: record for record in live}).values()
    )


def _has_all_samples(sources: RunSources) -> bool:
    """Return whether Redis has all samples of the run: history has none to add."""
    if sources.live is None or sources.row is None:
        return False
    return sources.row.sample_records_count + len(sources.new_samples) <= len(sources.live.samples.records)


def _turns(sources: RunSources, start: float, end: float) -> list[wire.TurnRecord]:
    fresh = new_turns() if sources.live is not None else None
    stored: list[wire.TurnRecord] = _stored(
        sources,
        lambda: stored_activity.turns_between(start, end),
        [],
    )
    _note_oldest(sources, stored)
    return [*stored, *(fresh.records if fresh else ())]


def _known_workers(
    sources: RunSources, facts: Sequence[WorkerFact], names: set[str], others: set[str], now: float
) -> StoredWorkers:
    """Return the lives of the workers that can serve the run, and all clocks: `others` wrote turns and samples."""
    live = {fact.record.worker: fact for fact in facts}
    found = StoredWorkers()
    if not names | others <= live.keys():
        found = _stored(
            sources, lambda: stored_activity.workers_of(sources.run_id, names, now=now, others=others), found
        )
    found.offsets |= offsets_of(fact.record for fact in facts)
    servers = {fact.name for fact in facts if fact.is_api_server and sources.run_id in fact.record.runs}
    found.servers |= {name: found.offsets.get(name, 0.0) for name in servers}
    for name in names - live.keys() - found.lives.keys():
        found.lives[name] = Life(name)
    for name, fact in live.items():
        if name in names or (fact.record.role == SERVING and sources.run_id in fact.record.runs):
            found.lives[name] = life_of(fact)
    return found


# --- Fields of the answer -------------------------------------------------------------------------------------
def step_fields(step: int, completed: bool, time: StepTime | None) -> dict[str, Any]:
    """Return one step; without its time, of which the beginning is not at hand, all of it is null."""
    if time is None:
        return {
            "step": step, "completed": completed, "started_at": None, "finished_at": None, "wall_seconds": None,
            "parts": None, "gpu_wait_by": [], "overlap_seconds": None, "clock_offset_seconds": None,
        }  # fmt: skip
    window = time.window
    return {
        "step": step,
        "completed": completed,
        "started_at": rfc3339(seconds(window.start)),
        "finished_at": rfc3339(seconds(window.end)) if completed else None,
        "wall_seconds": seconds(time.wall),
        "parts": {part: seconds(time.parts[part]) for part in step_clock.PARTS},
        "gpu_wait_by": holder_fields(time.gpu_wait_by),
        "overlap_seconds": seconds(time.overlap),
        "clock_offset_seconds": time.clock_offset_seconds,
    }


def holder_fields(waited: dict[Use | None, int]) -> list[dict[str, Any]]:
    """Return who held the device, longest first; all three names are null for the time that nobody did."""
    ordered = sorted(waited.items(), key=lambda pair: (-pair[1], str(pair[0])))
    return [
        {
            "workload": use.workload if use else None,
            "run_id": use.run_id if use else None,
            "operation": use.operation if use else None,
            "seconds": seconds(length),
        }
        for use, length in ordered
    ]


def totals_fields(times: Sequence[StepTime]) -> dict[str, Any]:
    """Return the sum over the steps shown."""
    found = totals(times)
    return {
        "steps_count": found.count,
        "wall_seconds": seconds(found.wall),
        "parts": {part: seconds(length) for part, length in found.parts.items()},
        "gpu_wait_by": holder_fields(found.gpu_wait_by),
    }


def slowest_fields(times: Sequence[StepTime]) -> list[dict[str, Any]]:
    """Return the steps that took longest beyond what is usual among those shown."""
    return [
        {"step": time.window.step, "wall_seconds": seconds(time.wall), **difference_fields(difference)}
        for time, difference in slowest(times)
    ]


def difference_fields(difference: Difference) -> dict[str, Any]:
    """Return by how much something took longer, and why."""
    return {
        "longer_seconds": seconds(difference.wall),
        "part": difference.part,
        "longer_parts": {part: seconds(difference.parts[part]) for part in step_clock.PARTS},
        "text": difference.text,
    }
