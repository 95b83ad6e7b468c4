"""Ids by any unique part, at sites that answer with names and tags too."""

from __future__ import annotations

import asyncio

import pytest

from openrl_inspect.exceptions import AmbiguousIdError, NotFoundError, RefusedError
from openrl_inspect.identifiers import find_run


class OneSite:
    """Answers a search of runs with some ids, of so many in all."""

    def __init__(self, *ids, total=None):
        self.ids, self.total = ids, len(ids) if total is None else total

    async def get(self, path, **parameters):
        return {"results": [{"run_id": name} for name in self.ids], "total_matching": self.total}

    async def get_if_there(self, path, **parameters):
        return None


def found(part, *ids, total=None):
    return asyncio.run(find_run(OneSite(*ids, total=total), part))


def test_an_id_that_holds_the_text_goes_before_one_whose_name_does():
    assert found("DIG", "runs/digits", "named-so") == "runs/digits"
    assert found("dig", "named-so") == "named-so"


def test_the_whole_id_goes_before_those_that_hold_it():
    assert found("run-1", "run-1", "run-10", "run-11") == "run-1"


def test_candidates_are_named_and_the_rest_counted():
    with pytest.raises(AmbiguousIdError) as error:
        found("run", *(f"run-{number:02}" for number in range(11)), total=70)
    assert "70 runs have 'run'" in str(error.value)
    assert "run-09" in str(error.value)
    assert "and 60 more" in str(error.value)


def test_one_on_a_page_of_many_is_not_the_only_one():
    with pytest.raises(AmbiguousIdError):
        found("dig", "digits", *(f"named-so-{number}" for number in range(10)), total=500)


def test_nothing_and_no_text_are_told():
    with pytest.raises(NotFoundError):
        found("x")
    with pytest.raises(RefusedError):
        found("  ")
