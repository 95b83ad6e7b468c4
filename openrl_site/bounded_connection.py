"""Connections to a PostgreSQL that may stop answering: no wait for it is endless.

`statement_timeout` is PostgreSQL's own, and ends nothing where PostgreSQL itself hangs: a stopped process, a dead disk,
a network that swallows what is sent.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, TypeVar

import psycopg
from django.conf import settings
from psycopg.abc import PQGen
from psycopg.errors import _WaitTimeout
from psycopg.rows import TupleRow

RV = TypeVar("RV")
CHECK_SECONDS = 2.0  # for the empty query by which a pool asks whether a connection is well
GRACE_SECONDS = 2.0  # over the statement time-out, which an answering PostgreSQL keeps
SUSPECT_SECONDS = 30.0  # after a wait that was given up
SUSPECT_WAIT_SECONDS = 1.0


class BoundedConnection(psycopg.Connection[TupleRow]):
    """A connection that gives up, and is closed, where PostgreSQL is silent for longer than a statement may take.

    After one did, all of the process wait a second at most until PostgreSQL answers again: else each request of a hung
    PostgreSQL would hold a thread for as long as the first.
    """

    _suspect_until = 0.0
    _is_checked = False

    def execute(self, query: Any, *arguments: Any, **options: Any) -> psycopg.Cursor[TupleRow]:
        """Run a statement, as `psycopg.Connection.execute` does."""
        self._is_checked = query == ""
        try:
            return super().execute(query, *arguments, **options)
        finally:
            self._is_checked = False

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Return what a step of the protocol ends with.

        Raises:
            psycopg.OperationalError: PostgreSQL did not answer in time.
        """
        try:
            found = super().wait(gen, interval, self._limit_seconds() if timeout is None else timeout)
        except _WaitTimeout as error:
            BoundedConnection._suspect_until = monotonic() + SUSPECT_SECONDS
            self.pgconn.finish()  # an answer that comes late would be taken for the next one's
            raise psycopg.OperationalError("PostgreSQL does not answer") from error
        BoundedConnection._suspect_until = 0.0
        return found

    def _limit_seconds(self) -> float:
        if monotonic() < BoundedConnection._suspect_until:
            return SUSPECT_WAIT_SECONDS
        return CHECK_SECONDS if self._is_checked else settings.STATEMENT_TIMEOUT_MILLISECONDS / 1e3 + GRACE_SECONDS
