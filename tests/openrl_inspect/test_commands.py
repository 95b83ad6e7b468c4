"""The commands against a real site: what they tell, as JSON and in a terminal of 80 columns, and how they end."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import time

import pytest

from openrl_inspect.cells import TROUBLE
from tests.openrl_inspect.conftest import BUSY_WORKER, FAILED_ID, GONE_WORKER, HEALTHY, LOST, NEIGHBOUR
from tests.support.records import op
from tests.support.workers import ROOT


def test_runs_are_listed_as_the_api_has_them(answer):
    found = {run["run_id"]: run for run in answer("runs")["results"]}
    assert set(found) >= {HEALTHY, LOST, NEIGHBOUR}
    assert found[LOST]["state"] == "lost"
    assert found[HEALTHY]["steps_completed"] == 30


def test_filters_reach_the_site(answer):
    assert [run["run_id"] for run in answer("runs", "-q", "DIGITS")["results"]] == [HEALTHY]
    assert [run["run_id"] for run in answer("runs", "--state", "lost")["results"]] == [LOST]
    assert LOST not in {run["run_id"] for run in answer("runs", "--active-since", "2m")["results"]}


def test_runs_in_trouble_are_those_in_a_state_of_trouble(answer):
    found = answer("runs", "--trouble")
    assert [run["run_id"] for run in found["results"]] == [LOST]
    assert found["total_matching"] == 1


def test_a_table_fits_80_columns_and_loses_no_row(inspect):
    lines = inspect("runs", columns=80).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["RUN", "STATE", "STEPS", "STEPS/H", "FAILED", "ACTIVE"]
    [row] = [line for line in lines if line.startswith(LOST)]
    assert row.split()[1] == "lost"
    assert row.rstrip().endswith("min")


def test_a_state_is_whole_in_60_columns(inspect):
    lines = inspect("runs", columns=60).stdout.splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[0].split() == ["RUN", "STATE", "STEPS", "ACTIVE"]
    assert all("…" not in line.split()[1] for line in lines[2:])


def test_a_wide_terminal_shows_more(inspect):
    assert "EVIDENCE" in inspect("runs", columns=180).stdout
    assert GONE_WORKER in inspect("runs", columns=180).stdout


def test_on_a_terminal_there_is_colour_and_in_a_pipe_json(site_environment):
    command = [sys.executable, "-m", "openrl_inspect", "runs"]
    ours, theirs = pty.openpty()
    environment = {**site_environment, "TERM": "xterm-256color"}
    piped = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    assert piped.stdout.startswith(b"{")
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=theirs, stdin=theirs) as process:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
    os.close(ours)
    assert process.returncode == 0
    assert b"\x1b[1;31mlost" in shown


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end is closed
        return b""


def test_a_run_is_explained_with_its_evidence_steps_and_failures(inspect):
    text = inspect("run", "digits", columns=100).stdout
    assert text.startswith(HEALTHY)
    assert re.search(r"Where \d+ s of \d steps went", text)
    assert "Newest steps" in text
    assert "OutOfMemoryError" in text


def test_a_lost_run_names_its_worker_and_what_it_held(inspect):
    text = inspect("run", LOST, columns=100).stdout
    assert text.splitlines()[1].startswith("lost for ")
    assert "orphaned" in text
    assert GONE_WORKER in text


def test_an_explanation_as_json_has_each_part(answer):
    found = answer("run", LOST)
    assert {"run", "verdict", "time", "steps", "stuck", "failures"} == set(found)
    assert found["stuck"]["results"][0]["request_ids"] == ["request-x"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("runs", "--check"), 1),
        (("runs", "-q", "digits", "--check"), 0),
        (("run", LOST, "--check"), 1),
        (("run", HEALTHY, "--check"), 0),
        (("stuck", "--check"), 1),
        (("stuck", "--run", HEALTHY, "--check"), 0),
        (("failures", "--check"), 1),
        (("failures", "--run", NEIGHBOUR, "--check"), 0),
        (("workers", "--check"), 1),
        (("worker", GONE_WORKER, "--check"), 1),
        (("fleet", "--check"), 1),
        (("runs", "--trouble", "-q", "x"), 2),
        (("runs", "--state", "unheard-of"), 2),
        (("run", "nobody"), 3),
        (("runs", "--token", "wrong"), 4),
        (("runs", "--url", "http://127.0.0.1:9"), 5),
    ],
)
def test_how_a_command_ends_is_for_scripts(inspect, arguments, status):
    inspect(*arguments, status=status)


@pytest.mark.parametrize("form", ["--table", "--json"])
@pytest.mark.parametrize(("arguments", "status"), [(("runs",), 0), (("runs", "--check"), 1)])
def test_who_reads_no_further_changes_no_status(site_environment, arguments, status, form):
    theirs, ours = os.pipe()
    os.close(theirs)
    command = [sys.executable, "-m", "openrl_inspect", *arguments, form]
    done = subprocess.run(command, cwd=ROOT, env=site_environment, stdout=ours, stderr=subprocess.PIPE, text=True)
    os.close(ours)
    assert (done.returncode, done.stderr) == (status, "")


def test_the_states_of_trouble_are_the_first_of_the_api():
    assert TROUBLE == ("lost", "stuck", "failing", "diverging")


def test_an_id_is_found_by_any_unique_part_and_candidates_are_named(inspect, answer):
    assert answer("run", "neighbour")["run"]["run_id"] == NEIGHBOUR
    refused = inspect("run", "sess", status=3).stderr
    assert LOST in refused
    assert NEIGHBOUR in refused
    assert answer("worker", "gone")["worker"]["worker"] == GONE_WORKER
    assert BUSY_WORKER in inspect("worker", "trainer", status=3).stderr


def test_a_reference_to_a_run_is_taken_as_the_site_takes_it(answer):
    found = answer("run", f"tinker://{LOST}/sampler_weights/000003")
    assert found["run"]["run_id"] == LOST


def test_steps_show_the_metrics_that_are_asked_for(inspect, answer):
    assert [step["step"] for step in answer("steps", "digits", "--last", "3")["results"]] == [27, 28, 29]
    text = inspect("steps", "digits", "--last", "3", "-m", "loss:mean", columns=80).stdout
    assert "0.06667" in text  # 2 / 30


def test_failures_and_stuck_requests_tell_ids_and_reasons(inspect, answer):
    assert [failure["id"] for failure in answer("failures")["results"]] == [FAILED_ID]
    assert "OutOfMemoryError" in inspect("failures", columns=80).stdout
    text = inspect("stuck", columns=80).stdout
    assert "orphaned" in text
    assert f"{GONE_WORKER} is lost" in " ".join(text.split())


def test_workers_and_one_worker(inspect):
    text = inspect("workers", columns=80).stdout
    assert GONE_WORKER in text
    assert "lost" in text
    assert f"runs      {LOST}" in inspect("worker", "gone", columns=80).stdout


def test_the_fleet_is_on_one_page(inspect):
    text = inspect("fleet", columns=80).stdout
    assert re.search(r"^runs +\d+: 1 lost", text)
    assert "1 orphaned" in text
    assert max(map(len, text.splitlines())) <= 80


def test_hostile_ids_steer_no_terminal(site, inspect):
    hostile = "evil\x1b]0;owned\x07[red]"
    site.writer.operations(op(at=time.time() - 3_000, run_id=hostile))
    try:
        assert "evil·]0;owned·[red]" in inspect("runs", "-q", "evil", columns=120).stdout
    finally:
        site.writer.client.zrem("open_rl:runs", hostile)
        site.writer.client.delete(f"open_rl:operations:{hostile}")


def test_completion_offers_the_ids_there_are(site_environment):
    words = {"COMP_WORDS": "openrl-inspect run sess", "COMP_CWORD": "2", "_OPENRL_INSPECT_COMPLETE": "bash_complete"}
    command = [sys.executable, "-m", "openrl_inspect"]
    done = subprocess.run(command, cwd=ROOT, env={**site_environment, **words}, capture_output=True, text=True)
    assert sorted(done.stdout.split()) == [f"plain,{LOST}", f"plain,{NEIGHBOUR}"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(inspect, shell):
    assert "_OPENRL_INSPECT_COMPLETE" in inspect("completion", shell).stdout
