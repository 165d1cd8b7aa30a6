"""singerlake completion: what a shell needs to complete commands, options and tables."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_SINGERLAKE_COMPLETE"
"""What click asks for completions by, for a program of this name."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for a SHELL.

    \b
    echo 'eval "$(singerlake completion bash)"' >> ~/.bashrc
    echo 'eval "$(singerlake completion zsh)"' >> ~/.zshrc
    singerlake completion fish > ~/.config/fish/completions/singerlake.fish
    """
    kind = get_completion_class(shell)
    if kind is None:  # click.Choice has made sure
        raise click.UsageError(f"click completes nothing in {shell}")
    # Not source(), which starts a bash only to warn of an old one.
    cli = click.get_current_context().find_root().command
    completion = kind(cli, {}, "singerlake", VARIABLE)
    click.echo(completion.source_template % completion.source_vars())
