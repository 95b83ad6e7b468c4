"""The command line of the fleet: what it takes, and what it refuses with a sentence."""

import pytest

from examples.reference_fleet.options import NthTrouble, OpTrouble, StepTrouble, parse_options
from examples.reference_fleet.runs import RUNS, groups_of, plans_of


def test_defaults_train_every_run_without_an_end():
    options = parse_options([])
    assert options.runs == tuple(RUNS)
    assert options.steps is None
    assert options.ops_per_second == 3.0


def test_full_speed_has_no_pace_and_no_device_time():
    options = parse_options(["--full-speed"])
    assert (options.ops_per_second, options.device_seconds) == (None, 0.0)


def test_redis_is_the_one_of_the_environment(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/7")
    assert parse_options([]).redis_url == "redis://127.0.0.1:1/7"


def test_trouble_names_run_op_and_count():
    options = parse_options(
        [
            *("--fail-op", "digits-classifier:forward:2"),
            *("--kill-trainer", "cartpole-policy:3"),
            *("--hang-sampler", "0"),
            *("--lose-sample", "cartpole-policy:4"),
        ]
    )
    assert options.fail_op == OpTrouble("digits-classifier", "forward", 2)
    assert options.kill_trainer == StepTrouble("cartpole-policy", 3)
    assert options.hang_sampler == 0
    assert options.lose_sample == NthTrouble("cartpole-policy", 4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--runs", "nope"], "no run is called 'nope'"),
        (["--runs", ","], "at least one run"),
        (["--steps", "0"], "'0' is not a whole number above 0"),
        (["--ops-per-second", "-1"], "'-1' is not a number above 0"),
        (["--ops-per-second", "nan"], "'nan' is not a number above 0"),
        (["--fail-op", "digits-classifier:forward"], "is not RUN:OP:N"),
        (["--nan-gradient", "digits-classifier"], "'' is not a whole number"),
        (["--kill-trainer", "nope:1"], "no run is called 'nope'"),
        (["--lose-sample", "cartpole-policy:0"], "'0' is not a whole number above 0"),
        (["--send-twice", "nope:1"], "no run is called 'nope'"),
        (["--sample-deadline", "0"], "'0' is not a number above 0"),
    ],
)
def test_bad_value_is_refused_with_the_value_and_the_rule(arguments, sentence, capsys):
    with pytest.raises(SystemExit) as refusal:
        parse_options(arguments)
    assert refusal.value.code == 2
    assert sentence in capsys.readouterr().err


def test_runs_of_a_group_share_a_trainer():
    names = ("digits-classifier", "cartpole-policy", "spirals-classifier")
    assert groups_of(names) == ["classify", "control"]
    assert [plan.name for plan in plans_of(names, group="classify")] == ["digits-classifier", "spirals-classifier"]
