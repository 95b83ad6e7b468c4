"""The sampler: answers each request with what the weights it names play, or with why it can't."""

import threading

import pytest

import workers_client
from examples.reference_fleet import message_queue
from examples.reference_fleet.checkpoints import Checkpoints
from examples.reference_fleet.envelope import new_command
from examples.reference_fleet.message_queue import MessageQueue
from examples.reference_fleet.model import save_arrays
from examples.reference_fleet.network import Network
from examples.reference_fleet.options import parse_options
from examples.reference_fleet.runs import RUNS
from examples.reference_fleet.sampler import Sampler

RUN = RUNS["cartpole-policy"].run_id


@pytest.fixture
def make_sampler(redis_client, redis_url, tmp_path, monkeypatch):
    """Make a sampler, already told to stop: one that hangs comes back at once."""
    monkeypatch.setenv("REDIS_URL", redis_url)
    stop = threading.Event()
    stop.set()

    def make(*flags):
        options = parse_options(["--full-speed", "--state-dir", str(tmp_path), "--fleet-id", "test", *flags])
        return Sampler(options, stop, workers_client.NullRecorder())

    return make


@pytest.fixture
def weights(tmp_path):
    """Save a policy and return its reference."""
    checkpoints = Checkpoints(tmp_path)
    reference = checkpoints.next_reference(RUN)
    save_arrays(checkpoints.revision(reference), Network((4, 6, 2), seed=0).parameters)
    return reference


def request_for(weights, seed=0):
    payload = {
        "sampler_weights_ref": weights, "num_samples": 3, "max_tokens": 30, "seed": seed, "pole_length": 0.5,
    }  # fmt: skip
    return new_command("sample", RUN, payload)


def answers(redis_client, sampler, *requests):
    for request in requests:
        MessageQueue(redis_client).push(message_queue.SAMPLER_INBOX, request)
    sampler.run_turn()
    _, messages = MessageQueue(redis_client).pop_batch([message_queue.SAMPLE_RESULTS], limit=32)
    return messages


def test_each_request_is_answered_with_its_episodes(redis_client, make_sampler, weights):
    requests = [request_for(weights, seed) for seed in range(2)]
    first, second = answers(redis_client, make_sampler(), *requests)
    assert [first["request"], second["request"]] == requests
    for message in (first, second):
        sequences = message["result"]["sequences"]
        assert len(sequences) == 3
        assert all(sequence["reward"] == len(sequence["tokens"]) <= 30 for sequence in sequences)
    assert first["result"] != second["result"]


def test_same_request_is_answered_alike_by_another_sampler(redis_client, make_sampler, weights):
    request = request_for(weights)
    (first,) = answers(redis_client, make_sampler(), request)
    (second,) = answers(redis_client, make_sampler(), request)
    assert first == second


def test_request_for_weights_that_are_gone_fails_alone(redis_client, make_sampler, weights):
    gone = request_for(f"tinker://{RUN}/sampler_weights/999999")
    failed, succeeded = answers(redis_client, make_sampler(), gone, request_for(weights))
    assert failed["result"]["type"] == "RequestFailedResponse"
    assert succeeded["result"]["type"] == "sample_completed"


def test_hanging_sampler_answers_exactly_as_many_as_told(redis_client, make_sampler, weights):
    sampler = make_sampler("--hang-sampler", "2")
    assert len(answers(redis_client, sampler, *(request_for(weights, seed) for seed in range(5)))) == 2
    sampler.run_turn()
    assert redis_client.llen(message_queue.SAMPLE_RESULTS) == 0


def test_request_whose_weight_update_failed_is_answered_after_the_next(redis_client, make_sampler, weights):
    sampler, request = make_sampler("--fail-weight-update", "cartpole-policy:1"), request_for(weights)
    assert answers(redis_client, sampler, request) == []
    (answer,) = answers(redis_client, sampler)
    assert (answer["request"], answer["result"]["type"]) == (request, "sample_completed")


def test_each_request_for_a_revision_that_cannot_be_loaded_fails_once(redis_client, make_sampler, weights, tmp_path):
    Checkpoints(tmp_path).revision(weights).write_bytes(b"PK\x03\x04")
    sampler, requests = make_sampler(), [request_for(weights, seed) for seed in range(5)]
    failed = [*answers(redis_client, sampler, *requests), *answers(redis_client, sampler)]
    assert sorted(answer["request"]["request_id"] for answer in failed) == sorted(
        request["request_id"] for request in requests
    )
    assert {answer["result"]["error_message"] for answer in failed} == {f"{weights} can't be loaded"}


def test_weights_of_before_are_loaded_again_after_a_failed_update(redis_client, make_sampler, weights, tmp_path):
    sampler = make_sampler("--fail-weight-update", "cartpole-policy:2")
    (before,) = answers(redis_client, sampler, request := request_for(weights))
    newer = Checkpoints(tmp_path).next_reference(RUN)
    save_arrays(Checkpoints(tmp_path).revision(newer), Network((4, 6, 2), seed=1).parameters)
    assert answers(redis_client, sampler, request_for(newer)) == []
    redis_client.delete(message_queue.SAMPLER_INBOX)
    assert answers(redis_client, sampler, request) == [before]
