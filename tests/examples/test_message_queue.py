"""Queues in Redis: in order, in batches, past what is no message."""

from examples.reference_fleet.message_queue import MessageQueue, command_queue


def test_batch_holds_the_oldest_messages_in_order(redis_client):
    queue = MessageQueue(redis_client)
    for number in range(5):
        queue.push("work", {"number": number})
    name, messages = queue.pop_batch(["work"], limit=3)
    assert name == "work"
    assert [message["number"] for message in messages] == [0, 1, 2]
    assert redis_client.llen("work") == 2


def test_batch_is_of_one_queue(redis_client):
    queue = MessageQueue(redis_client)
    queue.push("second", {"of": "second"})
    queue.push("first", {"of": "first"})
    assert queue.pop_batch(["first", "second"], limit=8) == ("first", [{"of": "first"}])


def test_bad_message_costs_only_itself(redis_client):
    queue = MessageQueue(redis_client)
    redis_client.rpush("work", "this is { not json", '"a text"', '{"number":1}')
    assert queue.pop_batch(["work"], limit=8) == ("work", [{"number": 1}])


def test_empty_queues_give_nothing(redis_client):
    assert MessageQueue(redis_client).pop_batch(["work"], limit=8) == (None, [])


def test_commands_wait_in_the_runs_own_queue():
    assert command_queue("Qwen/Qwen3-8B:1") == "open_rl:queue:Qwen/Qwen3-8B:1"


def test_take_does_not_wait_and_takes_no_more_than_told(redis_client):
    queue = MessageQueue(redis_client)
    for number in range(3):
        queue.push("work", {"number": number})
    assert [queue.take("work", limit=2), queue.take("work", limit=2), queue.take("work", limit=2)] == [
        [{"number": 0}, {"number": 1}],
        [{"number": 2}],
        [],
    ]
