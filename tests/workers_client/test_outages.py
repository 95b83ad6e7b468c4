"""Ten threads go on recording while Redis is gone; afterwards each op is there once or counted as dropped."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import redis

from tests.support.tcp_proxy import TcpProxy
from tests.support.workers import (
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

THREADS = 10
OPS = 150  # of each thread, which has a run of its own
RUNS = [f"run-{number}" for number in range(THREADS)]
PAUSE_SECONDS = 0.01  # between two ops of a thread
PASSWORD = "told-to-the-recorder"


@dataclass
class Trouble:
    """How Redis goes away and comes back; `is_from_start` of one that is not there before the first op."""

    begin: Callable[[TcpProxy, redis.Redis], object]
    end: Callable[[TcpProxy, redis.Redis], object]
    is_from_start: bool = False
    password: str = ""
    max_records: int = 50_000


def set_mode(mode: str) -> Callable[[TcpProxy, redis.Redis], object]:
    """Return what sets the mode of the proxy."""
    return lambda proxy, client: setattr(proxy, "mode", mode)


def set_password(password: str) -> Callable[[TcpProxy, redis.Redis], object]:
    """Return what makes Redis ask for a password, of those that are connected already, too."""

    def change(proxy: TcpProxy, client: redis.Redis) -> None:
        client.config_set("requirepass", password)
        client.client_kill_filter(_type="normal", skipme=True)

    return change


TROUBLES = {
    "refuse": Trouble(set_mode("refuse"), set_mode("pass")),
    "reset": Trouble(set_mode("reset"), set_mode("pass")),
    "absent at start": Trouble(set_mode("refuse"), set_mode("pass"), is_from_start=True),
    "wrong password": Trouble(
        set_password("another"), set_password(PASSWORD), is_from_start=True, password=f":{PASSWORD}@"
    ),
    "more than the buffer holds": Trouble(set_mode("refuse"), set_mode("pass"), max_records=200),
}


@dataclass
class Host:
    """Ten threads that record at a steady pace, and what goes wrong in them."""

    recorder: Recorder
    done_count: int = 0
    errors: list[BaseException] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> list[threading.Thread]:
        """Start the threads and return them."""
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        return threads

    def _work(self, number: int) -> None:
        try:
            for place in range(number * OPS, (number + 1) * OPS):
                record_ops(self.recorder, range(place, place + 1), run=RUNS[number])
                with self._lock:
                    self.done_count += 1
                time.sleep(PAUSE_SECONDS)
        except BaseException as error:  # noqa: BLE001 - checked by the test
            self.errors.append(error)


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES.keys())
def test_all_is_stored_once_or_counted_as_dropped(proxy: TcpProxy, client: redis.Redis, trouble: Trouble) -> None:
    url = proxy.url.replace("redis://", f"redis://{trouble.password}")
    if trouble.is_from_start:
        trouble.begin(proxy, client)
    recorder = make_recorder(url, max_records=trouble.max_records)
    host = Host(recorder)
    threads = host.start()
    if not trouble.is_from_start:
        wait_until(lambda: host.done_count >= THREADS * OPS // 4, "a quarter of the ops")
        trouble.begin(proxy, client)
    wait_until(lambda: host.done_count >= THREADS * OPS * 3 // 4, "three quarters of the ops")
    wait_until(lambda: failed_flushes(recorder) >= 3, "a third failed flush")
    trouble.end(proxy, client)
    for thread in threads:
        thread.join(60)
    assert host.errors == []
    assert recorder.flush(20)
    check_sums(recorder, client, *RUNS)

    stats = recorder.stats()
    dropped = stats["dropped"].get("operation", {})
    stored = [len(stored_ids(client, run)) for run in RUNS]
    assert stats["hook_errors"] == 0
    assert stats["produced"]["operation"] == sum(stored) + sum(dropped.values()) == THREADS * OPS
    assert stats["buffered"]["operation"] == 0
    assert set(dropped) == ({"queue_full"} if trouble.max_records < THREADS * OPS else set())
    ledgers = [ledger(client, run) for run in RUNS]
    for name in ("enqueued", "popped", "answered"):
        assert [counts[name] for counts in ledgers] == [OPS] * THREADS
    assert [counts["recorded"] for counts in ledgers] == stored
    assert client.zcard(wire.RUNS_KEY) == THREADS
    end_recorder(recorder)
