"""The flush thread lets the host's threads run every few records, unless somebody waits for the flush."""

from __future__ import annotations

import threading
import time

import pytest
import redis

from tests.support.workers import WAIT_SECONDS, check_sums, end_recorder, make_recorder, record_ops, wait_until
from workers_client import flusher


def test_a_flush_that_nobody_waits_for_pauses_until_somebody_does(
    redis_client: redis.Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    goes_on = threading.Event()
    sleep = time.sleep

    def halt_pauses(seconds: float) -> None:
        if seconds != flusher.PAUSE_SECONDS:
            return sleep(seconds)
        pauses.append(seconds)
        goes_on.wait(WAIT_SECONDS)
        return None

    monkeypatch.setattr(time, "sleep", halt_pauses)
    recorder = make_recorder(redis_url)
    record_ops(recorder, range(500))
    wait_until(lambda: bool(pauses), "the flush thread pauses")
    delivered: list[bool] = []
    caller = threading.Thread(target=lambda: delivered.append(recorder.flush(WAIT_SECONDS)))
    caller.start()
    wait_until(lambda: recorder._core.flusher._is_hurried, "the caller waits")
    goes_on.set()
    caller.join(WAIT_SECONDS)
    assert delivered == [True]
    assert len(pauses) == 1
    check_sums(recorder, redis_client)
    end_recorder(recorder)
