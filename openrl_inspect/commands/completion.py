"""`openrl-inspect completion`: what a shell needs to complete commands, options and ids."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_OPENRL_INSPECT_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what SHELL needs to complete commands, options and ids.

    \b
    bash:  openrl-inspect completion bash > ~/.local/share/bash-completion/completions/openrl-inspect
    zsh:   openrl-inspect completion zsh > "${fpath[1]}/_openrl-inspect"
    fish:  openrl-inspect completion fish > ~/.config/fish/completions/openrl-inspect.fish
    """
    made = get_completion_class(shell)
    assert made is not None  # these three are click's own
    click.echo(made(context.find_root().command, {}, "openrl-inspect", VARIABLE).source())
