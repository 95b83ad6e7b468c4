"""How long an event takes to all subscribers of a site that runs: `python -m benchmarks.subscribers --help`.

Opens streams of `/events` and publishes flushes of a run of its own, each with one finished step. An event's delay is
from the instant its record was written to Redis to its arrival at one subscriber; the client runs on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import dataclass, field

import redis.asyncio

from telemetry_app.rates import percentile_95
from workers_client import wire
from workers_client.codec import encode_object

RUN = "benchmark-subscribers"


@dataclass
class Heard:
    """What all subscribers heard: the delays of events in seconds, and the streams that are open."""

    delays: list[float] = field(default_factory=list)
    open_count: int = 0
    missed_count: int = 0


async def main() -> None:
    """Run it and print one line."""
    options = _options()
    heard = Heard()
    await _publish(options.redis_url, 1, 0)  # there is no stream of a run that nobody knows
    address = options.host, options.port
    streams = [asyncio.create_task(_subscribe(address, options.token, heard)) for _ in range(options.subscribers)]
    async with asyncio.timeout(60):
        while heard.open_count < options.subscribers:
            await asyncio.sleep(0.1)
    await asyncio.sleep(2)
    await _publish(options.redis_url, options.steps, options.pause_seconds)
    await asyncio.sleep(3)
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    await _forget(options.redis_url)
    ordered = sorted(heard.delays)
    expected = options.subscribers * options.steps
    print(
        f"{options.subscribers} subscribers, {options.steps} steps: {len(ordered)} of {expected} events arrived, "
        f"{heard.missed_count} missed; delay p50 {ordered[len(ordered) // 2] * 1e3:.0f} ms, "
        f"p95 {(percentile_95(ordered) or 0) * 1e3:.0f} ms, most {ordered[-1] * 1e3:.0f} ms"
    )


async def _subscribe(address: tuple[str, int], token: str, heard: Heard) -> None:
    reader, writer = await asyncio.open_connection(*address, limit=2**20)
    host = f"{address[0]}:{address[1]}"
    path = f"/api/v1/inspect/runs/{RUN}/events"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Token {token}\r\n\r\n".encode())
    try:
        while line := await reader.readline():
            heard.open_count += line.startswith(b": what happens")
            heard.missed_count += line.startswith(b"event: missed")
            if line.startswith(b"data: ") and b'"step":' in line:
                at = json.loads(line[6:])["step"] / 1e3  # the step's number is the instant it was written, in ms
                heard.delays.append(time.time() - at)
    finally:
        writer.close()


async def _publish(url: str, steps: int, pause_seconds: float) -> None:
    async with redis.asyncio.Redis.from_url(url) as client:
        for _ in range(steps):
            now = time.time()
            step = int(now * 1e3)
            record = {"id": f"w:{step}", "run_id": RUN, "operation": "optim_step", "status": "succeeded", "at": now}
            await client.rpush(wire.operations_key(RUN), encode_object({**record, "step": step}))
            await client.zadd(wire.RUNS_KEY, {RUN: now})
            await client.publish(wire.FLUSHED_CHANNEL, json.dumps({"worker": "benchmark", "runs": [RUN]}))
            await asyncio.sleep(pause_seconds)


async def _forget(url: str) -> None:
    async with redis.asyncio.Redis.from_url(url) as client:
        await client.delete(wire.operations_key(RUN))
        await client.zrem(wire.RUNS_KEY, RUN)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.subscribers", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--token", required=True, help="an API token, as in var/access.json")
    parser.add_argument("--redis-url", required=True, help="the Redis that the site reads")
    parser.add_argument("--subscribers", type=int, default=200)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--pause-seconds", type=float, default=0.5)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
