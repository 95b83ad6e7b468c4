"""`openrl-inspect`: its commands by name. Each is in a module of its own below `commands/`."""

from __future__ import annotations

import click

from openrl_inspect import __version__
from openrl_inspect.commands.agents import mcp
from openrl_inspect.commands.completion import completion
from openrl_inspect.commands.export import export
from openrl_inspect.commands.failures import failures
from openrl_inspect.commands.fleet import fleet
from openrl_inspect.commands.login import login
from openrl_inspect.commands.run import run
from openrl_inspect.commands.runs import runs
from openrl_inspect.commands.steps import steps
from openrl_inspect.commands.stuck import stuck
from openrl_inspect.commands.watch import watch
from openrl_inspect.commands.workers import worker, workers

EPILOG = "Exit status: 0; 1 trouble with --check; 2 wrong use; 3 no such run or worker; 4 not signed in; 5 no answer."


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="openrl-inspect")
def program() -> None:
    """What a fleet of RL trainers and samplers does, and why a run is not moving.

    Tables on a terminal, JSON into a pipe. RUN and WORKER may be any part of an id that only one has.
    """


for command in (runs, run, steps, failures, stuck, workers, worker, fleet, watch, export, login, mcp, completion):
    program.add_command(command)
