"""Files that only their owner reads."""

import stat

from openrl_site.private_files import read_json, write_json


def test_file_is_private_and_whole(tmp_path):
    path = tmp_path / "secrets.json"
    path.write_text("old")
    path.chmod(0o644)
    write_json(path, {"token": "t"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_json(path) == {"token": "t"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["secrets.json"]


def test_what_is_no_object_reads_as_nothing(tmp_path):
    path = tmp_path / "broken.json"
    for content in ("", "{", "[1]"):
        path.write_text(content)
        assert read_json(path) == {}
    assert read_json(tmp_path / "missing.json") == {}
