"""Every situation is told right within two snapshots of when it is due, and no other incident is opened meanwhile."""

from __future__ import annotations

import os

import pytest

from tests.scenarios import recorded  # noqa: F401  # registers its situations
from tests.scenarios.fleet_acts import RUN
from tests.scenarios.labels import words
from tests.scenarios.situations import SITUATIONS, Situation
from tests.support.records import START
from tests.support.world import SNAPSHOT_SECONDS, World, a_world

pytestmark = pytest.mark.django_db
# What plays within a few seconds; `script/scenarios` plays all.
QUICK = [
    each
    for each in SITUATIONS
    if each.name
    in {
        "a model that was deleted", "a neighbour that holds the gpu", "ops that fail one after another",
        "a request that ran twice", "a process that was stopped and resumed",
        "a step that was not finite and others since", "recorded training of what is not a number",
    }
]  # fmt: skip
PLAYED = SITUATIONS if os.environ.get("SCENARIOS") else QUICK


@pytest.mark.parametrize("situation", PLAYED, ids=lambda situation: situation.name)
def test_a_situation_is_told_right(situation: Situation, redis_client, redis_url, tell):
    with a_world(redis_url, START) as world:
        situation.play(world)
        world.advance(2 * SNAPSHOT_SECONDS)
        expected = {RUN: (situation.state, situation.incidents), **situation.others}
        for run_id, (state, incidents) in expected.items():
            given = label(world, run_id, allowed=situation.passed)
            tell(situation.kind, situation.name, words(state, incidents), given)
        assert {run_id: label(world, run_id, allowed=situation.passed) for run_id in expected} == {
            run_id: words(*told) for run_id, told in expected.items()
        }


def label(world: World, run_id: str, *, allowed: frozenset[str]) -> str:
    """Return the state and the open incidents; an incident that came and went unexpectedly is named, too."""
    is_open = world.codes(run_id)
    passed = world.codes(run_id, open_only=False) - is_open - allowed
    return words(world.states.get(run_id, "not judged"), is_open, passed)


def test_there_is_a_situation_for_each_state_and_finding():
    from telemetry_app.findings import Code  # the words that have to be covered
    from telemetry_app.models import RunState

    told = {situation.state for situation in SITUATIONS} | {code for one in SITUATIONS for code in one.incidents}
    assert {*RunState.values, *(code.value for code in Code)} <= told
    assert len(SITUATIONS) >= 24
    assert len(QUICK) == 7
