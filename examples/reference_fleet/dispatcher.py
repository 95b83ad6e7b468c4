"""The dispatcher: accepts sampling requests, sends them to the sampler, and saves each request's first result."""

from __future__ import annotations

import redis

import workers_client
from examples.reference_fleet import message_queue
from examples.reference_fleet.connection import connect
from examples.reference_fleet.envelope import Command, Result, is_command
from examples.reference_fleet.message_queue import MessageQueue
from examples.reference_fleet.options import Options
from examples.reference_fleet.process import AnyRecorder, log, repeat, stop_on_sigterm
from examples.reference_fleet.store import ResultStore

_BATCH_LIMIT = 32


class Dispatcher:
    """Stands between the API server and the sampler; the one place that answers sampling requests."""

    def __init__(self, connection: redis.Redis, recorder: AnyRecorder) -> None:
        self._queue = MessageQueue(connection)
        self._store = ResultStore(connection)
        self._recorder = recorder

    def run_turn(self) -> None:
        """Take what has come: results before requests, since a result may be waited for."""
        queues = (message_queue.SAMPLE_RESULTS, message_queue.SAMPLE_REQUESTS)
        queue, messages = self._queue.pop_batch(queues, limit=_BATCH_LIMIT)
        for message in messages:
            if queue == message_queue.SAMPLE_RESULTS:
                self.answer(message["request"], message["result"], source="dispatcher")
            elif is_command(message):
                self.accept(message)

    def accept(self, request: Command) -> None:
        """Take a request on and send it to the sampler."""
        self._recorder.sample_accepted(request)
        self._queue.push(message_queue.SAMPLER_INBOX, request)

    def answer(self, request: Command, result: Result, *, source: str) -> bool:
        """Save a result; only the first of a request is its answer, and only that one is recorded."""
        is_first = self._store.save(request["request_id"], result)
        if is_first:
            self._recorder.sample_answered(request, result, source=source)
        return is_first


def main(options: Options, duty: str) -> None:
    """Dispatch until told to stop."""
    stop = stop_on_sigterm()
    recorder = workers_client.start(
        role="dispatcher", redis_url=options.redis_url, interval_seconds=options.flush_seconds
    )
    recorder.phase("idle")
    dispatcher = Dispatcher(connect(options.redis_url), recorder)
    log(duty, "is ready")
    repeat(duty, stop, dispatcher.run_turn)
    recorder.close(timeout=1.5, reason="stopped")
