"""The dispatcher saves and records the first result of each sampling request, and no other, whatever goes wrong."""

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from examples.reference_fleet import message_queue
from examples.reference_fleet.dispatcher import Dispatcher
from examples.reference_fleet.envelope import failed_result, new_command
from examples.reference_fleet.message_queue import MessageQueue
from examples.reference_fleet.options import parse_options
from examples.reference_fleet.runs import RUNS
from examples.reference_fleet.store import ResultStore

RUN = RUNS["cartpole-policy"].run_id
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
def make_dispatcher(redis_client, recorder):
    return lambda *flags: Dispatcher(parse_options(["--fleet-id", "test", *flags]), redis_client, recorder)


@pytest.fixture
def dispatcher(make_dispatcher):
    return make_dispatcher()


def new_request(accepted_at=1.0):
    return new_command("sample", RUN, {"num_samples": 1}) | {"accepted_at": accepted_at}


def sent(redis_client):
    return MessageQueue(redis_client).take(message_queue.SAMPLER_INBOX, limit=32)


def test_accepted_request_goes_to_the_sampler(redis_client, dispatcher, recorder):
    request = new_request(time.time())
    MessageQueue(redis_client).push(message_queue.SAMPLE_REQUESTS, request)
    dispatcher.run_turn()
    assert sent(redis_client) == [request]
    assert recorder.calls == [("accepted", request["request_id"])]


def test_first_result_is_saved_and_recorded(redis_client, dispatcher, recorder):
    request = new_request()
    dispatcher.accept(request)
    MessageQueue(redis_client).push(message_queue.SAMPLE_RESULTS, {"request": request, "result": RESULT})
    dispatcher.run_turn()
    assert ResultStore(redis_client).load(request["request_id"]) == RESULT
    assert recorder.calls[1:] == [("dispatcher", request["request_id"], "sample_completed")]


def test_second_result_is_neither_saved_nor_recorded(redis_client, dispatcher, recorder):
    request = new_request()
    dispatcher.accept(request)
    assert dispatcher.answer(request, RESULT, source="dispatcher")
    assert not dispatcher.answer(request, failed_result("too late"), source="deadline")
    assert ResultStore(redis_client).load(request["request_id"]) == RESULT
    assert len(recorder.calls) == 2


def test_second_result_is_none_either_when_the_first_has_expired(redis_client, dispatcher, recorder):
    request = new_request()
    dispatcher.accept(request)
    dispatcher.answer(request, failed_result("no answer before the deadline"), source="deadline")
    redis_client.delete(f"open_rl:future:{request['request_id']}")
    assert not dispatcher.answer(request, RESULT, source="dispatcher")
    assert len(recorder.calls) == 2


def test_sweep_answers_what_is_overdue_once(make_dispatcher, recorder):
    dispatcher = make_dispatcher("--sample-deadline", "10")
    overdue, in_time = new_request(accepted_at=100.0), new_request(accepted_at=105.0)
    for request in (overdue, in_time):
        dispatcher.accept(request)
    for _ in range(2):
        dispatcher.sweep(now=112.0)
    assert recorder.calls[2:] == [("deadline", overdue["request_id"], "RequestFailedResponse")]


def test_next_dispatcher_answers_what_the_last_one_left(make_dispatcher, recorder):
    left, answered = new_request(), new_request()
    for request in (left, answered):
        make_dispatcher().accept(request)
    make_dispatcher().answer(answered, RESULT, source="dispatcher")
    recorder.calls.clear()
    second = make_dispatcher()
    second.resume()
    second.sweep(now=time.time())
    assert recorder.calls == [
        ("accepted", left["request_id"]),
        ("deadline", left["request_id"], "RequestFailedResponse"),
    ]


def test_request_that_was_answered_as_its_dispatcher_died_is_not_taken_on(redis_client, make_dispatcher, recorder):
    request = new_request()
    make_dispatcher().accept(request)
    ResultStore(redis_client).save(request["request_id"], RESULT)
    recorder.calls.clear()
    make_dispatcher().resume()
    make_dispatcher().sweep(now=time.time())
    assert recorder.calls == []


def test_failed_job_is_an_answer_without_a_send(redis_client, make_dispatcher, recorder):
    request = new_request(time.time())
    make_dispatcher("--fail-job", "cartpole-policy:1").accept(request)
    assert sent(redis_client) == []
    assert recorder.calls[1:] == [("job_failure", request["request_id"], "RequestFailedResponse")]


def test_send_that_raises_is_sent_again_in_the_next_turn(redis_client, make_dispatcher, recorder):
    request = new_request(time.time())
    dispatcher = make_dispatcher("--fail-send", "cartpole-policy:1")
    dispatcher.accept(request)
    assert sent(redis_client) == []
    dispatcher.run_turn()
    assert sent(redis_client) == [request]
    assert recorder.calls == [("accepted", request["request_id"])]


def start_dispatcher(state_dir):
    """Start a dispatcher process and return it once it is ready."""
    command = [sys.executable, "-m", "examples.reference_fleet", "--only", "dispatcher", "--state-dir", str(state_dir)]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert "is ready" in process.stdout.readline()
    return process


def push_pairs(redis_client, requests, *, batch=32):
    """Queue two results for each request, a batch apart: two dispatchers that take turns have them at one time."""
    with redis_client.pipeline() as pipeline:
        for start in range(0, len(requests), batch):
            for result in (RESULT, failed_result("the other one")):
                for request in requests[start : start + batch]:
                    MessageQueue(pipeline).push(message_queue.SAMPLE_RESULTS, {"request": request, "result": result})
        pipeline.execute()


@pytest.mark.processes
def test_two_dispatchers_count_each_of_two_racing_results_once(tmp_path, redis_client, dispatcher, samples_of):
    requests = [new_request(time.time()) for _ in range(320)]
    for request in requests:
        dispatcher.accept(request)
    both = [start_dispatcher(tmp_path) for _ in range(2)]
    push_pairs(redis_client, requests)
    deadline = time.monotonic() + 15
    while redis_client.llen(message_queue.SAMPLE_RESULTS) and time.monotonic() < deadline:
        time.sleep(0.02)
    late = 0
    for process in both:
        process.terminate()
        late += process.communicate(timeout=10)[0].count("a second result came too late")
    store, samples = ResultStore(redis_client), samples_of(RUN)
    saved = Counter(store.load(request["request_id"])["type"] for request in requests)
    assert sum(record.count for record in samples if record.kind == "group") == saved["sample_completed"]
    assert sum(record.kind == "failure" for record in samples) == saved["RequestFailedResponse"]
    assert saved.total() == late == len(requests)
