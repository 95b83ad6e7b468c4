"""Which steps were slow, which part grew, and the sentence that says why."""

from __future__ import annotations

import pytest

from telemetry_app.spans import microseconds
from telemetry_app.step_clock import PARTS, StepTime, StepWindow
from telemetry_app.time_comparison import compared, slowest, totals
from telemetry_app.turn_spans import Use

SECOND = 1_000_000


def step(number, *, waits=None, **parts):
    """Return a step of these seconds by part; `waits` are the seconds of its `gpu_wait` by holder."""
    by_holder = {use: microseconds(length) for use, length in (waits or {}).items()}
    lengths = dict.fromkeys(PARTS, 0) | {part: microseconds(length) for part, length in parts.items()}
    if by_holder:
        lengths["gpu_wait"] = sum(by_holder.values())
    return StepTime(StepWindow(number, True, 0, sum(lengths.values())), lengths, by_holder)


@pytest.fixture
def usual():
    return [step(number, training=30, client=2) for number in range(805, 812)]


def test_a_slow_step_says_what_it_waited_for(usual):
    held = {Use("w-b", "run-b", "forward_backward"): 170, Use("w-b", "run-b", None): 10}
    [(found, difference)] = slowest([*usual, step(812, training=30, client=2, waits=held)])
    assert (found.window.step, difference.wall, difference.part) == (812, 180 * SECOND, "gpu_wait")
    assert difference.text == (
        "step 812 took 3 min longer than usual: waited for the GPU held by run-b, `forward_backward`"
    )


def test_the_part_that_makes_most_of_it_is_named(usual):
    [(_, difference)] = slowest([*usual, step(812, training=31, client=9, queue=3)])
    assert (difference.part, difference.parts["client"], difference.parts["queue"]) == (
        "client",
        7 * SECOND,
        3 * SECOND,
    )
    assert difference.text == "step 812 took 11 s longer than usual: waited for the client"


def test_steps_that_are_as_usual_are_not_slow(usual):
    assert slowest(usual) == []
    assert slowest([]) == []


def test_at_most_five_steps_are_named_slowest_first(usual):
    found = slowest([*usual, *(step(900 + extra, training=30 + extra) for extra in range(3, 10)), *usual])
    assert [time.window.step for time, _ in found] == [909, 908, 907, 906, 905]


def test_an_open_step_is_not_compared(usual):
    going_on = step(812, training=900)
    going_on.window = StepWindow(812, False, 0, going_on.wall)
    assert slowest([*usual, going_on]) == []


def test_totals_add_up(usual):
    held = {Use("w-b", "run-b", "optim_step"): 5.0, None: 1.0}
    found = totals([*usual, step(812, waits=held), step(813, waits=held)])
    assert (found.count, found.wall, sum(found.parts.values())) == (9, 236 * SECOND, 236 * SECOND)
    assert found.gpu_wait_by == {Use("w-b", "run-b", "optim_step"): 10 * SECOND, None: 2 * SECOND}


def test_two_ranges_are_compared_by_their_mean_step(usual):
    held = {Use("w-b", None, None): 8}
    newer = totals([step(812, training=30, client=2, waits=held), step(813, training=32, client=2, waits=held)])
    difference = compared(newer, totals(usual), what="steps 812 to 813", with_what="steps 805 to 811")
    assert (difference.wall, difference.part) == (9 * SECOND, "gpu_wait")
    assert difference.text == (
        "steps 812 to 813 took 9 s longer a step than steps 805 to 811: waited for the GPU held by w-b"
    )


def test_a_range_that_got_faster_says_by_which_part(usual):
    difference = compared(totals([step(1, training=10)]), totals(usual), what="step 1", with_what="steps 805 to 811")
    assert difference.text == "step 1 took 22 s less a step than steps 805 to 811, most of it `training`"


def test_ranges_that_are_alike_are_said_to_be(usual):
    difference = compared(totals(usual), totals(usual), what="steps 3 to 4", with_what="steps 1 to 2")
    assert (difference.part, difference.text) == (None, "steps 3 to 4 took as long a step as steps 1 to 2")
