"""Why PostgreSQL could not be read, in words: out, too slow, or locked by somebody else."""

from __future__ import annotations

from collections.abc import Iterator

from psycopg.errors import LockNotAvailable, QueryCanceled

LOCKED = "PostgreSQL is busy: another session keeps a table locked."
SLOW = "PostgreSQL takes too long to answer."
OUT = "PostgreSQL can't be read."


def fault_sentence(error: BaseException) -> str:
    """Return what kept a query from its answer; `error` is the one that it ended with, or one that came of that."""
    for cause in _with_causes(error):
        if isinstance(cause, LockNotAvailable):
            return LOCKED
        if isinstance(cause, QueryCanceled):
            return SLOW
    return OUT


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__
