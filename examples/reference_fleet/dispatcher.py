"""The dispatcher: accepts sampling requests, sends them to the sampler, and saves each request's first result.

A request that gets no result is answered at its deadline, also where an earlier dispatcher had accepted it.
"""

from __future__ import annotations

import os
import signal
import time

import redis

import workers_client
from examples.reference_fleet import message_queue
from examples.reference_fleet.connection import connect
from examples.reference_fleet.envelope import Command, Result, failed_result, is_command
from examples.reference_fleet.interval_log import IntervalLog
from examples.reference_fleet.message_queue import MessageQueue
from examples.reference_fleet.open_requests import OpenRequests
from examples.reference_fleet.options import Options
from examples.reference_fleet.process import AnyRecorder, log, repeat, stop_on_sigterm
from examples.reference_fleet.store import ResultStore
from examples.reference_fleet.trouble import Trouble, is_due

_NAME = "dispatcher"
_BATCH_LIMIT = 32


class Dispatcher:
    """Stands between the API server and the sampler; the one place that answers sampling requests."""

    def __init__(self, options: Options, connection: redis.Redis, recorder: AnyRecorder) -> None:
        self._options = options
        self._queue = MessageQueue(connection)
        self._store = ResultStore(connection)
        self._open = OpenRequests(connection)
        self._trouble = Trouble(options, connection)
        self._recorder = recorder
        self._intervals = IntervalLog(options.interval_log, _NAME)
        self._unsent: list[Command] = []

    def resume(self) -> None:
        """Take on what an earlier dispatcher accepted and did not answer."""
        for request in self._open.all():
            if self._store.load(request["request_id"]) is None:
                self._recorder.sample_accepted(request)
            else:  # answered as the earlier one died; whether it was recorded is not known, so it is not done again
                self._open.remove(request["request_id"])

    def run_turn(self) -> None:
        """Take what has come: results before requests, since a result may be waited for."""
        self._send_again()
        queues = (message_queue.SAMPLE_RESULTS, message_queue.SAMPLE_REQUESTS)
        queue, messages = self._queue.pop_batch(queues, limit=_BATCH_LIMIT)
        for message in messages:
            if queue == message_queue.SAMPLE_RESULTS:
                self.answer(message["request"], message["result"], source="dispatcher")
            elif is_command(message):
                self.accept(message)
        self.sweep(time.time())

    def accept(self, request: Command) -> None:
        """Take a request on and send it to the sampler; where its job fails, that is its answer, without a send."""
        self._recorder.sample_accepted(request)
        accepted_at = request.get("accepted_at", time.time())
        self._open.add(request, deadline_at=accepted_at + self._options.sample_deadline)
        told, run_id = self._options, request["model_id"]
        count = self._trouble.count(run_id, "sampling request")
        if is_due(told.fail_job, run_id, count):
            log(_NAME, "a job fails, as told")
            self.answer(request, failed_result("the sampling job failed"), source="job_failure")
        elif is_due(told.lose_sample, run_id, count):
            log(_NAME, "loses a request, as told")
        else:
            self._send(request, fails=is_due(told.fail_send, run_id, count))
            if is_due(told.send_twice, run_id, count):
                log(_NAME, "sends a request twice, as told")
                self._send(request)

    def answer(self, request: Command, result: Result, *, source: str) -> bool:
        """Save a result; only the first of a request is its answer, and only that one is recorded."""
        count = self._trouble.count(request["model_id"], "sampling result")
        dies = is_due(self._options.kill_dispatcher, request["model_id"], count)
        if dies:
            self._recorder.flush(timeout=2.0)  # so that exactly this answer is lost to the telemetry
        # Results expire in the store: one that comes after that is no answer either, for the request is not open.
        is_first = self._store.save(request["request_id"], result) and self._open.remove(request["request_id"])
        if is_first:
            self._recorder.sample_answered(request, result, source=source)
            self._intervals.note("answered", time.time(), [request["model_id"]], request["request_id"])
        else:
            log(_NAME, "a second result came too late")
        if dies:
            log(_NAME, "kills itself, as told")
            os.kill(os.getpid(), signal.SIGKILL)
        return is_first

    def sweep(self, now: float) -> None:
        """Answer each request whose deadline is over with a failure."""
        for request in self._open.overdue(now):
            if not self.answer(request, failed_result("no answer before the deadline"), source="deadline"):
                self._open.remove(request["request_id"])  # another dispatcher saved a result and then died

    def _send(self, request: Command, *, fails: bool = False) -> None:
        """Send a request, or keep it for the next turn; one sent twice is still answered once."""
        try:
            if fails:
                raise redis.ConnectionError("told to fail")
            self._queue.push(message_queue.SAMPLER_INBOX, request)
        except redis.RedisError as error:
            log(_NAME, f"a send failed ({type(error).__name__}: {error}), once more")
            self._unsent.append(request)

    def _send_again(self) -> None:
        unsent, self._unsent = self._unsent, []
        for request in unsent:
            self._send(request)


def main(options: Options, duty: str) -> None:
    """Dispatch until told to stop."""
    stop = stop_on_sigterm()
    recorder = workers_client.start(
        role="dispatcher", redis_url=options.redis_url, interval_seconds=options.flush_seconds
    )
    recorder.phase("idle")
    dispatcher = Dispatcher(options, connect(options.redis_url), recorder)
    dispatcher.resume()
    log(duty, "is ready")
    repeat(duty, stop, dispatcher.run_turn)
    recorder.close(timeout=1.5, reason="stopped")
