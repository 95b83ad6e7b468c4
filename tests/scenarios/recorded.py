"""Recorded activity of a real service, replayed through the client with a set clock (`tests/data/README.md`)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.scenarios.fleet_acts import RUN, Site
from tests.scenarios.situations import situation
from tests.support.world import Acting, World

PATH = Path(__file__).parents[1] / "data" / "recorded_activity.jsonl"
STOPPED = (3.1, 73.1)  # when the recorded trainer was stopped and went on (SIGSTOP, SIGCONT)


def replay(world: World, site: Site, recording: str) -> None:
    """Let each recorded request happen when it did."""
    for line in PATH.read_text().splitlines():
        entry = json.loads(line)
        if entry["recording"] == recording:
            world.act(_request(world, site, entry), after=entry["enqueued"])


def _request(world: World, site: Site, entry: dict[str, Any]) -> Acting:
    began_at = world.now - entry["enqueued"]

    def until(name: str) -> Iterator[float]:
        yield max(0.0, began_at + entry[name] - world.now)

    wanted = {
        "request_id": entry["request"], "op": entry["operation"], "model_id": RUN, "payload": {}, "trace_context": None,
    }  # fmt: skip
    site.server.recorder.enqueued(wanted)
    if "popped" not in entry:
        return
    yield from until("popped")
    site.trainer.recorder.popped([wanted])
    yield from until("started")
    result = {"type": "done", "metrics": entry.get("metrics", {})}
    with site.trainer.recorder.operation(wanted) as running:
        yield from until("ended")
        running.finish(result)
    site.trainer.recorder.answered(wanted, result)
    if "delivered" in entry:
        yield from until("delivered")
        site.server.recorder.delivered(wanted["request_id"], RUN)


@situation("recorded", "progressing")
def recorded_training(world: World) -> None:
    replay(world, Site(world), "healthy")
    world.advance(46)


@situation("recorded", "progressing", "loss_is_zero", "gradient_vanished", "answered_not_delivered")
def recorded_training_of_what_is_not_a_number(world: World) -> None:
    replay(world, Site(world), "not-a-number")
    world.advance(181)


@situation("recorded", "stuck", "stuck", "enqueued_beside_idle_worker", passed=("queued",))
def recorded_request_that_stayed_in_its_queue(world: World) -> None:
    site = Site(world)
    replay(world, site, "stranded")
    world.advance(127, judged=False)
    world.advance(62)


@situation("recorded", "progressing", passed=("lost", "stuck"))
def recorded_trainer_that_was_stopped_for_70_seconds(world: World) -> None:
    site = Site(world)
    replay(world, site, "stopped")
    world.advance(STOPPED[0])
    site.trainer.is_stopped = True
    world.advance(STOPPED[1] - STOPPED[0])
    site.trainer.is_stopped = False
    world.advance(10)
