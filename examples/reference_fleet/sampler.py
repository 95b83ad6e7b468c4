"""The sampler: plays episodes with the weights a request names, a batch of requests a turn on the shared device."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import workers_client
from examples.reference_fleet import message_queue
from examples.reference_fleet.cartpole import Episode, rollout
from examples.reference_fleet.checkpoints import Checkpoints
from examples.reference_fleet.connection import connect
from examples.reference_fleet.device import Device
from examples.reference_fleet.envelope import Command, Result, failed_result
from examples.reference_fleet.interval_log import IntervalLog
from examples.reference_fleet.message_queue import MessageQueue
from examples.reference_fleet.model import load_arrays
from examples.reference_fleet.network import Network
from examples.reference_fleet.options import Options
from examples.reference_fleet.process import AnyRecorder, log, repeat, stop_on_sigterm
from examples.reference_fleet.tensors import encode_array
from examples.reference_fleet.time_slicer import TimeSlicer
from examples.reference_fleet.trouble import Trouble, is_due

_BATCH_LIMIT = 8
_MOVE_SHARE = 0.4
_WORKLOAD = "sampler"
_UPDATE_TRIES = 3  # failed weight updates after which a revision counts as one that can't be loaded


class WeightUpdateError(Exception):
    """New weights could not be brought onto the device."""


def as_sequence(episode: Episode) -> dict[str, Any]:
    """Return an episode as a sampled sequence: its actions are the tokens."""
    return {
        "tokens": episode.actions.tolist(),
        "logprobs": encode_array(episode.logprobs),
        "observations": encode_array(episode.observations),
        "reward": episode.reward,
        "stop_reason": "stop",
    }


class Sampler:
    """One replica: it holds one revision of the weights at a time."""

    def __init__(self, options: Options, stop: threading.Event, recorder: AnyRecorder) -> None:
        connection = connect(options.redis_url)
        self._queue = MessageQueue(connection)
        self._trouble = Trouble(options, connection)
        self._slicer = TimeSlicer(options.state_dir / "gpu.lock")
        self._device = Device(options.device_seconds, stop)
        self._checkpoints = Checkpoints(options.state_dir)
        self._options = options
        self._hangs_after, self._stop = options.hang_sampler, stop
        self._recorder = recorder
        self._intervals = IntervalLog(options.interval_log, "sampler")
        self._answered_count = 0
        self._revision, self._network = "", Network((1, 1), seed=0)
        self._failed_updates: dict[str, int] = {}  # by revision

    def run_turn(self) -> None:
        """Wait for requests and answer what has come, in one turn on the device."""
        _, requests = self._queue.pop_batch([message_queue.SAMPLER_INBOX], limit=self._batch_limit())
        if not requests:
            return
        if self._answered_count == self._hangs_after:
            log(_WORKLOAD, "hangs, as told")
            self._stop.wait()
            return
        runs, asked_at = sorted({request["model_id"] for request in requests}), time.time()
        with self._recorder.gpu_turn(_WORKLOAD, self._slicer.lease(_WORKLOAD)):
            self._intervals.note("gpu_wait", asked_at, runs)
            with self._recorder.span("wake_up"), self._intervals.during("gpu_switch", runs):
                self._device.occupy(_MOVE_SHARE)  # a real engine wakes its memory pool here
            results = [self._result(request) for request in requests]
            with self._recorder.span("sleep"), self._intervals.during("gpu_switch", runs):
                self._device.occupy(_MOVE_SHARE)
        for request, result in zip(requests, results, strict=True):
            if result is None:
                self._queue.push(message_queue.SAMPLER_INBOX, request)
            else:
                self._send(request, result)

    def _send(self, request: Command, result: Result) -> None:
        """Hand a result to the dispatcher, or die with it where that is planned."""
        count = self._trouble.count(request["model_id"], "sampled")
        if is_due(self._options.kill_sampler, request["model_id"], count):
            log(_WORKLOAD, "kills itself, as told")
            os.kill(os.getpid(), signal.SIGKILL)
        self._queue.push(message_queue.SAMPLE_RESULTS, {"request": request, "result": result})
        self._answered_count += 1

    def _result(self, request: Command) -> Result | None:
        """Return a request's answer, or None where it is to be tried again, after a weight update that failed."""
        try:
            self._load(request)
            count = self._trouble.count(run_id := request["model_id"], "sample")
            if self._trouble.fails(run_id, "sample", count):
                return failed_result("sample was told to fail")
            with self._recorder.span("sample", request), self._device.busy():
                return self._sample(request["payload"])
        except WeightUpdateError as error:
            log(_WORKLOAD, f"weight update failed: {error}")
            return None
        except Exception as error:  # noqa: BLE001 - whatever a request raises is its answer, and the next one goes on
            log(_WORKLOAD, f"sample failed: {type(error).__name__}: {error}")
            return failed_result(str(error))

    def _load(self, request: Command) -> None:
        """Bring the weights that a request names onto the device, where they are not there.

        Raises:
            WeightUpdateError: that failed, and may go well another time.
            RuntimeError: it failed so often that the revision counts as one that can't be loaded.
            FileNotFoundError: the revision is gone.
        """
        reference, run_id = request["payload"]["sampler_weights_ref"], request["model_id"]
        if reference == self._revision:
            return
        if self._failed_updates.get(reference, 0) >= _UPDATE_TRIES:
            raise RuntimeError(f"{reference} can't be loaded")
        path = self._checkpoints.revision(reference)
        if not path.exists():
            raise FileNotFoundError(f"{reference} is gone")
        self._revision = ""  # an update that fails halfway leaves the device with neither
        try:
            moving = self._intervals.during("gpu_switch", [run_id])
            with self._recorder.span("weight_sync", request), moving, self._device.busy(_MOVE_SHARE):
                self._network = self._read_network(path, run_id)
        except Exception as error:
            self._failed_updates[reference] = self._failed_updates.get(reference, 0) + 1
            raise WeightUpdateError(f"{reference}: {type(error).__name__}: {error}") from error
        self._failed_updates.pop(reference, None)
        self._revision = reference

    def _read_network(self, path: Path, run_id: str) -> Network:
        if is_due(self._options.fail_weight_update, run_id, self._trouble.count(run_id, "weight update")):
            raise OSError("told to fail")
        parameters = load_arrays(path)
        network = Network((parameters[0].shape[0], *(biases.shape[0] for biases in parameters[1::2])), seed=0)
        network.parameters = parameters
        return network

    def _sample(self, payload: dict[str, Any]) -> Result:
        episodes = rollout(
            self._network,
            count=payload["num_samples"],
            max_steps=payload["max_tokens"],
            seed=payload["seed"],
            pole_length=payload["pole_length"],
        )
        return {"type": "sample_completed", "sequences": [as_sequence(episode) for episode in episodes]}

    def _batch_limit(self) -> int:
        """Return how many requests to take: where the sampler is to hang, it hangs after exactly so many answers."""
        if self._hangs_after is None:
            return _BATCH_LIMIT
        return max(1, min(_BATCH_LIMIT, self._hangs_after - self._answered_count))


def main(options: Options, duty: str) -> None:
    """Sample until told to stop."""
    stop = stop_on_sigterm()
    recorder = workers_client.start(role="sampler", redis_url=options.redis_url, interval_seconds=options.flush_seconds)
    recorder.phase("idle")
    sampler = Sampler(options, stop, recorder)
    log(duty, "is ready")
    repeat(duty, stop, sampler.run_turn)
    recorder.close(timeout=1.5, reason="stopped")
