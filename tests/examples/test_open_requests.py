"""Open sampling requests: kept in Redis, overdue in the order of their deadlines, closed by one alone."""

import threading

import pytest

from examples.reference_fleet.open_requests import OpenRequests


@pytest.fixture
def open_requests(redis_client):
    return OpenRequests(redis_client)


def test_overdue_are_those_whose_deadline_is_over_longest_first(open_requests):
    for name, deadline_at in (("a", 30.0), ("b", 10.0), ("c", 20.0)):
        open_requests.add({"request_id": name}, deadline_at=deadline_at)
    assert [request["request_id"] for request in open_requests.overdue(25.0)] == ["b", "c"]


def test_removed_request_is_neither_open_nor_overdue(open_requests):
    open_requests.add({"request_id": "a"}, deadline_at=1.0)
    open_requests.remove("a")
    assert (open_requests.all(), open_requests.overdue(2.0)) == ([], [])


def test_one_alone_of_many_closes_a_request(open_requests):
    open_requests.add({"request_id": "a"}, deadline_at=1.0)
    closed = []
    threads = [threading.Thread(target=lambda: closed.append(open_requests.remove("a"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=5)
    assert sorted(closed) == [False] * 7 + [True]
