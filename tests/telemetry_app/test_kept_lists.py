"""Lists that are kept between two readings: what is told is what the whole list would tell."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry_app import kept_lists, readers
from tests.support.records import RUN, op
from workers_client import wire

KEY = "list"
LIMIT = 200


@pytest.fixture(autouse=True)
def _nothing_kept():
    kept_lists._kept.clear()
    yield
    kept_lists._kept.clear()


def read(elements):
    """Read a list twice where the first reading does not say it all, as `readers.read_run` does."""
    for _ in range(2):
        count = kept_lists.wanted(KEY, LIMIT)
        found = kept_lists.joined(KEY, elements[-count:], len(elements), read_count=count, newest=LIMIT)
        if found is not None:
            return found
    raise AssertionError("the whole list did not do")


def numbered(first, end):
    return [str(number).encode() for number in range(first, end)]


_pushes = st.tuples(st.just("push"), st.integers(0, 3) | st.integers(100, 260), st.sampled_from([7, 1_000_000]))
_changes = st.lists(
    _pushes
    | st.tuples(st.sampled_from(["cut", "drop_end", "push_start"]), st.integers(0, 150))
    | st.tuples(st.sampled_from(["empty", "restore"]), st.just(0)),
    max_size=12,
)


@settings(max_examples=300)
@given(changes=_changes)
def test_what_is_told_is_what_the_whole_list_has(changes):
    kept_lists._kept.clear()
    elements, pushed, older = numbered(0, 150), 150, []
    read(elements)
    for name, count, *rest in changes:
        if name == "push":
            elements = [*elements, *(str(pushed + number % rest[0]).encode() for number in range(count))]
            pushed += count
        elif name == "cut":
            elements = elements[count:]
        elif name == "drop_end":
            elements = elements[: len(elements) - count]
        elif name == "push_start":
            elements = [*numbered(-count - 1, -1), *elements]
        elif name == "empty":
            older, elements = elements, []
        else:  # a Redis that comes back with what it had saved a while ago
            elements = older
        elements = elements[-LIMIT:]
        assert read(elements) == elements[-LIMIT:]


def test_of_a_kept_list_the_end_alone_is_read():
    read(numbered(0, 190))
    assert kept_lists.wanted(KEY, LIMIT) == kept_lists.TAIL
    assert read(numbered(0, 195)) == numbered(0, 195)
    assert kept_lists.wanted("another", LIMIT) == LIMIT


def test_an_end_that_does_not_go_on_element_by_element_is_not_believed():
    read(numbered(0, 190))
    changed = [*numbered(0, 150), *numbered(151, 190)]
    assert read(changed) == changed


def test_the_same_elements_are_the_same_list():
    assert read(numbered(0, 190)) is read(numbered(0, 190))


def test_neither_large_nor_short_lists_are_kept(monkeypatch):
    read(numbered(0, kept_lists.TAIL))
    assert not kept_lists._kept
    monkeypatch.setattr(kept_lists, "LARGEST_BYTES", 400)
    read(numbered(0, 190))
    assert not kept_lists._kept


def test_the_list_that_was_looked_at_longest_ago_goes_first(monkeypatch):
    monkeypatch.setattr(kept_lists, "LISTS", 2)
    for key in ("a", "b", "a", "c"):
        kept_lists.joined(key, numbered(0, 190), 190, read_count=LIMIT, newest=LIMIT)
    assert list(kept_lists._kept) == ["a", "c"]


def test_what_is_no_list_is_not_kept():
    read(numbered(0, 190))
    error = ValueError("WRONGTYPE")
    assert kept_lists.joined(KEY, error, error, read_count=kept_lists.TAIL, newest=LIMIT) is error
    assert not kept_lists._kept


# --- In Redis -------------------------------------------------------------------------------------------------
def test_a_run_is_told_whole_while_records_come_and_go(redis_client, writer):
    times = [float(number) for number in range(1, 400)]
    writer.operations(*(op(at=at) for at in times[:300]))
    key = wire.operations_key(RUN)

    def told():
        return [record.at for record in readers.read_run(RUN).operations.records]

    assert told() == times[:300]
    writer.operations(op(at=times[300]))
    assert told() == times[:301]
    redis_client.ltrim(key, -250, -1)
    assert told() == times[51:301]
    writer.operations(*(op(at=at) for at in times[301:]))  # a few less than are read of a list that is kept
    assert told() == times[51:]
    writer.operations(*(op(at=1_000.0 + number) for number in range(200)))  # more than those
    assert told() == [*times[51:], *(1_000.0 + number for number in range(200))]
    redis_client.delete(key)
    assert told() == []


def test_a_key_that_became_another_is_malformed(redis_client, writer):
    writer.operations(*(op(at=float(number)) for number in range(1, 300)))
    readers.read_run(RUN)
    redis_client.delete(wire.operations_key(RUN))
    redis_client.set(wire.operations_key(RUN), b"no list")
    assert readers.read_run(RUN).operations.malformed_count == 1
