"""Ways to record one op, each with the same fields and 8 metrics."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from typing import Any, Protocol

import redis.asyncio
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry, Gauge, Histogram

from benchmarks.workload import METRICS
from workers_client.config import make_config
from workers_client.core import Core
from workers_client.recorder import Recorder


class Contender(Protocol):
    """One way to record an op."""

    name: str

    def record(self, command: dict[str, Any], result: dict[str, Any]) -> None:
        """Record one op."""

    def drain(self) -> None:
        """Empty what was recorded, outside of the timing."""

    def close(self) -> None:
        """End threads and connections."""


class Nothing:
    """An empty call: what the machine itself adds, other programs that take the processor included."""

    name = "an empty call (the machine's own noise)"

    def record(self, command: dict[str, Any], result: dict[str, Any]) -> None:
        """Do nothing."""

    def drain(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class TupleAppend:
    """The limit: build a tuple of what is recorded and append it."""

    name = "build a tuple and append it (the limit)"

    def __init__(self) -> None:
        self.kept: deque[Any] = deque()

    def record(self, command: dict[str, Any], result: dict[str, Any]) -> None:
        self.kept.append(("op", command["request_id"], command["model_id"], 1.0, 2.0, "succeeded", result["metrics"]))

    def drain(self) -> None:
        self.kept.clear()

    def close(self) -> None:
        """Nothing runs."""


class Ours:
    """`workers_client`: operation, finish and answered."""

    name = "workers_client (operation + finish + answered)"

    def __init__(self, url: str, *, interval_seconds: float = 5.0) -> None:
        config = make_config(
            "trainer", redis_url=url, interval_seconds=interval_seconds, max_records=50_000, max_bytes=64 << 20,
            socket_timeout=1.0,
        )  # fmt: skip
        self.recorder = Recorder(Core(config), "trainer")

    def record(self, command: dict[str, Any], result: dict[str, Any]) -> None:
        recorder = self.recorder
        with recorder.operation(command) as op:
            op.finish(result)
        recorder.answered(command, result)

    def drain(self) -> None:
        self.recorder.flush(30)

    def close(self) -> None:
        """End the thread."""
        self.recorder.close(0.5)


class OpenTelemetrySpan:
    """A span with attributes, ended into a batch processor whose exporter does nothing."""

    name = "OpenTelemetry span, batch processor"

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self.provider.add_span_processor(BatchSpanProcessor(_NoExporter()))
        self.tracer = self.provider.get_tracer("benchmark")

    def record(self, command: dict[str, Any], result: dict[str, Any]) -> None:
        with self.tracer.start_as_current_span(command["op"]) as span:
            span.set_attribute("run_id", command["model_id"])
            span.set_attribute("request_id", command["request_id"])
            span.set_attribute("role", "trainer")
            span.set_attribute("status", "succeeded")
            for name, value in result["metrics"].items():
                span.set_attribute(name, value)

    def drain(self) -> None:
        self.provider.force_flush(10_000)

    def close(self) -> None:
        """End the thread."""
        self.provider.shutdown()


class PrometheusClient:
    """One histogram and eight gauges."""

    name = "prometheus_client, 1 histogram + 8 gauges"

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.seconds = Histogram("op_seconds", "seconds", ["op", "run_id", "status"], registry=registry)
        self.gauges = {
            name: Gauge("op_" + name.replace(":", "_"), name, ["op", "run_id"], registry=registry) for name in METRICS
        }

    def record(self, command: dict[str, Any], result: dict[str, Any]) -> None:
        started = time.perf_counter()
        run_id, operation = command["model_id"], command["op"]
        self.seconds.labels(operation, run_id, "succeeded").observe(time.perf_counter() - started)
        for name, value in result["metrics"].items():
            self.gauges[name].labels(operation, run_id).set(value)

    def drain(self) -> None:
        """It aggregates: nothing is kept."""

    def close(self) -> None:
        """Nothing runs."""


class AwaitedWrite:
    """One awaited Redis write per op, given up after 0.1 s: what OpenRL did before."""

    name = "one awaited Redis write per op"

    def __init__(self, url: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.client = redis.asyncio.Redis.from_url(url)

    def record(self, command: dict[str, Any], result: dict[str, Any]) -> None:
        self.loop.run_until_complete(self._record(command, result))

    async def _record(self, command: dict[str, Any], result: dict[str, Any]) -> None:
        fields = {"op": command["op"], "run_id": command["model_id"], "request_id": command["request_id"], **result}
        try:
            await asyncio.wait_for(self._push(json.dumps(fields)), timeout=0.1)
        except (TimeoutError, asyncio.TimeoutError, redis.RedisError):
            return

    async def _push(self, content: str) -> None:
        await self.client.lpush("benchmark:ops", content)
        await self.client.ltrim("benchmark:ops", 0, 1_999)

    def drain(self) -> None:
        """It is sent already."""

    def close(self) -> None:
        """End the connection."""
        self.loop.run_until_complete(self.client.aclose())
        self.loop.close()


class _NoExporter(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        """Take spans and do nothing."""
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Do nothing."""


__all__ = ["AwaitedWrite", "Contender", "Nothing", "OpenTelemetrySpan", "Ours", "PrometheusClient", "TupleAppend"]
