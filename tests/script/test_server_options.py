"""What `script/server` takes and refuses before anything is installed."""

import pytest
import server_options


def test_defaults_serve_this_machine_with_a_fleet():
    options = server_options.parse([])
    assert (options.host, options.port) == ("127.0.0.1", 8000)
    assert not options.no_fleet
    assert options.fleet_args == []


def test_fleet_arguments_are_split_as_in_a_shell():
    assert server_options.parse(["--fleet-args", "--rate 3 --name 'a b'"]).fleet_args == [
        "--rate",
        "3",
        "--name",
        "a b",
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "0"], "'0' must be a whole number from 1 to 65535"),
        (["--port", "web"], "'web' must be a whole number from 1 to 65535"),
        (["--fleet-args", "'"], "must be words as in a shell"),
        (["--no-fleet", "--fleet-only"], "not allowed with"),
        (["--reset", "--fleet-only"], "not allowed with --fleet-only"),
    ],
)
def test_wrong_option_is_refused_by_value_and_rule(arguments, said, capsys):
    with pytest.raises(SystemExit, match="2"):
        server_options.parse(arguments)
    assert said in capsys.readouterr().err
