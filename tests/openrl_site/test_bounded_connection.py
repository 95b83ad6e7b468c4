"""A PostgreSQL that hangs holds nobody for longer than a statement may take."""

from __future__ import annotations

import os
import signal

import psycopg
import pytest
from django.db import connection
from psycopg_pool import ConnectionPool

from openrl_site import bounded_connection
from openrl_site.bounded_connection import BoundedConnection

pytestmark = pytest.mark.django_db


@pytest.fixture
def limits(settings, monkeypatch):
    settings.STATEMENT_TIMEOUT_MILLISECONDS = 300
    monkeypatch.setattr(bounded_connection, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(bounded_connection, "SUSPECT_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(BoundedConnection, "_suspect_until", 0.0)


@pytest.fixture
def connected(limits):
    opened = []

    def connect():
        parameters = connection.get_connection_params()
        parameters.pop("cursor_factory", None)
        opened.append(BoundedConnection.connect(**{**parameters, "autocommit": True}))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


@pytest.fixture
def stopped(connected):
    """A connection whose process in PostgreSQL has been stopped."""
    held = connected()
    pid = held.info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    yield held
    os.kill(pid, signal.SIGCONT)


def test_a_silent_one_is_given_up_and_closed(stopped):
    with pytest.raises(psycopg.OperationalError, match="PostgreSQL does not answer"):
        stopped.execute("SELECT 1")
    assert stopped.closed


def test_a_pool_s_question_is_given_up_sooner(stopped, monkeypatch):
    monkeypatch.setattr(bounded_connection, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(bounded_connection, "GRACE_SECONDS", 600.0)
    with pytest.raises(psycopg.OperationalError, match="PostgreSQL does not answer"):
        ConnectionPool.check_connection(stopped)


def test_after_it_others_wait_shorter_until_one_answers(stopped, connected):
    well = connected()
    assert well._limit_seconds() == 0.5
    with pytest.raises(psycopg.OperationalError):
        stopped.execute("SELECT 1")
    assert well._limit_seconds() == 0.05
    assert well.execute("SELECT 7").fetchone() == (7,)
    assert well._limit_seconds() == 0.5


def test_a_statement_that_postgresql_itself_ends_is_no_silence(connected):
    well = connected()
    well.execute("SET statement_timeout = 100")
    with pytest.raises(psycopg.errors.QueryCanceled):
        well.execute("SELECT pg_sleep(5)")
    assert not well.closed
    assert well._limit_seconds() == 0.5
