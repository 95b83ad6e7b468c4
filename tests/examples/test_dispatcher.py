"""The dispatcher saves and records the first result of each sampling request, and no other."""

import pytest

from examples.reference_fleet import message_queue
from examples.reference_fleet.dispatcher import Dispatcher
from examples.reference_fleet.envelope import new_command
from examples.reference_fleet.message_queue import MessageQueue
from examples.reference_fleet.store import ResultStore

RESULT = {"type": "sample_completed", "sequences": [{"tokens": [0, 1]}]}


class RecordedCalls:
    """Remembers which of the recorder's hooks were called, with which request."""

    def __init__(self):
        self.calls = []

    def sample_accepted(self, request):
        self.calls.append(("accepted", request["request_id"]))

    def sample_answered(self, request, result, *, source):
        self.calls.append((source, request["request_id"], result["type"]))


@pytest.fixture
def recorder():
    return RecordedCalls()


@pytest.fixture
def dispatcher(redis_client, recorder):
    return Dispatcher(redis_client, recorder)


@pytest.fixture
def request_of_a_run():
    return new_command("sample", "run", {"num_samples": 1}) | {"accepted_at": 1.0}


def test_accepted_request_goes_to_the_sampler(redis_client, dispatcher, recorder, request_of_a_run):
    MessageQueue(redis_client).push(message_queue.SAMPLE_REQUESTS, request_of_a_run)
    dispatcher.run_turn()
    _, sent = MessageQueue(redis_client).pop_batch([message_queue.SAMPLER_INBOX], limit=8)
    assert sent == [request_of_a_run]
    assert recorder.calls == [("accepted", request_of_a_run["request_id"])]


def test_first_result_is_saved_and_recorded(redis_client, dispatcher, recorder, request_of_a_run):
    MessageQueue(redis_client).push(message_queue.SAMPLE_RESULTS, {"request": request_of_a_run, "result": RESULT})
    dispatcher.run_turn()
    assert ResultStore(redis_client).load(request_of_a_run["request_id"]) == RESULT
    assert recorder.calls == [("dispatcher", request_of_a_run["request_id"], "sample_completed")]


def test_second_result_is_neither_saved_nor_recorded(redis_client, dispatcher, recorder, request_of_a_run):
    failure = {"type": "RequestFailedResponse", "error_message": "too late"}
    assert dispatcher.answer(request_of_a_run, RESULT, source="dispatcher")
    assert not dispatcher.answer(request_of_a_run, failure, source="deadline")
    assert ResultStore(redis_client).load(request_of_a_run["request_id"]) == RESULT
    assert len(recorder.calls) == 1
