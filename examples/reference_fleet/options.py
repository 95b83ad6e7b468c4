"""What the command line says, checked: one set of options that the fleet hands on to each of its processes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from examples.reference_fleet.runs import RUNS

DEFAULT_REDIS_URL = "redis://127.0.0.1:6379/0"

_NTH_TROUBLES = {
    "--fail-job": "the job of the Nth sampling request fails: its answer, without a send",
    "--lose-sample": "the Nth sampling request never reaches the sampler, and is answered at its deadline",
    "--fail-send": "the first send of the Nth sampling request raises, and it is sent again",
    "--send-twice": "the Nth sampling request is sent twice: two results race for it",
    "--fail-weight-update": "the sampler's Nth weight update for the run fails and is tried again",
    "--spoil-revision": "the Nth revision saved for the sampler is one that it can't load",
    "--kill-sampler": "the sampler kills itself (SIGKILL) with its Nth answer made and not sent",
    "--kill-dispatcher": "the dispatcher kills itself (SIGKILL) with the Nth answer saved and its record not flushed",
}


@dataclass(frozen=True, slots=True)
class StepTrouble:
    """Something that happens to a run at its `step`th step since the fleet started."""

    run: str
    step: int


@dataclass(frozen=True, slots=True)
class OpTrouble:
    """The `nth` op of one name of a run, counted since the fleet started."""

    run: str
    operation: str
    nth: int


@dataclass(frozen=True, slots=True)
class NthTrouble:
    """The `nth` of one kind of thing in a run, counted since the fleet started; the flag says of which kind."""

    run: str
    nth: int


@dataclass(frozen=True, slots=True)
class Options:
    """All that a process of the fleet is told. Durations are seconds; None stands for "without a limit"."""

    redis_url: str
    runs: tuple[str, ...]
    seed: int
    steps: int | None
    epoch_steps: int
    after_epoch: str  # "continue" or "idle"
    ops_per_second: float | None
    device_seconds: float
    request_timeout: float
    sample_deadline: float
    flush_seconds: float
    interval_log: Path | None
    state_dir: Path
    port: int
    fail_op: OpTrouble | None
    hang_op: OpTrouble | None
    nan_gradient: StepTrouble | None
    kill_trainer: StepTrouble | None
    client_stops: StepTrouble | None
    client_leaves: StepTrouble | None
    hang_sampler: int | None
    fail_job: NthTrouble | None
    lose_sample: NthTrouble | None
    fail_send: NthTrouble | None
    send_twice: NthTrouble | None
    fail_weight_update: NthTrouble | None
    spoil_revision: NthTrouble | None
    kill_sampler: NthTrouble | None
    kill_dispatcher: NthTrouble | None
    only: str | None  # the one duty of a child process, such as "trainer:classify"
    fleet_id: str  # one start of the fleet


def parse_options(arguments: Sequence[str], *, description: str | None = None) -> Options:
    """Read the command line. Exits with a sentence that names the value and the rule where it can't be used."""
    values = vars(_parser(description).parse_args(arguments))
    if values.pop("full_speed"):
        values["ops_per_second"], values["device_seconds"] = None, 0.0
    values["redis_url"] = os.environ.get("REDIS_URL") or DEFAULT_REDIS_URL  # not a flag: it may hold a password
    return Options(**values)


def _parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.reference_fleet",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_work_flags(parser.add_argument_group("what it trains"))
    _add_speed_flags(parser.add_argument_group("how fast"))
    _add_trouble_flags(parser.add_argument_group("trouble on demand"))
    parser.add_argument("--only", help=argparse.SUPPRESS)
    parser.add_argument("--fleet-id", default="", help=argparse.SUPPRESS)
    return parser


def _add_work_flags(group: argparse._ArgumentGroup) -> None:
    known = ",".join(RUNS)
    group.add_argument("--runs", type=_run_names, default=known, help=f"names, comma-separated (default: {known})")
    group.add_argument("--seed", type=int, default=0, help="of weights, data and sampling (default: 0)")
    group.add_argument("--steps", type=_positive_int, help="stop after so many steps a run (default: never)")
    group.add_argument("--epoch-steps", type=_positive_int, default=100, help="steps of an epoch (default: 100)")
    group.add_argument(
        "--after-epoch",
        choices=("continue", "idle"),
        default="continue",
        help="after the save that ends an epoch: go on with the next, or rest (default: continue)",
    )
    group.add_argument(
        "--state-dir",
        type=Path,
        default=Path(os.environ.get("VAR_DIR") or "var") / "reference_fleet",
        help="of checkpoints; the next start goes on from them (default: reference_fleet in VAR_DIR, or in var)",
    )
    group.add_argument(
        "--interval-log",
        type=Path,
        metavar="DIR",
        help="folder in which each process also writes what it did and when, in a file of its own (default: none)",
    )
    group.add_argument("--port", type=int, default=0, help="of the API server, on 127.0.0.1 (default: a free one)")


def _add_speed_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--ops-per-second", type=_positive, default=3.0, help="pace of each client (default: 3)")
    group.add_argument("--full-speed", action="store_true", help="as fast as it can: no pace, no device time")
    group.add_argument(
        "--device-seconds",
        type=_positive,
        default=0.06,
        help="shortest time an op takes on the pretended GPU, as NumPy needs far less (default: 0.06)",
    )
    group.add_argument("--request-timeout", type=_positive, default=20.0, help="of a client, seconds (default: 20)")
    group.add_argument(
        "--sample-deadline",
        type=_positive,
        default=60.0,
        help="seconds after which the dispatcher answers a sampling request with a failure (default: 60)",
    )
    group.add_argument("--flush-seconds", type=_positive, default=5.0, help="the recorders' interval (default: 5)")


def _add_trouble_flags(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--fail-op", metavar="RUN:OP:N", type=_op_trouble, help="the Nth op of that name fails")
    group.add_argument("--hang-op", metavar="RUN:OP:N", type=_op_trouble, help="the Nth op of that name never ends")
    group.add_argument("--nan-gradient", metavar="RUN:STEP", type=_step_trouble, help="the step's gradient is NaN")
    group.add_argument(
        "--kill-trainer",
        metavar="RUN:STEP",
        type=_step_trouble,
        help="the trainer kills itself (SIGKILL) before the step's optim_step, and is restarted",
    )
    group.add_argument("--client-stops", metavar="RUN:STEP", type=_step_trouble, help="the client leaves after it")
    group.add_argument(
        "--client-leaves", metavar="RUN:STEP", type=_step_trouble, help="the client leaves before the step's answers"
    )
    group.add_argument("--hang-sampler", metavar="AFTER_N", type=_count, help="the sampler hangs after N answers")
    for flag, text in _NTH_TROUBLES.items():
        group.add_argument(flag, metavar="RUN:N", type=_nth_trouble, help=text)


def _run_names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise argparse.ArgumentTypeError("at least one run is needed")
    for name in names:
        _known_run(name)
    return names


def _known_run(name: str) -> str:
    if name not in RUNS:
        raise argparse.ArgumentTypeError(f"no run is called {name!r}: choose from {', '.join(RUNS)}")
    return name


def _op_trouble(text: str) -> OpTrouble:
    parts = text.split(":")
    if len(parts) != 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not RUN:OP:N")
    return OpTrouble(_known_run(parts[0]), parts[1], _positive_int(parts[2]))


def _step_trouble(text: str) -> StepTrouble:
    run, _, step = text.partition(":")
    return StepTrouble(_known_run(run), _positive_int(step))


def _nth_trouble(text: str) -> NthTrouble:
    run, _, nth = text.partition(":")
    return NthTrouble(_known_run(run), _positive_int(nth))


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _positive_int(text: str) -> int:
    value = _count(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return value
