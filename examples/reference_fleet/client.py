"""The client of one run: drives its loop step by step, saves, and begins the next epoch. It records nothing itself."""

from __future__ import annotations

import threading
import time

from examples.reference_fleet.api_client import AnswerTimeoutError, ApiClient, LeftError, RequestFailedError
from examples.reference_fleet.classify_loop import ClassifyLoop
from examples.reference_fleet.control_loop import ControlLoop
from examples.reference_fleet.options import Options, StepTrouble
from examples.reference_fleet.process import log
from examples.reference_fleet.runs import RUNS, RunPlan

_SAVE_EVERY_STEPS = 10
_FIRST_RETRY_SECONDS = 0.5
_LAST_RETRY_SECONDS = 15.0


class Pace:
    """Lets so many ops a second pass, on average; None lets all pass."""

    def __init__(self, ops_per_second: float | None) -> None:
        self._seconds_per_op = 1.0 / ops_per_second if ops_per_second else 0.0
        self._next_at = time.monotonic()

    def wait(self, ops: int) -> None:
        """Wait until these ops are due; time lost to a slow service is not made up for."""
        now = time.monotonic()
        time.sleep(max(0.0, self._next_at - now))
        self._next_at = max(self._next_at, now) + ops * self._seconds_per_op


class RunClient:
    """One run: counts its own steps, from 0 at each start of the client."""

    def __init__(self, options: Options, plan: RunPlan) -> None:
        self._options, self._plan = options, plan
        self._api = ApiClient(options.port, plan.run_id, request_timeout=options.request_timeout)
        loop = ControlLoop if plan.task == "cartpole" else ClassifyLoop
        self._loop = loop(plan, self._api, options.seed)
        self._pace = Pace(options.ops_per_second)
        self._step = 0

    def run(self) -> None:
        """Train until as many steps are done as the options say."""
        while not self._create_model():
            time.sleep(_FIRST_RETRY_SECONDS)
        last, retry_pause = self._last_step(), _FIRST_RETRY_SECONDS
        while last is None or self._step < last:
            self._pace.wait(self._loop.ops_of(self._step + 1))
            if self._train_step():
                self._save_if_due()
                retry_pause = _FIRST_RETRY_SECONDS
            else:
                time.sleep(retry_pause)
                retry_pause = min(2 * retry_pause, _LAST_RETRY_SECONDS)
        log(self._plan.name, f"done after {self._step} steps")

    def _create_model(self) -> bool:
        payload = {"layers": list(self._plan.layers), "seed": self._options.seed}
        try:
            created = self._api.call("create_model", payload)
        except (AnswerTimeoutError, RequestFailedError) as error:
            log(self._plan.name, f"create_model: {error}, once more")
            return False
        log(self._plan.name, f"is run {self._plan.run_id}, {created['step_count']} steps old")
        return True

    def _last_step(self) -> int | None:
        """Return the step after which the client is done, be it told to stop or to leave."""
        stops = self._options.client_stops
        limits = [self._options.steps, stops.step if stops and stops.run == self._plan.name else None]
        return min((limit for limit in limits if limit is not None), default=None)

    def _train_step(self) -> bool:
        """Try the next step; False where a request of it failed or was never answered, and it is to be done again."""
        self._api.is_leaving = self._options.client_leaves == StepTrouble(self._plan.name, self._step + 1)
        try:
            text = self._loop.run_step(self._step + 1, self._step // self._options.epoch_steps)
        except (AnswerTimeoutError, RequestFailedError) as error:
            log(self._plan.name, f"step {self._step + 1}: {error}, once more")
            return False
        self._step += 1
        log(self._plan.name, f"step {self._step}: {text}")
        return True

    def _save_if_due(self) -> None:
        ends_epoch = self._step % self._options.epoch_steps == 0
        if self._step % _SAVE_EVERY_STEPS and not ends_epoch and self._step != self._options.steps:
            return
        try:
            self._api.call("save_weights", {"kind": "weights"})
        except (AnswerTimeoutError, RequestFailedError) as error:
            log(self._plan.name, f"save after step {self._step}: {error}")
        if ends_epoch and self._options.after_epoch == "idle":
            log(self._plan.name, f"rests after {self._step} steps")
            threading.Event().wait()


def main(options: Options, duty: str) -> None:
    """Drive the run that the duty names (`client:<run>`); SIGTERM ends it at once, for it has nothing to lose."""
    plan = RUNS[duty.partition(":")[2]]
    try:
        RunClient(options, plan).run()
    except LeftError:
        log(plan.name, "leaves before its answers, as told")
