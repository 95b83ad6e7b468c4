"""One round trip to Redis, applied once or not at all.

A flush is a numbered list of commands. A script applies it only if its number is newer than the last one applied for
this worker, and stores the number first: a retry of a flush whose reply was lost does nothing. If the first write is
refused (out of memory, a replica, a wrong password) nothing is applied. A single command that Redis refuses later, as
for a key of another type, is reported and the rest stands.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from workers_client.run_totals import Command
from workers_client.wire import WORKER_TTL_SECONDS

# Held while redis is loaded, and while the host forks: a child would inherit the library half loaded.
LOAD_LOCK = threading.Lock()

# ARGV: number of the flush, seconds the guard is kept, then each command as its length and its words. Of Redis's own
# commands, and of these:
#   PUSH key limit ledger field value...   append to a list, keep its newest, count them in a ledger
#   MAX key field number                   set a hash field to the higher of two numbers
#   STEPS key known added                  add to a run's step count, which is at least what this worker knows already:
#                                          a Redis that came back empty gets it back
_SCRIPT = """
local time = redis.call('TIME')
local guard = redis.call('GET', KEYS[1])
local number = tonumber(ARGV[1])
local is_old = guard and number <= tonumber(guard)
if not is_old then
  redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
end
local reply = {time[1] .. '.' .. string.format('%06d', tonumber(time[2])), is_old and 1 or 0, guard and 1 or 0}
local function refused(done)
  return type(done) == 'table' and done['err']
end
local at, index = 3, 0
while at <= #ARGV do
  local size, word, key, done = tonumber(ARGV[at]), ARGV[at + 1], ARGV[at + 2], nil
  if word == 'STEPS' then
    done = redis.pcall('GET', key)
    if not refused(done) then
      local steps = tonumber(done or '0') or 0
      if not is_old then
        steps = math.max(steps, tonumber(ARGV[at + 3])) + tonumber(ARGV[at + 4])
        done = redis.pcall('SET', key, string.format('%.0f', steps))
      end
      reply[#reply + 1] = 's:' .. index .. ':' .. string.format('%.0f', steps)
    end
  elseif is_old then
    done = nil
  elseif word == 'PUSH' then
    done = redis.pcall('RPUSH', key, unpack(ARGV, at + 6, at + size))
    if not refused(done) then
      redis.call('LTRIM', key, -tonumber(ARGV[at + 3]), -1)
      if ARGV[at + 4] ~= '' then
        redis.pcall('HINCRBY', ARGV[at + 4], ARGV[at + 5], size - 5)
      end
    end
  elseif word == 'MAX' then
    done = redis.pcall('HGET', key, ARGV[at + 3])
    if not refused(done) and (tonumber(done or '0') or 0) < tonumber(ARGV[at + 4]) then
      done = redis.pcall('HSET', key, ARGV[at + 3], ARGV[at + 4])
    end
  else
    done = redis.pcall(unpack(ARGV, at + 1, at + size))
  end
  if refused(done) then
    reply[#reply + 1] = 'r:' .. index .. ':'
  end
  at, index = at + size + 1, index + 1
end
return reply
"""


class Applied(NamedTuple):
    """Redis's reply to one flush.

    `was_redelivered`: it had been applied before. `was_empty`: Redis knew no earlier flush of this worker, though there
    was one. `steps` is by key, `refused` holds the indexes of commands that Redis refused. `clock_offset_seconds` is
    this host's clock minus Redis's.
    """

    clock_offset_seconds: float
    was_redelivered: bool
    was_empty: bool
    steps: dict[str, int]
    refused: tuple[int, ...]


class Transport:
    """A connection that is opened at the first flush, with explicit time-outs and no retries of its own."""

    def __init__(self, url: str, *, socket_timeout: float) -> None:
        self._url = url
        self._socket_timeout = socket_timeout
        self._connection: Any = None
        self._script_sha = ""

    def read_steps(self, keys: Sequence[str]) -> list[int]:
        """Return the step count under each key, 0 where there is none.

        Raises:
            Exception: Redis can't be asked (any error of redis-py, or OSError).
        """
        replies = self._ask("MGET", *keys)
        return [int(reply) if reply is not None and bytes(reply).isdigit() else 0 for reply in replies]

    def apply(
        self, guard_key: str, number: int, commands: Sequence[Command], *, deadline: float | None = None
    ) -> Applied:
        """Apply the commands once, whatever happened to earlier tries with this number.

        Raises:
            Exception: nothing is known to be applied (any error of redis-py, or OSError); try again with the same
                number and the same commands.
        """
        arguments: list[Any] = [number, WORKER_TTL_SECONDS]
        for command in commands:
            arguments.append(len(command))
            arguments += command
        if deadline is not None:
            self._hurry(deadline - time.monotonic())
        self._connect()
        started = time.time()
        reply = self._evaluate(guard_key, arguments)
        ended = time.time()
        notes = [bytes(note).decode().split(":") for note in reply[3:]]
        return Applied(
            clock_offset_seconds=(started + ended) / 2 - float(reply[0]),
            was_redelivered=bool(reply[1]),
            was_empty=number > 1 and not reply[2],
            steps={str(commands[int(note[1])][1]): int(note[2]) for note in notes if note[0] == "s"},
            refused=tuple(int(note[1]) for note in notes if note[0] == "r"),
        )

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def forget(self) -> None:
        """Leave the connection to the parent process that opened it: a child of fork must not end it.

        redis-py closes the child's copy of the socket and leaves the connection itself alone.
        """
        self._connection = None

    def _evaluate(self, guard_key: str, arguments: list[Any]) -> list[Any]:
        from redis.exceptions import NoScriptError  # redis is loaded by the flush thread alone

        if not self._script_sha:
            self._script_sha = _sha1(_SCRIPT)
        try:
            return list(self._ask("EVALSHA", self._script_sha, 1, guard_key, *arguments))
        except NoScriptError:  # a server that was restarted; nothing ran
            return list(self._ask("EVAL", _SCRIPT, 1, guard_key, *arguments))

    def _ask(self, *words: Any) -> Any:
        """Send one command and return its reply."""
        connection = self._connect()
        connection.send_command(*words, check_health=False)
        return connection.read_response(disable_decoding=True)

    def _connect(self) -> Any:
        if self._connection is None:
            connection = _make_connection(self._url, self._socket_timeout)
            connection.connect()
            self._connection = connection
        return self._connection

    def _hurry(self, seconds: float) -> None:
        """Connect with time-outs that fit several of them into `seconds`: no thread is left to wait in.

        Looking up a name can't be hurried.
        """
        self.close()
        self._connection = _make_connection(self._url, max(0.01, min(self._socket_timeout, seconds / 8)))
        self._connection.connect()


def load_redis() -> Any:
    """Load redis and return its module of connections.

    Called in the flush thread alone, first thing: importing this package must not load it, and a load while the
    interpreter shuts down makes Python forget that it ends for Ctrl-C.
    """
    with LOAD_LOCK:
        import redis.connection

    return redis.connection


def _make_connection(url: str, socket_timeout: float) -> Any:
    """Return a connection, not yet open. What the URL's query says of time-outs and replies does not count."""
    connections = load_redis()
    options = connections.parse_url(url)
    for name in ("max_connections", "timeout", "retry_on_timeout", "retry_on_error", "health_check_interval"):
        options.pop(name, None)
    options.update(
        socket_timeout=socket_timeout, socket_connect_timeout=socket_timeout, decode_responses=False, protocol=2
    )
    kind = options.pop("connection_class", connections.Connection)
    return kind(retry=connections.Retry(connections.NoBackoff(), 0), **options)


def _sha1(script: str) -> str:
    import hashlib  # in the flush thread: it loads OpenSSL

    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
