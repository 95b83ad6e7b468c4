"""Every situation of real processes is told right within two snapshots of when it is due, and nothing else is told."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from tests.scenarios.answers_page import answers_page
from tests.scenarios.fleet_situations import SITUATIONS, FleetSituation
from tests.scenarios.labels import is_right
from tests.scenarios.running_fleet import RunningFleet, Told
from tests.support.running_site import READY, RunningSite

pytestmark = pytest.mark.processes
AT_ONCE = int(os.environ.get("SCENARIOS_AT_ONCE", "6"))  # fleets that two cores bear
FIRST_DATABASE, DATABASES = 3, 13  # of Redis; the site uses those before
QUICK = {"trainer-killed-with-requests-open", "ops-that-fail"}  # `script/scenarios --fleet` plays all
WANTED = set(os.environ.get("FLEET_SITUATIONS", "").split(",")) - {""}
ANSWERS = os.environ.get("SCENARIO_ANSWERS")


def is_played(situation: FleetSituation) -> bool:
    """Say whether it is: some by name, all with `script/scenarios --fleet`, else the quick ones."""
    if WANTED or os.environ.get("SCENARIOS") != "fleet":
        return situation.name in (WANTED or QUICK)
    return bool(ANSWERS) or not situation.is_long


PLAYED = [each for each in SITUATIONS if is_played(each)]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Play them all on one site, several at once, and return what was told in each, or the error."""
    with RunningSite(tmp_path_factory.mktemp("site"), "--no-fleet") as site:
        site.wait_for(READY)
        databases = count()

        def play(situation: FleetSituation) -> list[Told]:
            with RunningFleet(situation.name, site, FIRST_DATABASE + next(databases) % DATABASES) as fleet:
                situation.play(fleet)
                return fleet.told

        # Always in a thread of the pool: a process of the fleet ends with the thread that started it.
        found: dict[str, Future[list[Told]]] = {}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            together = [each for each in PLAYED if not each.is_alone]
            together.sort(key=lambda each: not each.is_long)  # what takes longest begins first
            found |= {each.name: pool.submit(play, each) for each in together}
        with ThreadPoolExecutor(1) as pool:
            found |= {each.name: pool.submit(play, each) for each in PLAYED if each.is_alone}
        return found


def names(situations: Iterable[FleetSituation]) -> list[str]:
    return [situation.name for situation in situations]


@pytest.mark.parametrize("name", names(PLAYED))
def test_a_situation_of_real_processes_is_told_right(name: str, outcomes, tell):
    outcome = outcomes[name].result()
    for told in outcome:
        tell("real processes", name.replace("-", " "), told.expected, told.given, told.seconds)
    assert [told for told in outcome if not is_right(told.expected, told.given)] == []
    assert outcome


if ANSWERS:  # asked for by `script/scenarios --fleet --answers`

    def test_the_page_of_answers_is_written(outcomes):
        played = [outcomes[name] for name in names(PLAYED) if outcomes[name].exception() is None]
        told = [one for each in played for one in each.result()]
        Path(str(ANSWERS)).write_text(answers_page(told))


def test_there_are_situations_enough_of_real_processes():
    assert len(SITUATIONS) >= 12
    assert set(names(SITUATIONS)) >= QUICK | WANTED
