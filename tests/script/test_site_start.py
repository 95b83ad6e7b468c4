"""`--reset` and `--fleet-only`, without starting anything."""

import pytest
import site_start

from openrl_site.exceptions import SetUpError
from openrl_site.file_locks import FileLock
from openrl_site.server_keeper import KEEPER_LOCK


def test_reset_deletes_what_the_site_made_and_nothing_else(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("not the site's")
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("18")
    (tmp_path / "access.json").write_text("{}")
    site_start.reset(tmp_path)
    assert "deleting all records" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")} == {"notes.txt"}


def test_reset_leaves_data_that_a_command_uses(tmp_path, monkeypatch):
    (tmp_path / "access.json").write_text("{}")
    used = FileLock(tmp_path / KEEPER_LOCK)
    assert used.take()
    monkeypatch.setattr(site_start, "_LEFTOVER_SECONDS", 0.0)
    with pytest.raises(SetUpError, match=r"manage\.py command uses it"):
        site_start.reset(tmp_path)
    used.release()
    assert (tmp_path / "access.json").exists()
