"""What a run did at each instant, as its records tell: claims for the step clock. Pure.

Instants of records are on their writers' clocks; `offsets` (seconds, by worker) brings them to Redis's. When a request
was enqueued is by the clock of the API server, which no record names: `enqueue_offset` is that of the run's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from telemetry_app import step_clock
from telemetry_app.device_time import DeviceTime, device_time_of, waited_for
from telemetry_app.gpu_turns import SWITCHES, share_a_device
from telemetry_app.grouping import OperationGroup, OperationKey, steps_of
from telemetry_app.sampling_time import SAMPLE, sampling_spans
from telemetry_app.spans import Span, difference, intersection, microseconds, union
from telemetry_app.step_clock import StepTime, StepWindow
from telemetry_app.turn_spans import TurnSpans, kept_spans_of
from workers_client import wire
from workers_client.wire_values import LAST_INSTANT

TOLD_OFFSET_SECONDS = 1.0  # a clock that was off by more is named in the answer
TRAINING = wire.TRAINING_OPERATIONS | {wire.FORWARD}
Numbered = Sequence[tuple[int, wire.OpRecord]]


@dataclass(frozen=True, slots=True)
class Life:
    """When a worker process that could serve the run lived (unix seconds): None is not known, or still."""

    worker: str
    started_at: float | None = None
    ended_at: float | None = None


@dataclass(slots=True)
class RunActivity:
    """All that is known of a run over a stretch of time.

    `turns` are those of all workloads. `open_claims` is what workers say goes on now: part, start and end.
    `unknown` are spans whose records are lost. `lives` are those of the workers that can serve the run's ops.
    """

    run_id: str
    operations: Numbered
    steps_completed: int | None = None
    samples: Sequence[wire.SampleRecord] = ()
    turns: Sequence[wire.TurnRecord] = ()
    lives: Sequence[Life] = ()
    unknown: Sequence[tuple[float, float]] = ()
    open_claims: Sequence[tuple[str, float, float]] = ()
    offsets: Mapping[str, float] = field(default_factory=dict)
    enqueue_offset: float = 0.0


def run_step_times(activity: RunActivity, *, first: int = 0, last: int | None = None) -> list[StepTime]:
    """Return where the time of the steps from `first` to `last` went, oldest first.

    A step whose beginning is not at hand (the end of the step before it) is left out.
    """
    operations = [(step, _on_one_clock(record, activity)) for step, record in activity.operations]
    windows = _windows(operations, activity)
    wanted = [window for window in windows if window.step >= first and (last is None or window.step <= last)]
    turns = [kept_spans_of(turn, activity.offsets.get(turn.worker or "", 0.0)) for turn in activity.turns]
    activity = replace(activity, samples=[_sample_on_one_clock(each, activity.offsets) for each in activity.samples])
    own = [turn for turn in turns if activity.run_id in turn.runs]
    claims = _claims(activity, [record for _, record in operations], own)
    times = step_clock.step_times(wanted, claims, _device(own, turns))
    told = _told_offsets(operations, activity)
    for time in times:
        time.clock_offset_seconds = told.get(time.window.step)
    _tell_offsets(times, _far_spans(activity, turns))
    return times


def begin_of(operations: Numbered) -> float:
    """Return the first instant that these ops tell of (unix seconds); there must be one."""
    instants = ((record.enqueued_at, record.started_at, record.at) for _, record in operations)
    return min(at for known in instants for at in known if at is not None)


# --- Steps ----------------------------------------------------------------------------------------------------
def _windows(operations: Numbered, activity: RunActivity) -> list[StepWindow]:
    """Return when each step was. The open one goes on as long as something of the run is open."""
    steps = steps_of(_groups(operations), steps_completed=activity.steps_completed)
    windows: list[StepWindow] = []
    for step in steps:
        end = max(group.finished_at for group in step.operations.values())
        if step.wall_seconds is not None:
            start, finish = microseconds(end - step.wall_seconds), microseconds(end)
            start = windows[-1].end if windows and windows[-1].step == step.step - 1 else start
            # One that ended within the step before it (another trainer's) took no time of its own.
            windows.append(StepWindow(step.step, step.completed, start, max(start, finish)))
    return _with_what_is_open(windows, activity)


def _groups(operations: Numbered) -> dict[OperationKey, OperationGroup]:
    """Fold ops by step and name as `group_operations` does, as far as windows are told from it: no metrics."""
    groups: dict[OperationKey, OperationGroup] = {}
    for step, record in operations:
        key = step, record.operation
        group = groups.get(key) or groups.setdefault(key, OperationGroup())
        group.count += 1
        group.failures += record.status != wire.Status.SUCCEEDED.value
        group.started_at = min(group.started_at, record.at if record.started_at is None else record.started_at)
        group.finished_at = max(group.finished_at, record.at)
        if record.enqueued_at is not None:
            group.first_enqueued_at = min(record.enqueued_at, group.first_enqueued_at or record.enqueued_at)
    return groups


def _with_what_is_open(windows: list[StepWindow], activity: RunActivity) -> list[StepWindow]:
    opened = [end for _, _, end in activity.open_claims]
    if not (windows and opened):
        return windows
    newest, end = windows[-1], microseconds(max(opened))
    if end <= newest.end:
        return windows
    if newest.completed:
        return [*windows, StepWindow(newest.step + 1, False, newest.end, end)]
    return [*windows[:-1], StepWindow(newest.step, False, newest.start, end)]


# --- Claims ---------------------------------------------------------------------------------------------------
def _claims(
    activity: RunActivity, operations: Sequence[wire.OpRecord], own: Sequence[TurnSpans]
) -> dict[str, list[Span]]:
    claims: dict[str, list[Span]] = {part: [] for part in step_clock.PARTS}
    for record in operations:
        part = part_of(record.operation)
        if record.started_at is not None:
            claims[part].append(_span(record.started_at, record.at))
    for part, start, end in activity.open_claims:
        claims[part].append(_span(start, end))
    queued = [*claims[step_clock.QUEUE], *(_queued(record) for record in operations if record.enqueued_at is not None)]
    running = [span for part in (step_clock.TRAINING, step_clock.SAVING) for span in claims[part]]
    sampled, serving = _sampled(own, activity.run_id)
    claims[step_clock.SAMPLING] += sampled + sampling_spans(activity.samples, [*queued, *running], [*sampled, *serving])
    is_open = union([*queued, *running, *serving, *claims[step_clock.SAMPLING]])
    claims[step_clock.GPU_SWITCH] += _switches(own, activity.run_id)
    claims[step_clock.GPU_WAIT] = intersection([*_waits(own), *claims[step_clock.GPU_WAIT]], is_open)
    lives = _alive(activity.lives)
    claims[step_clock.QUEUE] = queued if lives is None else intersection(queued, lives)
    claims[step_clock.NO_WORKER] += [] if lives is None else difference(queued, lives)
    lost = [_span(start, end) for start, end in activity.unknown]
    claims[step_clock.UNTRACKED] = [*lost, *_unstamped(operations)]
    return claims


def part_of(operation: str) -> str:
    """Return the part that an op belongs to while it runs: what neither trains nor samples makes or keeps state."""
    if operation in TRAINING:
        return step_clock.TRAINING
    return step_clock.SAMPLING if operation == SAMPLE else step_clock.SAVING


def _queued(record: wire.OpRecord) -> Span:
    assert record.enqueued_at is not None  # the caller looked
    return _span(record.enqueued_at, record.at if record.started_at is None else record.started_at)


def _unstamped(operations: Sequence[wire.OpRecord]) -> list[Span]:
    """Return the time before each op of which nobody says when it was enqueued: it waited, or the client did."""
    found: list[Span] = []
    before = -inf
    for record in sorted(operations, key=lambda record: record.at):
        start = record.at if record.started_at is None else record.started_at
        if record.enqueued_at is None and -inf < before < start:
            found.append(_span(before, start))
        before = max(before, record.at)
    return found


def _alive(lives: Sequence[Life]) -> list[Span] | None:
    """Return when any worker that could serve the run lived, None where that is not known."""
    if not lives or any(life.started_at is None for life in lives):
        return None
    return union(
        _span(life.started_at or 0.0, LAST_INSTANT if life.ended_at is None else life.ended_at) for life in lives
    )


# --- Turns ----------------------------------------------------------------------------------------------------
def _waits(turns: Iterable[TurnSpans]) -> list[Span]:
    return [turn.wait for turn in turns if turn.wait is not None]


def _switches(own: Iterable[TurnSpans], run_id: str) -> list[Span]:
    """Return the switches of the run's turns: its own, and those of no run, which serve all that a turn worked for."""
    return [span for turn in own for span, name, of_run in turn.ops if name in SWITCHES and of_run in (None, run_id)]


def _sampled(own: Iterable[TurnSpans], run_id: str) -> tuple[list[Span], list[Span]]:
    """Return when the run's turns sampled for it, and when those that did were asked for or held the device."""
    sampled: list[Span] = []
    serving: list[Span] = []
    for turn in own:
        spans = [span for span, name, of_run in turn.ops if name == SAMPLE and of_run == run_id]
        if spans:
            sampled += spans
            serving.append((turn.wait[0] if turn.wait else turn.start, turn.end))
    return sampled, serving


def _device(own: Sequence[TurnSpans], turns: Sequence[TurnSpans]) -> DeviceTime:
    """Return who of all turns had the device that the run's own waited for, at each instant that they waited.

    Its trainer and its sampler may be on two: an instant at which both wait counts for the first by name.
    """
    by_node: dict[str, list[TurnSpans]] = {}
    for turn in own:
        by_node.setdefault(turn.turn.node or "", []).append(turn)
    devices: list[tuple[list[Span], DeviceTime]] = []
    for _, used in sorted(by_node.items(), key=lambda pair: (not pair[0], pair[0])):  # those without a name last
        of_device = (turn for turn in turns if share_a_device(turn.turn, used[0].turn))
        devices.append((_waits(used), device_time_of(of_device)))
    return devices[0][1] if len(devices) == 1 else waited_for(devices)


# --- Clocks ---------------------------------------------------------------------------------------------------
def _span(start: float, end: float) -> Span:
    return microseconds(start), microseconds(end)


def _on_one_clock(record: wire.OpRecord, activity: RunActivity) -> wire.OpRecord:
    """Return what the clock needs of an op."""
    offset = activity.offsets.get(record.worker or "", 0.0)
    if not (offset or activity.enqueue_offset) and record.started_at is not None:
        return record
    return wire.OpRecord(
        record.run_id,
        record.operation,
        record.status,
        record.at - offset,
        id=record.identity,
        worker=record.worker,
        enqueued_at=_moved(record.enqueued_at, activity.enqueue_offset),
        started_at=_started_at(record, offset),
        batch=record.batch,
    )


def _started_at(record: wire.OpRecord, offset: float) -> float | None:
    if record.started_at is not None:
        return record.started_at - offset
    return None if record.elapsed_seconds is None else record.at - record.elapsed_seconds - offset


def _told_offsets(operations: Numbered, activity: RunActivity) -> dict[int, float]:
    """Return by step the largest offset of its workers, or of who stamped its requests, that is more than a second."""
    told: dict[int, float] = {}
    for step, record in operations:
        stamped = 0.0 if record.enqueued_at is None else activity.enqueue_offset
        offset = max(activity.offsets.get(record.worker or "", 0.0), stamped, key=abs)
        if abs(offset) > max(TOLD_OFFSET_SECONDS, abs(told.get(step, 0.0))):
            told[step] = offset
    return told


def _far_spans(activity: RunActivity, turns: Iterable[TurnSpans]) -> Iterator[tuple[Span, str | None, float]]:
    """Yield the spans that turns and samples of clocks off by more than a second tell of, on Redis's clock.

    Each with its offset, and with its workload where it tells of a step alone that waited for that.
    """
    far = {worker: offset for worker, offset in activity.offsets.items() if abs(offset) > TOLD_OFFSET_SECONDS}
    for turn in turns if far else ():
        offset = far.get(turn.turn.worker or "")
        if offset is not None:
            start = turn.wait[0] if turn.wait else turn.start
            workload = None if activity.run_id in turn.runs else turn.turn.workload
            yield (start, turn.end), workload, offset
    for sample in activity.samples if far else ():
        if sample.worker in far:
            accepted = sample.accepted_at if isinstance(sample, wire.SampleFailure) else sample.first_accepted_at
            yield _span(sample.at if accepted is None else accepted, sample.at), None, far[sample.worker]


def _tell_offsets(times: Sequence[StepTime], far: Iterable[tuple[Span, str | None, float]]) -> None:
    """Let each step name the largest offset of what it is told from."""
    ends = [time.window.end for time in times]
    for (start, end), workload, offset in far:
        index = bisect_right(ends, start)
        while index < len(times) and times[index].window.start < end:
            time = times[index]
            waited_for_it = workload is None or any(use and use.workload == workload for use in time.gpu_wait_by)
            if waited_for_it and abs(offset) > abs(time.clock_offset_seconds or 0.0):
                time.clock_offset_seconds = offset
            index += 1


def _sample_on_one_clock(record: wire.SampleRecord, offsets: Mapping[str, float]) -> wire.SampleRecord:
    offset = offsets.get(record.worker or "", 0.0)
    if not offset:
        return record
    if isinstance(record, wire.SampleFailure):
        return replace(record, at=record.at - offset, accepted_at=_moved(record.accepted_at, offset))
    return replace(
        record,
        at=record.at - offset,
        first_accepted_at=_moved(record.first_accepted_at, offset),
        first_answered_at=_moved(record.first_answered_at, offset),
    )


def _moved(at: float | None, offset: float) -> float | None:
    return None if at is None else at - offset
