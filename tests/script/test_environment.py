"""When the virtual environment is renewed."""

import subprocess
import sys

import environment
import pytest


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project folder whose virtual environment is this Python and is never installed into."""
    (tmp_path / "script").mkdir()
    (tmp_path / ".venv").mkdir()
    (tmp_path / "requirements.txt").write_text("one==1\n")
    (tmp_path / "requirements-dev.txt").write_text("-r requirements.txt\ntwo==2\n")
    installed = []
    monkeypatch.setattr(environment, "ROOT", str(tmp_path))
    monkeypatch.setattr(environment, "VIRTUALENV", str(tmp_path / ".venv"))
    monkeypatch.setattr(environment, "PYTHON", sys.executable)
    monkeypatch.setattr(environment, "_install", lambda requirements, command: installed.append(requirements))
    return tmp_path, installed


def test_requirements_are_installed_once(project):
    _, installed = project
    environment.ensure("requirements.txt", "script/server")
    environment.ensure("requirements.txt", "script/server")
    assert installed == ["requirements.txt"]


def test_changed_requirements_are_installed_again(project):
    folder, installed = project
    environment.ensure("requirements-dev.txt", "script/test")
    (folder / "requirements.txt").write_text("one==2\n")
    environment.ensure("requirements-dev.txt", "script/test")
    assert installed == ["requirements-dev.txt"] * 2


def test_runtime_is_part_of_what_tests_need(project):
    _, installed = project
    environment.ensure("requirements-dev.txt", "script/test")
    environment.ensure("requirements.txt", "script/server")
    assert installed == ["requirements-dev.txt"]


def test_requirements_in_a_folder_name_others_from_where_they_stand(project):
    folder, installed = project
    (folder / "benchmarks").mkdir()
    (folder / "benchmarks" / "requirements.txt").write_text("-r ../requirements.txt\nthree==3\n")
    environment.ensure("requirements-dev.txt", "script/test")
    environment.ensure("benchmarks/requirements.txt", "script/benchmark")
    environment.ensure("benchmarks/requirements.txt", "script/benchmark")
    assert installed == ["requirements-dev.txt", "benchmarks/requirements.txt"]  # the tests' hold none of these
    (folder / "requirements.txt").write_text("one==2\n")
    environment.ensure("benchmarks/requirements.txt", "script/benchmark")
    assert installed[2:] == ["benchmarks/requirements.txt"]


def test_a_benchmark_that_is_no_part_is_refused():
    done = subprocess.run([sys.executable, "script/benchmark", "nothing"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "script/benchmark: 'nothing' is no part; "
        "the parts are recording, soak, ingest, answers, time_answers, history, pages, subscribers, verdicts.\n"
    )
