"""A flush is applied once or not at all, whatever happens to Redis and the way to it."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
import redis

from openrl_site.embedded_redis import EmbeddedRedis
from tests.support.tcp_proxy import TcpProxy
from tests.support.workers import (
    RUN,
    check_sums,
    end_recorder,
    failed_flushes,
    ledger,
    make_recorder,
    record_ops,
    stored_ids,
    wait_until,
)
from workers_client import wire
from workers_client.recorder import Recorder

OPS = 100


def check_all_arrived(recorder: Recorder, client: redis.Redis, count: int) -> None:
    """Check that `count` ops stand in Redis once each, in order, and that the ledger counts exactly them."""
    assert recorder.flush(20)
    check_sums(recorder, client)
    ids = stored_ids(client)
    numbers = [int(record_id.rsplit(":", 1)[1]) for record_id in ids]
    assert len(ids) == count
    assert numbers == sorted(numbers)
    counts = ledger(client)
    assert [counts[name] for name in ("enqueued", "popped", "answered", "recorded")] == [count] * 4


@pytest.mark.parametrize("mode", ["refuse", "reset", "swallow", "cut_reply", "halt"])
def test_each_op_arrives_once_after_the_network_heals(
    recorder: Recorder, proxy: TcpProxy, client: redis.Redis, mode: str
) -> None:
    record_ops(recorder, range(OPS))
    assert recorder.flush(20)
    proxy.mode = mode
    record_ops(recorder, range(OPS, 2 * OPS))
    wait_until(lambda: failed_flushes(recorder) >= 2, "a second failed flush")
    assert recorder.flush(0.1) is False
    proxy.mode = "pass"
    record_ops(recorder, range(2 * OPS, 3 * OPS))
    check_all_arrived(recorder, client, 3 * OPS)


def test_a_flush_whose_reply_was_lost_is_not_applied_again(
    recorder: Recorder, proxy: TcpProxy, client: redis.Redis
) -> None:
    record_ops(recorder, range(1), wire.OPTIM_STEP)
    assert recorder.flush(20)  # the connection is made, the step base known: the next reply is that of the flush
    proxy.mode = "cut_reply"
    record_ops(recorder, range(1, OPS), wire.OPTIM_STEP)
    wait_until(lambda: client.llen(wire.operations_key(RUN)) == OPS, "the first try")
    wait_until(lambda: failed_flushes(recorder) >= 1, "the lost reply")
    proxy.mode = "pass"
    check_all_arrived(recorder, client, OPS)
    assert recorder.stats()["redelivered"] == OPS - 1
    assert client.get(wire.steps_key(RUN)) == str(OPS).encode()
    assert client.llen(wire.step_times_key(RUN)) == OPS


def test_a_connection_that_was_forgotten_while_idle_costs_nothing(
    recorder: Recorder, proxy: TcpProxy, client: redis.Redis
) -> None:
    record_ops(recorder, range(1))
    assert recorder.flush(20)
    proxy.forget()  # what is sent now gets no answer and no reset
    record_ops(recorder, range(1, 2))
    check_all_arrived(recorder, client, 2)


def test_a_flush_costs_the_same_with_a_long_history(client: redis.Redis, server: EmbeddedRedis) -> None:
    recorder = make_recorder(f"unix://{server.socket}", interval_seconds=60)
    costs = []
    first = 0
    for history in (200, 5_000):  # the second has a full list, trimmed by each flush
        record_ops(recorder, range(first, first + history))
        assert recorder.flush(60)
        client.config_resetstat()
        record_ops(recorder, range(first + history, first + history + OPS))
        assert recorder.flush(20)
        first += history + OPS
        commands = {name: told["calls"] for name, told in client.info("commandstats").items()}
        del commands["cmdstat_config"]
        costs.append((commands, client.info("stats")["total_net_input_bytes"]))
    (few_commands, few_bytes), (many_commands, many_bytes) = costs
    assert many_commands == few_commands
    assert many_bytes < 1.1 * few_bytes  # ids and counters have more digits
    end_recorder(recorder)


def test_a_retry_that_races_the_first_try_applies_once(
    recorder: Recorder, proxy: TcpProxy, client: redis.Redis
) -> None:
    proxy.delay_seconds = 0.5  # longer than the recorder waits: it tries again while the first reply is on its way
    record_ops(recorder, range(1))
    assert recorder.flush(20)
    proxy.mode = "delay"
    record_ops(recorder, range(1, OPS))
    wait_until(lambda: failed_flushes(recorder) >= 1, "the late reply")
    proxy.mode = "pass"
    check_all_arrived(recorder, client, OPS)


def test_a_server_that_is_stopped_and_resumed_gets_each_op_once(
    recorder: Recorder, server: EmbeddedRedis, client: redis.Redis
) -> None:
    record_ops(recorder, range(OPS))
    assert recorder.flush(20)
    pid = client.info("server")["process_id"]
    os.kill(pid, signal.SIGSTOP)
    try:
        record_ops(recorder, range(OPS, 2 * OPS))
        wait_until(lambda: failed_flushes(recorder) >= 2, "a second failed flush")
    finally:
        os.kill(pid, signal.SIGCONT)
    check_all_arrived(recorder, client, 2 * OPS)


def test_a_server_that_is_killed_and_started_gets_each_op_once(
    recorder: Recorder, server: EmbeddedRedis, client: redis.Redis
) -> None:
    record_ops(recorder, range(OPS))
    assert recorder.flush(20)
    client.config_set("appendfsync", "always")
    os.kill(client.info("server")["process_id"], signal.SIGKILL)
    record_ops(recorder, range(OPS, 2 * OPS))
    wait_until(lambda: failed_flushes(recorder) >= 1, "a failed flush")
    server.stop()
    server.start()
    client.connection_pool.disconnect()
    check_all_arrived(recorder, client, 2 * OPS)


def test_a_server_that_came_back_empty_gets_the_step_count_back(recorder: Recorder, client: redis.Redis) -> None:
    record_ops(recorder, range(5), wire.OPTIM_STEP)
    assert recorder.flush(20)
    client.flushall()
    record_ops(recorder, range(5, 7), wire.OPTIM_STEP)
    assert recorder.flush(20)
    assert client.get(wire.steps_key(RUN)) == b"7"
    raw = client.lrange(wire.operations_key(RUN), 0, -1)
    assert [wire.parse_operation(element, run_id=RUN).step for element in raw] == [5, 6]


def test_a_restarted_trainer_continues_the_step_numbers(proxy: TcpProxy, client: redis.Redis) -> None:
    for first in (0, 3):
        recorder = make_recorder(proxy.url)
        record_ops(recorder, range(first, first + 3), wire.OPTIM_STEP)
        assert recorder.flush(20)
        end_recorder(recorder)
    raw = client.lrange(wire.operations_key(RUN), 0, -1)
    assert [wire.parse_operation(element, run_id=RUN).step for element in raw] == [0, 1, 2, 3, 4, 5]
    assert client.get(wire.steps_key(RUN)) == b"6"


def test_a_script_that_the_server_forgot_is_sent_again(recorder: Recorder, client: redis.Redis) -> None:
    record_ops(recorder, range(OPS))
    assert recorder.flush(20)
    client.script_flush()
    record_ops(recorder, range(OPS, 2 * OPS))
    check_all_arrived(recorder, client, 2 * OPS)


def test_a_server_out_of_memory_gets_all_once_it_has_some(recorder: Recorder, client: redis.Redis) -> None:
    record_ops(recorder, range(OPS))
    assert recorder.flush(20)
    client.config_set("maxmemory", "1")
    record_ops(recorder, range(OPS, 2 * OPS))
    wait_until(lambda: failed_flushes(recorder) >= 2, "a second refused flush")
    assert len(stored_ids(client)) == OPS, "nothing of a refused flush is applied"
    client.config_set("maxmemory", "0")
    check_all_arrived(recorder, client, 2 * OPS)


def test_a_replica_gets_all_once_it_is_a_master(recorder: Recorder, client: redis.Redis) -> None:
    record_ops(recorder, range(OPS))
    assert recorder.flush(20)
    client.replicaof("127.0.0.1", "1")
    record_ops(recorder, range(OPS, 2 * OPS))
    wait_until(lambda: failed_flushes(recorder) >= 2, "a second refused flush")
    client.replicaof("NO", "ONE")
    check_all_arrived(recorder, client, 2 * OPS)


def test_a_password_that_was_asked_for_and_is_no_more_costs_nothing(recorder: Recorder, client: redis.Redis) -> None:
    record_ops(recorder, range(OPS))
    assert recorder.flush(20)
    client.config_set("requirepass", "not-told")
    client.client_kill_filter(_type="normal", skipme=True)
    record_ops(recorder, range(OPS, 2 * OPS))
    wait_until(lambda: failed_flushes(recorder) >= 2, "a second refused flush")
    client.config_set("requirepass", "")
    check_all_arrived(recorder, client, 2 * OPS)


@pytest.mark.parametrize("url", ["rediss://127.0.0.1:{port}/0", "redis://no-such-host.invalid:6379/0"])
def test_a_server_that_can_never_be_reached_keeps_all_in_the_buffer(proxy: TcpProxy, url: str) -> None:
    recorder = make_recorder(url.format(port=proxy.port))
    record_ops(recorder, range(OPS))
    assert recorder.flush(0.5) is False
    stats = recorder.stats()
    assert stats["buffered"]["operation"] == stats["produced"]["operation"] == OPS
    end_recorder(recorder)


def test_a_key_of_another_type_costs_its_records_and_no_others(recorder: Recorder, client: redis.Redis) -> None:
    client.set(wire.operations_key("run-odd"), "somebody else's")
    record_ops(recorder, range(3), run="run-odd")
    record_ops(recorder, range(10, 10 + OPS))
    assert recorder.flush(20)
    stats = recorder.stats()
    assert stats["dropped"] == {"operation": {"refused": 3}}
    assert stats["sent"]["operation"] == OPS
    assert len(stored_ids(client)) == OPS


def test_flush_and_close_keep_their_time_with_a_server_that_never_answers(proxy: TcpProxy) -> None:
    # One socket time-out is 30 s here: only a caller that does not wait for the socket can return before.
    recorder = make_recorder(proxy.url, socket_timeout=30.0)
    proxy.mode = "swallow"
    record_ops(recorder, range(3))
    started = time.monotonic()
    assert recorder.flush(0.5) is False
    assert recorder.close(0.5) is False
    assert time.monotonic() - started < 15
    proxy.mode = "reset"  # lets the thread go
    end_recorder(recorder)


def test_few_connections_are_tried_while_redis_is_gone(recorder: Recorder, proxy: TcpProxy) -> None:
    proxy.mode = "reset"
    record_ops(recorder, range(3))
    wait_until(lambda: failed_flushes(recorder) >= 1, "the first try")
    before, started = proxy.connections_count, time.monotonic()
    wait_until(lambda: proxy.connections_count >= before + 3, "three more tries")
    assert (proxy.connections_count - before) / (time.monotonic() - started) < 5  # a second


def test_one_log_line_a_minute_says_that_redis_is_gone(
    recorder: Recorder, proxy: TcpProxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.mode = "refuse"
    record_ops(recorder, range(3))
    wait_until(lambda: failed_flushes(recorder) >= 4, "the fourth try")
    told = [entry for entry in caplog.records if entry.name.startswith("workers_client")]
    assert len(told) == 1
    assert "ConnectionError" in told[0].getMessage()


def test_a_flush_thread_that_died_is_replaced(recorder: Recorder, client: redis.Redis) -> None:
    record_ops(recorder, range(1))
    assert recorder.flush(20)
    flusher = recorder._core.flusher
    flusher.stop()
    wait_until(lambda: not flusher.is_running, "the end of the thread")
    flusher._stopped = False
    record_ops(recorder, range(1, 2))
    assert flusher.is_running
    check_all_arrived(recorder, client, 2)


def test_the_hosts_random_numbers_stay_what_its_seed_gives(recorder: Recorder, client: redis.Redis) -> None:
    random.seed(7)
    expected = [random.random() for _ in range(3)]
    random.seed(7)
    drawn = []
    for number in range(3):
        record_ops(recorder, range(number, number + 1))
        assert recorder.flush(20)
        drawn.append(random.random())
    assert drawn == expected
