"""Server-sent events: what changed, pushed to everyone who listens, and told again to those who were away."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.test import AsyncClient

from telemetry_app import event_hub
from telemetry_app.api import events as stream
from telemetry_app.event_hub import the_hub
from telemetry_app.incidents import take_verdicts
from telemetry_app.inspection.events import Event
from telemetry_app.instants import from_unix
from telemetry_app.models import Worker, WorkerEvent
from telemetry_app.snapshots import take_snapshot
from tests.support.records import RUN, op, sample_failure, step_of_ops
from tests.telemetry_app.api.conftest import BASE, run_path
from workers_client import wire

pytestmark = pytest.mark.django_db(transaction=True)
DEADLINE_SECONDS = 30


@pytest.fixture(autouse=True)
def _looking_often(monkeypatch) -> None:
    monkeypatch.setattr(event_hub, "LOOK_SECONDS", 0.3)
    monkeypatch.setattr(event_hub, "SETTLE_SECONDS", 0.05)


@dataclass
class Stream:
    """One open stream, read event by event."""

    chunks: object
    buffer: str = ""
    seen: list = field(default_factory=list)

    async def read(self, kind=None):
        """Return (event, data, id) of the next event (of a kind)."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                while "\n\n" not in self.buffer:
                    self.buffer += (await anext(self.chunks)).decode()
                block, _, self.buffer = self.buffer.partition("\n\n")
                fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
                if "event" in fields:
                    found = fields["event"], json.loads(fields["data"]), fields.get("id")
                    self.seen.append(found)
                    if kind in (None, found[0]):
                        return found


async def opened(api, path="/events", **headers):
    response = await AsyncClient().get(BASE + path, headers={"Authorization": f"Token {api.token}", **headers})
    assert response.status_code == 200, response.content
    assert response.headers["Content-Type"] == "text/event-stream"
    reader = Stream(aiter(response.streaming_content))
    reader.buffer += (await anext(reader.chunks)).decode()
    return reader


async def listening():
    """Wait until the hub has heard of what is known already."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while the_hub()._is_first or the_hub()._all_dirty:
            await asyncio.sleep(0.02)


def flush(writer, *records, run_id=RUN):
    """Write records as a worker's flush does."""
    writer.operations(*records)
    writer.active(run_id, time.time())
    writer.client.publish(wire.FLUSHED_CHANNEL, json.dumps({"worker": "w-1", "runs": [run_id]}))


def scenario(function):
    """Run an async test in an event loop of its own, and leave nothing behind in it."""

    def test(api, writer):
        async def run():
            await function(api, writer)
            hub = the_hub()
            for subscriber in list(hub.subscribers):
                hub.leave(subscriber)
            await asyncio.sleep(0.05)

        async_to_sync(run)()

    test.__name__, test.__doc__ = function.__name__, function.__doc__
    return test


@scenario
async def test_new_steps_and_failures_are_pushed_once(api, writer):
    now = time.time()
    flush(writer, *step_of_ops(0, at=now - 5))
    reader = await opened(api)
    await listening()
    flush(writer, *step_of_ops(1, at=now), op(at=now + 0.5, step=2, status="failed", id="w:bad"))
    _, step, _ = await reader.read("step")
    _, failure, _ = await reader.read("failure")
    assert (step["run_id"], step["step"]) == (RUN, 1)
    assert failure["id"] == "w:bad"
    flush(writer, *step_of_ops(2, at=now + 1))
    _, step, _ = await reader.read("step")
    assert step["step"] == 2
    assert [data["step"] for kind, data, _ in reader.seen if kind == "step"] == [1, 2]


@scenario
async def test_incidents_are_pushed_as_they_open_and_close(api, writer):
    reader = await opened(api)
    await listening()
    now = time.time()
    flush(writer, *(op(at=now - 3 + n, status="failed", error_type="ValueError") for n in range(3)))
    await sync_to_async(take_verdicts)()
    _, opened_one, _ = await reader.read("incident")
    assert (opened_one["change"], opened_one["run_id"], opened_one["code"]) == ("opened", RUN, "failing")
    flush(writer, op(at=now))
    await sync_to_async(take_verdicts)(now=from_unix(now + 60))
    _, closed_one, _ = await reader.read("incident")
    assert (closed_one["change"], closed_one["id"]) == ("closed", opened_one["id"])


@scenario
async def test_a_failed_sampling_answer_is_pushed(api, writer):
    reader = await opened(api)
    await listening()
    writer.samples(sample_failure(at=time.time()))
    flush(writer)
    _, failure, _ = await reader.read("failure")
    assert failure["kind"] == "sample"


@scenario
async def test_a_change_of_state_is_pushed(api, writer):
    now = time.time()
    flush(writer, *step_of_ops(0, at=now - 5))
    reader = await opened(api)
    await listening()
    flush(writer, *(op(at=now + n / 10, step=1, status="failed") for n in range(3)))
    _, state, _ = await reader.read("state")
    assert (state["run_id"], state["state"]) == (RUN, "failing")
    assert state["evidence"]


@scenario
async def test_what_happened_to_a_worker_is_pushed(api, writer):
    reader = await opened(api)
    await listening()
    at = from_unix(time.time())
    await sync_to_async(Worker.objects.create)(
        worker="w-1", role="trainer", last_heartbeat_at=at, interval_seconds=5, runs=[RUN]
    )
    await sync_to_async(WorkerEvent.objects.create)(worker_id="w-1", event="lost", at=at, detail="held 1 optim_step")
    _, event, _ = await reader.read("worker")
    assert (event["worker"], event["event"], event["runs"]) == ("w-1", "lost", [RUN])


@scenario
async def test_a_run_s_stream_has_its_own_events_alone(api, writer):
    flush(writer, *step_of_ops(0, at=time.time() - 5))
    reader = await opened(api, run_path(RUN, "/events"))
    await listening()
    flush(writer, *step_of_ops(0, at=time.time(), run_id="other"), run_id="other")
    flush(writer, *step_of_ops(1, at=time.time()))
    assert (await reader.read("step"))[1]["run_id"] == RUN
    assert {data["run_id"] for _, data, _ in reader.seen} == {RUN}


@pytest.mark.parametrize("kept", ["live", "both", "history"])
def test_who_was_away_is_told_what_happened_since(api, writer, kept):
    now = time.time()

    @scenario
    async def away(api, writer):
        for step in range(3):
            flush(writer, *step_of_ops(step, at=now - 90 + 40 * step))
        flush(writer, op(at=now - 5, step=3, status="failed", id="w:bad"))
        if kept != "live":
            await sync_to_async(take_snapshot)()
        if kept == "history":
            writer.client.flushdb()
        last = f"{round((now - 15) * 1e6)}-0123456789ab"
        reader = await opened(api, **{"Last-Event-ID": last})
        assert (await reader.read("failure"))[1]["id"] == "w:bad"
        # A flush may be late, so a little more than what came behind is told.
        assert [data["step"] for kind, data, _ in reader.seen if kind == "step"] == [2]
        assert all(event_id for _, _, event_id in reader.seen)

    away(api, writer)


@scenario
async def test_what_was_told_again_is_not_told_twice(api, writer):
    now = time.time()
    flush(writer, *step_of_ops(0, at=now))
    reader = await opened(api, **{"Last-Event-ID": f"{round((now - 60) * 1e6)}-0"})
    assert (await reader.read("step"))[1]["step"] == 0
    await listening()
    flush(writer, *step_of_ops(1, at=now + 1))
    assert (await reader.read("step"))[1]["step"] == 1


@scenario
async def test_a_slow_subscriber_is_told_that_it_missed_something(api, writer):
    slow = the_hub().join(None)
    the_hub()._publish(made_event(number) for number in range(event_hub.QUEUE_EVENTS + 7))
    reader = stream._from_queue(slow, set())
    told = [await anext(reader) for _ in range(event_hub.QUEUE_EVENTS + 1)]
    assert told[0].startswith(b"id: 1796000000000000-")
    assert told[-1] == b'event: missed\ndata: {"count":7}\n\n'


def made_event(number):
    return Event("step", 1_796_000_000.0 + number, f"step run-a {number}", {"step": number}, frozenset([RUN]))


@scenario
async def test_an_event_that_the_past_told_is_left_out_of_the_queue(api, writer):
    subscriber = the_hub().join(None)
    the_hub()._publish(made_event(number) for number in range(2))
    told = {made_event(0).key}
    assert (await anext(stream._from_queue(subscriber, told))).endswith(b'{"step":1}\n\n')


@scenario
async def test_heartbeats_keep_a_quiet_stream_open(api, writer):
    quiet = the_hub().join("nobody")
    stream_, stream.HEARTBEAT_SECONDS = stream.HEARTBEAT_SECONDS, 0.05
    try:
        assert await anext(stream._from_queue(quiet, set())) == b": heartbeat\n\n"
    finally:
        stream.HEARTBEAT_SECONDS = stream_


@scenario
async def test_many_subscribers_share_one_subscription_and_all_hear(api, writer):
    readers = [await opened(api) for _ in range(30)]
    await listening()
    count = dict(zip(*[iter(writer.client.execute_command("PUBSUB", "NUMSUB", wire.FLUSHED_CHANNEL))] * 2, strict=True))
    assert list(count.values()) == [1]
    flush(writer, *step_of_ops(0, at=time.time()))
    heard = [(await reader.read("step"))[1]["step"] for reader in readers]
    assert heard == [0] * 30


@scenario
async def test_the_last_subscriber_ends_the_work(api, writer):
    hub = the_hub()
    one, two = hub.join(None), hub.join(RUN)
    task = hub._task
    hub.leave(one)
    assert not task.done()
    hub.leave(two)
    await asyncio.sleep(0.2)
    assert task.done()


def test_what_happened_while_redis_was_out_is_pushed_behind_it(api, writer, redis_out, point_site_at, redis_url):
    @scenario
    async def outage(api, writer):
        reader = await opened(api)
        await asyncio.sleep(0.5)
        assert the_hub()._is_first  # nothing could be looked at
        flush(writer, *step_of_ops(0, at=time.time()))
        point_site_at(redis_url)
        assert (await reader.read("step"))[1]["step"] == 0
        point_site_at("unix:///nowhere.sock?db=0")
        writer.client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        await asyncio.sleep(0.5)
        flush(writer, *step_of_ops(1, at=time.time()))
        point_site_at(redis_url)
        assert (await reader.read("step"))[1]["step"] == 1

    outage(api, writer)


@scenario
async def test_a_malformed_message_stops_nothing(api, writer):
    reader = await opened(api)
    await listening()
    for raw in (b"\xff", "[]", "{", '{"runs": 5}', '{"runs": [1, null, "a\\u0000b"]}', "[" * 5_000):
        writer.client.publish(wire.FLUSHED_CHANNEL, raw)
    flush(writer, *step_of_ops(0, at=time.time()))
    assert (await reader.read("step"))[1]["step"] == 0


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/events", {"Authorization": ""}, 401),
        ("/events?state=idle", {}, 400),
        ("/events", {"Last-Event-ID": "yesterday"}, 400),
        ("/events", {"Accept": "text/html"}, 406),
        ("/runs/nobody/events", {}, 404),
    ],
)
def test_what_is_refused_is_refused_as_everywhere(api, writer, path, headers, status):
    sent = {"Authorization": f"Token {api.token}", **headers}
    response = async_to_sync(AsyncClient().get)(BASE + path, headers=sent)
    assert response.status_code == status
    assert response.headers["Content-Type"] == "application/json"
    assert response.json()["errors"]
