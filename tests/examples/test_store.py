"""The store of results: the first result of a request is its answer."""

import threading

from examples.reference_fleet.store import ResultStore


def test_first_saved_result_wins(redis_client):
    store = ResultStore(redis_client)
    assert store.save("r1", {"type": "first"})
    assert not store.save("r1", {"type": "second"})
    assert store.load("r1") == {"type": "first"}


def test_one_of_many_racing_results_wins(redis_client):
    store = ResultStore(redis_client)
    won = []
    barrier = threading.Barrier(8)

    def save(number):
        barrier.wait(5)
        if store.save("r1", {"number": number}):
            won.append(number)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=5)

    assert len(won) == 1
    assert store.load("r1") == {"number": won[0]}


def test_waiting_ends_with_the_result(redis_client):
    store = ResultStore(redis_client)
    timer = threading.Timer(0.05, store.save, args=("r1", {"type": "late"}))
    timer.start()
    result = store.wait("r1", timeout=4.0)
    timer.join()
    assert result == {"type": "late"}


def test_result_can_be_fetched_twice_and_expires(redis_client):
    store = ResultStore(redis_client)
    store.save("r1", {"type": "kept"})
    assert store.wait("r1", timeout=1.0) == store.wait("r1", timeout=1.0) == {"type": "kept"}
    assert 0 < redis_client.ttl("open_rl:future:r1") <= 300


def test_waiting_without_a_result_ends_with_none(redis_client):
    assert ResultStore(redis_client).wait("r1", timeout=0.05) is None
