"""The trainer of one run group: pops commands, runs them in turns on the shared device, saves their results."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import AbstractContextManager
from typing import Any

import workers_client
from examples.reference_fleet.checkpoints import Checkpoints
from examples.reference_fleet.connection import connect
from examples.reference_fleet.device import Device
from examples.reference_fleet.envelope import Command, Result, failed_result, is_command
from examples.reference_fleet.interval_log import IntervalLog
from examples.reference_fleet.message_queue import MessageQueue, command_queue
from examples.reference_fleet.model import Model, save_arrays
from examples.reference_fleet.options import Options
from examples.reference_fleet.process import AnyRecorder, log, repeat, stop_on_sigterm
from examples.reference_fleet.runs import plans_of
from examples.reference_fleet.store import ResultStore
from examples.reference_fleet.time_slicer import TimeSlicer
from examples.reference_fleet.trouble import Trouble, is_due

_BATCH_LIMIT = 16  # commands of one turn
_MOVE_SHARE = 0.4  # weights to and from the device take this much of an op's time
_REVISIONS_KEPT = 3


class ModelNotLoadedError(RuntimeError):
    """A command names a run that has neither a model here nor a checkpoint."""


class Trainer:
    """Serves the runs of one group, a batch of commands a turn."""

    def __init__(self, options: Options, group: str, stop: threading.Event, recorder: AnyRecorder) -> None:
        connection = connect(options.redis_url)
        self._options = options
        self._workload = f"trainer-{group}"
        self._queues = [command_queue(plan.run_id) for plan in plans_of(options.runs, group=group)]
        self._queue, self._store = MessageQueue(connection), ResultStore(connection)
        self._trouble = Trouble(options, connection)
        self._slicer = TimeSlicer(options.state_dir / "gpu.lock")
        self._device, self._stop = Device(options.device_seconds, stop), stop
        self._checkpoints = Checkpoints(options.state_dir)
        self._recorder = recorder
        self._intervals = IntervalLog(options.interval_log, f"trainer:{group}")
        self._intervals.note("started", time.time(), [plan.run_id for plan in plans_of(options.runs, group=group)])
        self._models: dict[str, Model] = {}

    def run_turn(self) -> None:
        """Wait for commands and run what has come, in one turn on the device."""
        _, messages = self._queue.pop_batch(self._queues, limit=_BATCH_LIMIT)
        commands = [message for message in messages if is_command(message)]
        self._queues.append(self._queues.pop(0))  # no run of the group comes first every time
        if not commands:
            return
        self._recorder.popped(commands)
        runs, asked_at = sorted({command["model_id"] for command in commands}), time.time()
        with self._recorder.gpu_turn(self._workload, self._slicer.lease(self._workload)):
            self._intervals.note("gpu_wait", asked_at, runs)
            with self._recorder.span("wake_up"), self._intervals.during("gpu_switch", runs):
                self._device.occupy(_MOVE_SHARE)  # a real trainer brings its weights back to the GPU here
            for command in commands:
                self._answer(command)
            with self._recorder.span("sleep"), self._intervals.during("gpu_switch", runs):
                self._device.occupy(_MOVE_SHARE)

    def _answer(self, command: Command) -> None:
        try:
            with self._recorder.operation(command) as operation, self._ran(command):
                result, amounts = self._run(command)
                operation.finish(result, **amounts)
        except Exception as error:  # noqa: BLE001 - whatever an op raises is its answer, and the next op goes on
            log(self._workload, f"{command.get('op')} failed: {type(error).__name__}: {error}")
            result = failed_result(str(error), category="user" if isinstance(error, KeyError) else "server")
        self._store.save(command["request_id"], result)
        self._recorder.answered(command, result)

    def _ran(self, command: Command) -> AbstractContextManager[None]:
        return self._intervals.during(command["op"], [command["model_id"]], command["request_id"])

    def _run(self, command: Command) -> tuple[Result, dict[str, int]]:
        """Run one op; return its result, and how much work it was."""
        run_id, name, payload = command["model_id"], command["op"], command["payload"]
        if self._is_troubled(run_id, "forward" if payload.get("forward_only") else name):
            return failed_result(f"{name} was told to fail"), {}
        with self._device.busy():
            if name == "forward_backward":
                return self._forward_backward(run_id, payload)
            if name == "optim_step":
                metrics = self._model(run_id).optim_step(payload["adam_params"])
                return {"type": "optim_step_completed", "metrics": self._recorder.sanitize_metrics(metrics)}, {}
            if name == "create_model":
                return self._create_model(run_id, payload), {}
            if name == "save_state":
                return self._save_state(run_id), {}
            if name == "save_weights_for_sampler":
                return self._save_for_sampler(run_id), {}
        raise NotImplementedError(f"no op is called {name!r}")

    def _forward_backward(self, run_id: str, payload: dict[str, Any]) -> tuple[Result, dict[str, int]]:
        data, forward_only = payload["data"], bool(payload.get("forward_only"))
        metrics = self._model(run_id).forward_backward(data, payload["loss_fn"], forward_only=forward_only)
        result = {"type": "forward_backward_completed", "metrics": self._recorder.sanitize_metrics(metrics)}
        tokens = sum(datum["loss_fn_inputs"]["target_tokens"]["shape"][0] for datum in data)
        return result, {"tokens": tokens, "datums": len(data)}

    def _create_model(self, run_id: str, payload: dict[str, Any]) -> Result:
        """Make the run's model, or go on from its newest checkpoint."""
        if not self._has_model(run_id):
            self._models[run_id] = Model(tuple(payload["layers"]), seed=payload["seed"])
            self._models[run_id].save(self._checkpoints.newest(run_id))
        return {"type": "model_created", "model_id": run_id, "step_count": self._models[run_id].step_count}

    def _save_state(self, run_id: str) -> Result:
        path = self._checkpoints.newest(run_id)
        self._model(run_id).save(path)
        return {"type": "state_saved", "path": str(path)}

    def _save_for_sampler(self, run_id: str) -> Result:
        parameters = self._model(run_id).network.parameters
        reference = self._checkpoints.next_reference(run_id)
        path = self._checkpoints.revision(reference)
        save_arrays(path, parameters)
        if is_due(self._options.spoil_revision, run_id, self._trouble.count(run_id, "revision")):
            path.write_bytes(path.read_bytes()[:100])
        self._checkpoints.remove_old_revisions(run_id, keep=_REVISIONS_KEPT)
        return {"type": "sampler_weights_saved", "path": reference}

    def _model(self, run_id: str) -> Model:
        if not self._has_model(run_id):
            raise ModelNotLoadedError("Model must be loaded first.")
        return self._models[run_id]

    def _has_model(self, run_id: str) -> bool:
        """Say whether there is a model; a trainer that was restarted goes on from the newest checkpoint."""
        if run_id not in self._models and (path := self._checkpoints.newest(run_id)).exists():
            self._models[run_id] = Model.load(path)
        return run_id in self._models

    def _is_troubled(self, run_id: str, operation: str) -> bool:
        """Bring the trouble that is due: hang, spoil the gradient, die, or return True where the op shall fail."""
        count = self._trouble.count(run_id, operation)
        if self._trouble.hangs(run_id, operation, count):
            log(self._workload, "hangs, as told")
            self._stop.wait()
        if operation == "optim_step" and self._trouble.spoils_gradient(run_id, count):
            self._model(run_id).spoil_gradient()
        if operation == "optim_step" and self._trouble.kills_trainer(run_id, count):
            log(self._workload, "kills itself, as told")
            self._recorder.flush(timeout=2.0)  # so that what stands in Redis is the same every time
            os.kill(os.getpid(), signal.SIGKILL)
        return self._trouble.fails(run_id, operation, count)


def main(options: Options, duty: str) -> None:
    """Train the runs of the group that the duty names (`trainer:<group>`) until told to stop."""
    stop = stop_on_sigterm()
    recorder = workers_client.start(role="trainer", redis_url=options.redis_url, interval_seconds=options.flush_seconds)
    recorder.phase("idle")
    trainer = Trainer(options, duty.partition(":")[2], stop, recorder)
    log(duty, "is ready")
    repeat(duty, stop, trainer.run_turn)
    recorder.close(timeout=1.5, reason="stopped")
