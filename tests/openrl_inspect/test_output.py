"""What leaves the command line: nothing that a terminal would obey, whatever a worker calls a run."""

from __future__ import annotations

import json

import pytest

from openrl_inspect.asking import with_errors_told
from openrl_inspect.exceptions import AmbiguousIdError
from openrl_inspect.output import Output

HOSTILE = "run\x1b]0;title\x07\x9b31m\u202egpj"


def test_json_on_a_terminal_steers_nothing_and_reads_the_same(capsys):
    Output(is_json=True).line({"run_id": HOSTILE, "name": "Zoë 学習"})
    [written] = capsys.readouterr().out.splitlines()
    assert written.isprintable()
    assert "Zoë 学習" in written
    assert json.loads(written)["run_id"] == HOSTILE


def test_an_error_steers_nothing(capsys):
    def call():
        raise AmbiguousIdError(f"2 runs have it:\n  {HOSTILE}\n  run-b")

    with pytest.raises(SystemExit):
        with_errors_told(call)
    told = capsys.readouterr().err.splitlines()
    assert told == ["openrl-inspect: 2 runs have it:", "  run·]0;title··31m·gpj", "  run-b"]
