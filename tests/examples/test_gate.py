"""The gate at the end of a server: what is inside finishes, nothing more comes in."""

import threading

import pytest

from examples.reference_fleet.gate import Gate, GateClosedError


def test_closed_gate_lets_nothing_in():
    gate = Gate()
    assert gate.close(timeout=0)
    with pytest.raises(GateClosedError), gate:
        pass


def test_close_waits_for_what_is_inside():
    gate, is_inside, may_leave, events = Gate(), threading.Event(), threading.Event(), []

    def work():
        with gate:
            is_inside.set()
            may_leave.wait(5)
            events.append("left")

    thread = threading.Thread(target=work)
    thread.start()
    is_inside.wait(5)
    was_empty_at_once = gate.close(timeout=0.01)
    may_leave.set()
    is_empty_then = gate.close(timeout=5)
    events.append("closed")
    thread.join(timeout=5)
    assert (was_empty_at_once, is_empty_then, events) == (False, True, ["left", "closed"])


def test_gate_is_left_by_an_error_too():
    gate = Gate()
    with pytest.raises(ZeroDivisionError), gate:
        raise ZeroDivisionError
    assert gate.close(timeout=0)
