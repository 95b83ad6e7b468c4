"""The first thing every command does."""

import sys
from collections import namedtuple

import pytest
import python_version

Version = namedtuple("Version", "major minor micro")


def test_old_python_is_refused_by_value_and_rule(monkeypatch):
    monkeypatch.setattr(sys, "version_info", Version(3, 10, 13))
    monkeypatch.setattr(python_version.platform, "python_version", lambda: "3.10.13")
    with pytest.raises(SystemExit) as refused:
        python_version.refuse_old("script/server")
    assert str(refused.value).startswith(
        f"script/server: Python 3.10.13 ({sys.executable}) is too old; it must be 3.11 or"
    )


def test_this_python_is_new_enough():
    python_version.refuse_old("script/server")
