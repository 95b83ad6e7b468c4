"""The API server: which command an endpoint queues, what is recorded, and what a client is answered."""

import json
import threading
from http.client import HTTPConnection, RemoteDisconnected

import pytest

from examples.reference_fleet import message_queue
from examples.reference_fleet.api_server import ApiServer, ApiService
from examples.reference_fleet.message_queue import command_queue
from examples.reference_fleet.store import ResultStore

RUN = "open-rl/digits:train:0"


class RecordedCalls:
    """Remembers which of the recorder's hooks were called, with which request."""

    def __init__(self):
        self.calls = []

    def enqueued(self, command):
        self.calls.append(("enqueued", command["request_id"]))

    def answered(self, command, result):
        self.calls.append(("answered", command["request_id"]))

    def delivered(self, request_id):
        self.calls.append(("delivered", request_id))


@pytest.fixture
def recorder():
    return RecordedCalls()


@pytest.fixture
def service(redis_client, recorder):
    return ApiService(redis_client, recorder, served=[RUN])


@pytest.fixture
def server(service):
    server = ApiServer(0, service)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.stop()
    thread.join(timeout=5)


@pytest.fixture
def connection(server):
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=5)
    yield connection
    connection.close()


@pytest.fixture
def post(connection):
    """POST a body to the server and return status and answer."""

    def send(path, body):
        connection.request("POST", path, body)
        response = connection.getresponse()
        return response.status, json.loads(response.read())

    return send


def queued(redis_client, queue):
    return [json.loads(raw) for raw in redis_client.lrange(queue, 0, -1)]


def test_command_is_queued_in_the_envelope_and_recorded(redis_client, service, recorder):
    request_id = service.submit("optim_step", RUN, {"adam_params": {"learning_rate": 0.1}})
    (command,) = queued(redis_client, command_queue(RUN))
    assert command["request_id"] == request_id
    assert (command["op"], command["model_id"]) == ("optim_step", RUN)
    assert command["payload"] == {"adam_params": {"learning_rate": 0.1}}
    assert command["trace_context"]["traceparent"].startswith("00-")
    assert recorder.calls == [("enqueued", request_id)]


def test_forward_is_a_forward_backward_that_says_so(redis_client, service):
    service.submit("forward", RUN, {"data": []})
    (command,) = queued(redis_client, command_queue(RUN))
    assert (command["op"], command["payload"]["forward_only"]) == ("forward_backward", True)


def test_sampling_request_goes_to_the_dispatcher_with_the_time_it_was_accepted(redis_client, service, recorder):
    request_id = service.submit("asample", RUN, {"num_samples": 1})
    (request,) = queued(redis_client, message_queue.SAMPLE_REQUESTS)
    assert (request["request_id"], request["op"], request["accepted_at"] > 0) == (request_id, "sample", True)
    assert recorder.calls == []


def test_unknown_endpoint_is_not_queued(redis_client, post):
    assert post("/api/v1/frobnicate", '{"model_id": "run"}')[0] == 404
    assert redis_client.keys() == []


@pytest.mark.parametrize("body", ["this is { not json", "[]", ""])
def test_body_that_is_no_object_is_refused(post, body):
    status, answer = post("/api/v1/optim_step", body)
    assert (status, answer["type"], answer["category"]) == (400, "RequestFailedResponse", "user")


def test_fetched_result_is_delivered(redis_client, post, recorder):
    _, submitted = post("/api/v1/optim_step", json.dumps({"model_id": RUN, "payload": {}}))
    ResultStore(redis_client).save(submitted["request_id"], {"type": "optim_step_completed"})
    answer = post("/api/v1/retrieve_future", json.dumps(submitted))
    assert answer == (200, {"type": "optim_step_completed"})
    post("/api/v1/frobnicate", "{}")  # the answer is written before the delivery is noted
    assert recorder.calls == [("enqueued", submitted["request_id"]), ("delivered", submitted["request_id"])]


def test_client_that_left_during_its_poll_is_delivered_nothing(redis_client, connection, recorder, monkeypatch):
    seen = threading.Event()
    monkeypatch.setattr(ApiServer, "handle_error", lambda *_arguments: seen.set())
    connection.request("POST", "/api/v1/retrieve_future", '{"request_id": "r1"}')
    connection.close()
    ResultStore(redis_client).save("r1", {"type": "optim_step_completed"})
    assert seen.wait(5)
    assert recorder.calls == []


def test_command_of_a_run_that_no_trainer_serves_is_answered_at_once(redis_client, service, recorder):
    request_id = service.submit("optim_step", "nobody", {})
    assert ResultStore(redis_client).load(request_id) == {
        "type": "RequestFailedResponse", "error_message": "no trainer serves nobody", "category": "user",
    }  # fmt: skip
    assert redis_client.exists(command_queue("nobody")) == 0
    assert recorder.calls == [("enqueued", request_id), ("answered", request_id)]


def test_stopping_server_takes_and_records_nothing_more(redis_client, server, connection, post, recorder):
    post("/api/v1/frobnicate", "{}")
    server.gate.close(timeout=0)
    connection.request("POST", "/api/v1/optim_step", json.dumps({"model_id": RUN, "payload": {}}))
    with pytest.raises(RemoteDisconnected):
        connection.getresponse()
    assert recorder.calls == []
    assert redis_client.keys() == []


def test_poll_without_a_result_is_told_to_try_again(post, monkeypatch, recorder):
    monkeypatch.setattr("examples.reference_fleet.api_server._WAIT_SECONDS", 0.05)
    assert post("/api/v1/retrieve_future", '{"request_id": "none"}') == (408, {"type": "try_again"})
    assert recorder.calls == []
