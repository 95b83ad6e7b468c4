"""`start()`: arguments and environment, and which rank of a trainer records."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import redis

import workers_client
from tests.support.workers import ROOT, RUN, run_script, stored_ids
from workers_client import wire
from workers_client.config import Config, is_recording_rank, make_config

URL = "redis://127.0.0.1:1/0"
RANK_PROGRAM = f"""
import sys, workers_client
recorder = workers_client.start("trainer", interval_seconds=60)
command = {{"request_id": "req-" + sys.argv[1], "op": "forward_backward", "model_id": {RUN!r}, "payload": {{}}}}
with recorder.operation(command) as op:
    op.finish({{"type": "done", "metrics": recorder.sanitize_metrics({{"loss:sum": 1.0}})}})
"""


def config(**arguments: object) -> Config:
    """Check arguments as `start()` does."""
    usual: dict[str, object] = {
        "role": "trainer", "redis_url": URL, "interval_seconds": 5.0, "max_records": 10, "max_bytes": 10,
        "socket_timeout": 1.0,
    }  # fmt: skip
    return make_config(**(usual | arguments))  # type: ignore[arg-type]


@pytest.mark.processes
def test_of_four_ranks_the_first_alone_is_a_worker(redis_client: redis.Redis, redis_url: str) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK_PROGRAM, str(rank)],
            cwd=ROOT,
            env={**os.environ, "REDIS_URL": redis_url, "RANK": str(rank), "WORLD_SIZE": "4"},
        )
        for rank in range(4)
    ]
    assert [process.wait(60) for process in ranks] == [0] * 4
    [worker] = redis_client.zrange(wire.WORKERS_KEY, 0, -1)
    [raw] = redis_client.lrange(wire.operations_key(RUN), 0, -1)
    record = wire.parse_operation(raw, run_id=RUN)
    assert (record.request_id, record.worker) == ("req-0", worker.decode())
    assert stored_ids(redis_client) == [record.id]


@pytest.mark.parametrize(
    ("environment", "argument", "is_recording"),
    [
        (None, None, True),
        ("", None, True),
        ("0", None, True),
        ("3", None, False),
        ("3", 0, True),
        ("0", 3, False),
        (None, 3, False),
        ("first", None, True),
        ("-1", None, True),
    ],
)
def test_the_argument_goes_before_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: str | None, argument: int | None, is_recording: bool
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    if environment is not None:
        monkeypatch.setenv("RANK", environment)
    assert is_recording_rank(argument) is is_recording


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("role", "conductor"),
        ("role", ["trainer"]),
        ("redis_url", "http://127.0.0.1"),
        ("redis_url", 7),
        ("interval_seconds", 0),
        ("interval_seconds", float("nan")),
        ("interval_seconds", "5"),
        ("max_records", -1),
        ("max_records", True),
        ("max_bytes", None),
        ("socket_timeout", float("inf")),
    ],
)
def test_a_bad_argument_raises_and_names_itself(name: str, value: object) -> None:
    with pytest.raises(workers_client.ConfigurationError, match=name):
        config(**{name: value})


@pytest.mark.parametrize("rank", [-1, "0", True, 1.0])
def test_a_bad_rank_raises(rank: object) -> None:
    with pytest.raises(workers_client.ConfigurationError, match="rank"):
        is_recording_rank(rank)  # type: ignore[arg-type]


def test_a_refused_url_is_not_told_for_it_may_hold_a_password() -> None:
    with pytest.raises(workers_client.ConfigurationError) as caught:
        config(redis_url="http://:hunter2@127.0.0.1")
    assert "hunter2" not in str(caught.value)


def test_a_bad_value_of_the_environment_is_logged_and_records_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("REDIS_URL", "http://:hunter2@127.0.0.1")
    assert config(redis_url=None).redis_url is None
    [entry] = caplog.records
    assert "REDIS_URL" in entry.getMessage()
    assert "hunter2" not in entry.getMessage()


@pytest.mark.processes
def test_start_returns_the_first_recorder_again_and_the_null_one_without_a_url() -> None:
    source = (
        "import workers_client as w\n"
        "assert isinstance(w.start('trainer'), w.NullRecorder) and w.get_recorder() is w.start('sampler')\n"
        f"first = w.start('trainer', redis_url={URL!r})\n"
        "assert w.start('sampler') is w.get_recorder() is first and first.role == 'trainer'\n"
    )
    done = run_script(source, "")
    assert (done.returncode, done.stderr) == (0, "")
