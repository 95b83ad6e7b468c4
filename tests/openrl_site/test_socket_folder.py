"""Folders whose sockets have short paths."""

import os
import stat

import pytest

from openrl_site import socket_folder
from openrl_site.exceptions import SetUpError


@pytest.fixture
def deep(tmp_path, monkeypatch):
    """A data folder too deep for a socket, on a machine with a temporary folder of its own."""
    monkeypatch.setattr(socket_folder.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / ("d" * 110)


def test_short_path_is_taken_as_it_is(tmp_path):
    assert socket_folder.socket_folder(tmp_path) == tmp_path


def test_same_data_always_get_the_same_private_folder(deep):
    folder = socket_folder.socket_folder(deep)
    assert folder == socket_folder.socket_folder(deep)
    assert folder != socket_folder.socket_folder(deep / "other")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_folder_that_others_may_enter_is_refused(deep):
    os.chmod(socket_folder.socket_folder(deep), 0o755)
    with pytest.raises(SetUpError, match="must belong to this user with mode 0700"):
        socket_folder.socket_folder(deep)
