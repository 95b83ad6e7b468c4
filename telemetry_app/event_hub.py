"""One process's fan-out of events: one subscription to Redis, one look at what changed, a bounded queue a subscriber.

Everything here runs on one event loop; what asks Redis and PostgreSQL runs in threads. It begins with the first
subscriber and ends with the last.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
import redis.asyncio
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections

from telemetry_app import readers
from telemetry_app.exceptions import HistoryUnavailableError, LiveDataUnavailableError
from telemetry_app.inspection import events
from telemetry_app.inspection.events import Event
from workers_client import wire

QUEUE_EVENTS = 256  # that wait for one subscriber; what comes while they do is missed, and the subscriber is told
SETTLE_SECONDS = 0.3  # flushes of several workers come together: they are looked at once
LOOK_SECONDS = 5.0  # between two looks at states and workers, which also change while nobody flushes
LOOK_AT_ALL_SECONDS = 30.0
LATE_SECONDS = 60.0  # a record that comes so long after its op finished is still news
SEEN_EVENTS = 50_000  # keys remembered, so that nothing is told twice
RECONNECT_SECONDS = 1.0

logger = logging.getLogger(__name__)


class Message(NamedTuple):
    """One event as it is sent: encoded once for all subscribers."""

    content: bytes
    key: str


class Subscriber:
    """One open stream. `run` is the run it is about, None for all."""

    def __init__(self, run: str | None) -> None:
        self.run = run
        self.queue: asyncio.Queue[Message] = asyncio.Queue(QUEUE_EVENTS)
        self.missed_count = 0

    def offer(self, event: Event, message: Message) -> None:
        """Queue an event that the subscriber wants; where the queue is full it is missed, and counted."""
        if self.run is not None and self.run not in event.runs:
            return
        try:
            self.queue.put_nowait(message)
        except asyncio.QueueFull:
            self.missed_count += 1

    def take_missed(self) -> int:
        """Return how many events were missed since this was asked last."""
        missed, self.missed_count = self.missed_count, 0
        return missed


class Hub:
    """Looks for what changed, and gives it to every subscriber."""

    def __init__(self) -> None:
        self.subscribers: set[Subscriber] = set()
        self._task: asyncio.Task[None] | None = None
        self._begin()

    def _begin(self) -> None:
        self._changed = asyncio.Event()
        self._dirty: set[str] = set()
        self._all_dirty = True  # the first look tells what is known already
        self._is_first = True
        self._began_at = time.time()
        self._horizon = self._began_at - LATE_SECONDS
        self._seen: dict[str, None] = {}
        self._states: dict[str, str] = {}
        self._worker_event_id: int | None = None
        self._incidents_since = self._began_at
        self._looked_at = 0.0  # monotonic, as the next
        self._looked_at_all = 0.0

    def join(self, run: str | None) -> Subscriber:
        """Return a new subscriber; the first one starts the work."""
        subscriber = Subscriber(run)
        self.subscribers.add(subscriber)
        if self._task is None or self._task.done():
            self._begin()
            self._task = asyncio.get_running_loop().create_task(self._work())
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """Forget a subscriber; the last one ends the work."""
        self.subscribers.discard(subscriber)
        if not self.subscribers and self._task is not None:
            self._task.cancel()
            self._task = None

    # --- The work ---------------------------------------------------------------------------------------------
    async def _work(self) -> None:
        listening = asyncio.create_task(self._listen())
        try:
            while True:
                try:
                    self._publish(await sync_to_async(self._look, thread_sensitive=False)(*self._take()))
                except Exception:  # the outermost line of a task: subscribers must not lose it
                    logger.exception("events can't be looked for")
                    await asyncio.sleep(RECONNECT_SECONDS)
                await self._wait()
        finally:
            listening.cancel()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._changed.wait()
                await asyncio.sleep(SETTLE_SECONDS)
        except TimeoutError:
            pass
        self._changed.clear()

    async def _listen(self) -> None:
        """Note the runs of each flush. What came while there was no connection is found by looking at all runs."""
        while True:
            client = redis.asyncio.Redis.from_url(
                settings.CACHES[readers.CONNECTION_ALIAS]["LOCATION"], socket_timeout=None, socket_connect_timeout=1
            )
            try:
                async with client, client.pubsub(ignore_subscribe_messages=True) as channel:
                    await channel.subscribe(wire.FLUSHED_CHANNEL)
                    self._all_dirty = True
                    self._changed.set()
                    async for message in channel.listen():
                        self._note(message.get("data"))
            except Exception as error:  # noqa: BLE001  # the outermost line of a task: Redis may come back
                logger.warning("flushes are not heard: %s", type(error).__name__)
            await asyncio.sleep(RECONNECT_SECONDS)

    def _note(self, raw: Any) -> None:
        try:
            runs = json.loads(raw).get("runs")
        except (TypeError, ValueError, AttributeError, RecursionError):
            return
        for run in runs[:1_000] if isinstance(runs, list) else ():
            if isinstance(run, str) and wire.is_run_id(run) and len(self._dirty) < readers.INDEX_LIMIT:
                self._dirty.add(run)
        self._changed.set()

    def _take(self) -> tuple[set[str], bool]:
        """Return the runs to look at, and whether all are: now and then, as a dead connection may bring no message."""
        dirty, self._dirty = self._dirty, set()
        is_all = self._all_dirty or time.monotonic() - self._looked_at_all >= LOOK_AT_ALL_SECONDS
        self._all_dirty = False
        if is_all:
            self._looked_at_all = time.monotonic()
        return dirty, is_all

    # --- One look, in a thread --------------------------------------------------------------------------------
    def _look(self, dirty: set[str], is_all: bool) -> list[Event]:
        """Return what is new."""
        try:
            found = self._of_records(dirty, is_all=is_all)
            if time.monotonic() - self._looked_at >= LOOK_SECONDS:
                self._looked_at = time.monotonic()
                found += self._of_states() + self._of_incidents() + self._of_workers()
        except LiveDataUnavailableError:
            self._all_dirty = True
            return []
        finally:
            connections.close_all()  # those of this thread
        if self._is_first:  # nothing is news that was there before anyone listened
            self._is_first = False
            return [event for event in found if event.kind in ("step", "failure") and event.at >= self._began_at]
        return found

    def _of_records(self, dirty: set[str], *, is_all: bool) -> list[Event]:
        runs = list(dict.fromkeys([*dirty, *(list(readers.read_run_index())[: events.STATE_RUNS] if is_all else ())]))
        horizon = max(self._horizon, time.time() - 2 * LATE_SECONDS) if not is_all else self._horizon
        return [event for event in events.fresh_events(runs, since=horizon) if self._is_news(event)]

    def _of_states(self) -> list[Event]:
        try:
            states = events.run_states(now=time.time())
        except HistoryUnavailableError:
            return []
        changed = [event for run, event in states.items() if self._states.get(run) != event.data["state"]]
        self._states = {run: event.data["state"] for run, event in states.items()}
        return changed

    def _of_incidents(self) -> list[Event]:
        try:
            found = events.incidents_changed_since(self._incidents_since)
        except HistoryUnavailableError:
            return []
        self._incidents_since = max([self._incidents_since, *(event.at for event in found)])
        return [event for event in found if self._is_news(event)]

    def _of_workers(self) -> list[Event]:
        try:
            if self._worker_event_id is None:
                self._worker_event_id = events.newest_worker_event_id()
            found = events.worker_events_behind(self._worker_event_id)
            self._worker_event_id = events.newest_worker_event_id() if found else self._worker_event_id
        except HistoryUnavailableError:
            return []
        return [event for event in found if self._is_news(event)]

    def _is_news(self, event: Event) -> bool:
        if event.key in self._seen:
            return False
        self._seen[event.key] = None
        if len(self._seen) > SEEN_EVENTS:
            del self._seen[next(iter(self._seen))]
        return True

    def _publish(self, found: Iterable[Event]) -> None:
        for event in found:
            message = Message(encode(event), event.key)
            for subscriber in self.subscribers:
                subscriber.offer(event, message)


def encode(event: Event) -> bytes:
    """Return an event as a stream has it. JSON has no line breaks, so a worker's text can't end it early."""
    data = msgspec.json.encode(event.data, enc_hook=str)
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (event.event_id.encode(), event.kind.encode(), data)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def the_hub() -> Hub:
    """Return the hub of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]
