"""An hour of a healthy fleet, in which nothing may be reported: three runs that share a GPU, and a sampler.

It takes minutes, so that `script/scenarios --long` alone collects it (`conftest.py`).
"""

from __future__ import annotations

import pytest

from telemetry_app.models import Incident
from tests.scenarios.fleet_acts import NEIGHBOUR, RUN, Site, sampling
from tests.support.records import START
from tests.support.world import a_world

HOUR = 3_600.0


@pytest.mark.django_db
def test_an_hour_of_a_healthy_fleet_has_no_incident(redis_client, redis_url):
    with a_world(redis_url, START) as world:
        own = Site(world)
        other = Site(world, trainer="trainer-b", server=own.server)
        third = Site(world, trainer="trainer-c", server=own.server)
        world.act(own.in_turns(run=RUN, seconds=12, workload="a", pause=3))
        world.act(other.in_turns(run=NEIGHBOUR, seconds=25, workload="b", pause=5))
        world.act(third.client(run="run-c", seconds=2, pause=20))
        world.act(sampling(world.start("sampler", "sampler-0"), run=RUN, seconds=15))
        for _ in range(12):
            world.advance(HOUR / 12)
        assert list(Incident.objects.values_list("run_id", "code", "cause")) == []
        assert set(world.states.values()) <= {
            "progressing",
            "waiting_for_gpu",
            "sampling",
            "waiting_for_client",
            "queued",
        }
