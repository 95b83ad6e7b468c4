"""One round trip to Redis, applied once or not at all.

A flush is a numbered list of commands. A script applies it only if its number is newer than the last one applied for
this worker, and stores the number first: a retry of a flush whose reply was lost does nothing. If the first write is
refused (out of memory, a replica, a wrong password) nothing is applied. A single command that Redis refuses later, as
for a key of another type, is reported and the rest stands.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workers_client.wire import WORKER_TTL_SECONDS

# Held while redis is loaded, and while the host forks: a child would inherit the library half loaded.
LOAD_LOCK = threading.Lock()
VALUES_PER_COMMAND = 1_000  # Lua can unpack some 8,000 arguments

# ARGV: number of the flush, seconds the guard is kept, then each command as its length and its words.
# A command named STEPS adds to a run's step count, which is at least what this worker knows already:
# a Redis that came back empty gets it back.
_SCRIPT = """
local time = redis.call('TIME')
local last = tonumber(redis.call('GET', KEYS[1]) or '0')
local number = tonumber(ARGV[1])
local reply = {time[1] .. '.' .. string.format('%06d', tonumber(time[2])), 0}
if number <= last then
  reply[2] = 1
end
if reply[2] == 0 then
  redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
end
local at = 3
while at <= #ARGV do
  local size = tonumber(ARGV[at])
  if ARGV[at + 1] == 'STEPS' then
    local key, known, added = ARGV[at + 2], tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
    local steps = tonumber(redis.call('GET', key) or '0') or 0
    if reply[2] == 0 then
      steps = math.max(steps, known) + added
      redis.pcall('SET', key, string.format('%.0f', steps))
    end
    reply[#reply + 1] = 'steps:' .. string.format('%.0f', steps)
  elseif reply[2] == 0 then
    local done = redis.pcall(unpack(ARGV, at + 1, at + size))
    if type(done) == 'table' and done['err'] then
      reply[#reply + 1] = 'refused:' .. at .. ':' .. done['err']
    end
  end
  at = at + size + 1
end
return reply
"""
_SCRIPT_SHA = hashlib.sha1(_SCRIPT.encode()).hexdigest()

Command = tuple[Any, ...]


@dataclass(frozen=True)
class Applied:
    """Redis's reply to one flush: its clock in unix seconds, whether the flush had been applied before, the run step
    counts in the order of the STEPS commands, and how many commands were refused, by index."""

    redis_time: float
    was_redelivered: bool
    steps: tuple[int, ...]
    refused: tuple[int, ...]


class Transport:
    """A connection that is opened at the first flush, with explicit time-outs and no retries of its own."""

    def __init__(self, url: str, *, socket_timeout: float) -> None:
        self._url = url
        self._socket_timeout = socket_timeout
        self._client: Any = None

    def read_steps(self, keys: Sequence[str]) -> list[int]:
        """Return the step count under each key, 0 where there is none.

        Raises:
            Exception: Redis can't be asked (any error of redis-py, or OSError).
        """
        replies = self._connected().mget(list(keys))
        return [int(reply) if reply is not None and bytes(reply).isdigit() else 0 for reply in replies]

    def apply(self, guard_key: str, number: int, commands: Sequence[Command]) -> Applied:
        """Apply the commands once, whatever happened to earlier tries with this number.

        Raises:
            Exception: nothing is known to be applied (any error of redis-py, or OSError); try again with the same
                number and the same commands.
        """
        arguments: list[Any] = [number, WORKER_TTL_SECONDS]
        starts: dict[int, int] = {}
        for index, command in enumerate(commands):
            starts[len(arguments) + 1] = index
            arguments.append(len(command))
            arguments.extend(command)
        reply = self._evaluate(guard_key, arguments)
        notes = [bytes(note).decode("utf-8", "replace") for note in reply[2:]]
        return Applied(
            redis_time=float(reply[0]),
            was_redelivered=bool(reply[1]),
            steps=tuple(int(note.split(":", 1)[1]) for note in notes if note.startswith("steps:")),
            refused=tuple(starts[int(note.split(":", 2)[1])] for note in notes if note.startswith("refused:")),
        )

    def close(self) -> None:
        """Close the connection, if there is one."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def forget(self) -> None:
        """Leave the connection to the parent process that opened it: a child of fork must not even close it."""
        self._client = None

    def _evaluate(self, guard_key: str, arguments: list[Any]) -> list[Any]:
        client = self._connected()
        from redis.exceptions import NoScriptError  # redis is loaded by the flush thread alone

        try:
            return list(client.evalsha(_SCRIPT_SHA, 1, guard_key, *arguments))
        except NoScriptError:  # a server that was restarted; nothing ran
            return list(client.eval(_SCRIPT, 1, guard_key, *arguments))

    def _connected(self) -> Any:
        if self._client is None:
            redis, retry = load_redis()
            self._client = redis.Redis.from_url(
                self._url,
                socket_timeout=self._socket_timeout,
                socket_connect_timeout=self._socket_timeout,
                retry=retry,
                max_connections=2,
            )
        return self._client


def load_redis() -> tuple[Any, Any]:
    """Load redis, and return it with the policy of no retries.

    Called in the flush thread alone, first thing: importing this package must not load it, and a load while the
    interpreter shuts down makes Python forget that it ends for Ctrl-C.
    """
    with LOAD_LOCK:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

    return redis, Retry(NoBackoff(), 0)
