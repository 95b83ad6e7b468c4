"""Ids by any unique part: people and agents copy what they see, which is rarely all of an id."""

from __future__ import annotations

from openrl_inspect.cells import plain
from openrl_inspect.exceptions import AmbiguousIdError, NotFoundError, RefusedError
from openrl_inspect.site import Site, results_of, run_path, worker_path

NAMED_CANDIDATES = 10
WORKERS_LOOKED_AT = 2_000


async def find_run(site: Site, part: str) -> str:
    """Return the id of the one run that has this id, or else whose id holds this text, in any case.

    A site that knows names and tags of runs finds them by these too, where no id holds the text.

    Raises:
        NotFoundError: there is none.
        AmbiguousIdError: there are several; the message names them.
    """
    _refuse_empty(part, "run")
    answer = await site.get("/runs", q=part, page_size=NAMED_CANDIDATES + 1)
    found = [str(run.get("run_id")) for run in results_of(answer)]
    if part in found:
        return part
    by_id = [run_id for run_id in found if part.lower() in run_id.lower()] or found
    is_whole = len(found) <= NAMED_CANDIDATES
    if is_whole and len(by_id) == 1:
        return by_id[0]
    # A reference such as tinker://… stands for a run whose id does not hold it, and one of many may be the run itself.
    exact = await site.get_if_there(run_path(part))
    if exact is not None and exact.get("run_id"):
        return str(exact["run_id"])
    return _only(by_id, part, "run", len(by_id) if is_whole else answer.get("total_matching"))


async def find_worker(site: Site, part: str) -> str:
    """Return the id of the one worker that has this id, or else whose id holds this text. Raises as `find_run`."""
    _refuse_empty(part, "worker")
    if await site.get_if_there(worker_path(part)) is not None:
        return part
    found = [
        name
        async for page in site.pages("/workers", limit=WORKERS_LOOKED_AT)
        for name in (str(worker.get("worker")) for worker in results_of(page))
        if part.lower() in name.lower()
    ]
    return found[0] if len(found) == 1 else _only(found, part, "worker", len(found))


def _only(found: list[str], part: str, kind: str, total: object) -> str:
    if not found:
        raise NotFoundError(f"No {kind} has {part!r} in its id. Look at the list of {kind}s for those there are.")
    count = total if isinstance(total, int) else len(found)
    named = [f"  {plain(name)}" for name in found[:NAMED_CANDIDATES]]
    more = [f"  … and {count - len(named):,} more"] if count > len(named) else []
    raise AmbiguousIdError(
        "\n".join([f"{count:,} {kind}s have {part!r} in their ids. Give more of the one you mean:", *named, *more])
    )


def _refuse_empty(part: str, kind: str) -> None:
    if not part.strip():
        raise RefusedError(f"{part!r} is no part of a {kind}'s id.")
