"""Traces: what a viewer needs so as not to drop anything, and the neighbours on the same time line."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from openrl_inspect.exceptions import NotFoundError
from openrl_inspect.export.trace_events import Slice, trace_events
from openrl_inspect.site import Site
from tests.openrl_inspect.conftest import HEALTHY, NEIGHBOUR

_spans = st.tuples(st.floats(0, 100), st.floats(0, 50)).map(lambda span: (span[0], span[0] + span[1]))


@given(st.lists(_spans, max_size=30))
def test_no_slices_of_a_track_overlap_and_none_is_lost(spans):
    events = trace_events(Slice("process", "track", "op", start, end, "op") for start, end in spans)
    complete = [event for event in events if event["ph"] == "X"]
    assert len(complete) == len(spans)
    by_thread = {}
    for event in complete:
        by_thread.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
    for found in by_thread.values():
        found.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(found))


def test_one_after_the_other_stays_in_one_track():
    events = trace_events(Slice("p", "t", "op", at, at + 1, "op") for at in (3, 1, 2))
    assert {event["tid"] for event in events if event["ph"] == "X"} == {1}


def test_processes_and_tracks_are_named():
    events = trace_events([Slice("Ops of a", "w-1", "op", 0, 1, "op"), Slice("Ops of a", "w-2", "op", 0, 1, "op")])
    named = [(event["name"], event["args"]["name"]) for event in events if event["ph"] == "M"]
    assert named == [("process_name", "Ops of a"), ("thread_name", "w-1"), ("thread_name", "w-2")]


@given(st.lists(st.tuples(_spans, st.sampled_from("ab"), st.sampled_from("xy")), max_size=20))
def test_events_are_as_the_trace_event_format_wants_them(drawn):
    events = trace_events(
        Slice(process, track, "op", start, end, "op", {"n": 1}) for (start, end), process, track in drawn
    )
    assert_trace_event_format(events)
    starts = [event["ts"] for event in events if event["ph"] == "X"]
    assert starts == sorted(starts)


def assert_trace_event_format(events):
    """As "Trace Event Format" says: complete events and metadata, each with what it must have, and each track named."""
    named = {(event["name"], event["pid"], event["tid"]) for event in events if event["ph"] == "M"}
    for event in events:
        assert event["ph"] in ("X", "M")
        assert type(event["pid"]) is type(event["tid"]) is int
        assert event["name"]
        assert isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name")
            assert event["args"]["name"]
            continue
        assert type(event["ts"]) is type(event["dur"]) is int
        assert event["ts"] >= 0 <= event["dur"]
        assert {("process_name", event["pid"], 0), ("thread_name", event["pid"], event["tid"])} <= named


def test_an_exported_trace_has_ops_waits_turns_and_the_neighbours_turns(inspect, tmp_path):
    path = tmp_path / "trace.json"
    told = inspect("export", HEALTHY, "--since", "1d", "--output", str(path)).stderr
    events, drawn = drawn_in(path)
    assert_trace_event_format(events)
    assert "1 turns, 2 turns of neighbours" in told
    mine, theirs = f"GPU turns of {HEALTHY}", f"GPU turns of neighbour {NEIGHBOUR}"
    assert (mine, "mine: waits", "waits for next", 8_000_000) in drawn
    assert (mine, "mine: turns", "turn", 10_000_000) in drawn
    assert (theirs, "next: turns", "turn", 10_000_000) in drawn
    assert ("GPU turns of neighbour sampler", "sampler: ops in turns", "weight_sync", 3_000_000) in drawn
    assert not [process for process, *_ in drawn if "elsewhere" in process]  # on another node
    assert (f"Ops of {HEALTHY}", "in the queue", "forward_backward", 1_500_000) in drawn
    ops = [event for event in events if event.get("cat") == "op" and event["args"].get("step") == 29]
    assert {event["name"] for event in ops} == {"forward_backward", "optim_step"}


def drawn_in(path):
    """The events of a trace, and its slices with the names of process and track."""
    events = json.loads(path.read_text())["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    drawn = {
        (processes[event["pid"]], tracks[event["pid"], event["tid"]], event["name"], event["dur"])
        for event in events
        if event["ph"] == "X"
    }
    return events, drawn


def test_a_site_that_lists_no_turns_of_all_has_those_of_the_runs_that_were_waited_for(inspect, tmp_path, monkeypatch):
    ask = Site.get

    async def as_an_older_one(self, path, **parameters):
        if path == "/turns":
            raise NotFoundError("There is no endpoint /turns.")
        return await ask(self, path, **parameters)

    monkeypatch.setattr(Site, "get", as_an_older_one)
    path = tmp_path / "trace.json"
    told = inspect("export", HEALTHY, "--since", "1d", "--output", str(path)).stderr
    assert "1 turns of the 1 runs it waited for longest (the site is older" in told
    _, drawn = drawn_in(path)
    assert {process for process, *_ in drawn if "neighbour" in process} == {f"GPU turns of neighbour {NEIGHBOUR}"}


def test_a_time_without_anything_is_told(inspect, tmp_path):
    path = tmp_path / "trace.json"
    path.write_text("kept")
    arguments = ("--since", "3d", "--until", "2d", "--output", str(path))
    assert "Nothing of" in inspect("export", HEALTHY, *arguments, status=5).stderr
    assert path.read_text() == "kept"
