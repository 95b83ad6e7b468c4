"""Secrets that stand in a worker's environment, URLs, arguments and errors appear nowhere in Redis or the log."""

from __future__ import annotations

import secrets

import pytest
import redis

from tests.support.workers import run_script
from workers_client import wire
from workers_client.settings_filter import allowed_settings

pytestmark = pytest.mark.processes

PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.DEBUG)
import workers_client
recorder = workers_client.start(role="trainer", interval_seconds=60)
command = {"request_id": "r", "op": "forward_backward", "model_id": "run-a", "payload": {"api_key": sys.argv[1]}}
try:
    with recorder.operation(command) as op:
        raise RuntimeError(f"could not reach redis://user:{sys.argv[1]}@host/0")
except RuntimeError:
    pass
recorder.answered(command, {"type": "RequestFailedResponse", "error_message": sys.argv[1]})
assert recorder.flush(10)
"""


def test_no_planted_secret_is_told(redis_client: redis.Redis, redis_url: str) -> None:
    names = [
        "AWS_SECRET_ACCESS_KEY", "OPEN_RL_API_KEY", "VLLM_TOKEN", "HF_TOKEN", "OPEN_RL_DB_PASSWORD", "MY_CREDENTIAL",
        "UNRELATED",
    ]  # fmt: skip
    planted = {name: secrets.token_hex(12) for name in names}
    url_secret, argument = secrets.token_hex(12), secrets.token_hex(12)
    planted["OPEN_RL_GATEWAY"] = f"https://user:{url_secret}@gateway.example:8443/path?token={url_secret}"
    source = PROGRAM.replace("sys.argv[1]", repr(argument))
    done = run_script(source, redis_url, **planted, OPEN_RL_MODE="lora")
    assert done.returncode == 0, done.stderr
    told = b"".join(_dump(redis_client)) + (done.stdout + done.stderr).encode()
    for secret in [*(planted[name] for name in names), url_secret, argument]:
        assert secret.encode() not in told
    assert b"lora" in told
    assert b"https://gateway.example:8443" in told


def test_names_that_only_look_like_secrets_follow_the_allow_list() -> None:
    told = allowed_settings({"OPEN_RL_MODE": "x" * 1_000, "MAX_LENGTH": "9", "BASE_MODEL": "Qwen/Qwen3-8B"})
    assert told == {"BASE_MODEL": "Qwen/Qwen3-8B", "OPEN_RL_MODE": "x" * wire.SETTING_VALUE_LIMIT}


def _dump(client: redis.Redis) -> list[bytes]:
    """Return everything that stands in Redis."""
    found: list[bytes] = []
    for key in client.scan_iter("*"):
        kind = client.type(key)
        found.append(key)
        if kind == b"list":
            found += client.lrange(key, 0, -1)
        elif kind == b"hash":
            found += [part for pair in client.hgetall(key).items() for part in pair]
        elif kind == b"string":
            found.append(client.get(key))
    return found
