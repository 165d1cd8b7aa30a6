"""Sphinx's directive ``commands``: what ``--help`` of each command says, when the site is made."""

from __future__ import annotations

from typing import Any

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from singerlake_cli.main import COMMANDS, cli
from tap_singerlake.tap import TapSingerlake
from target_singerlake.target import TargetSingerlake

WIDTH = 88


def helps() -> dict[str, str]:
    """The texts of ``--help``, by the words that a person types before it."""
    found: dict[str, str] = {}
    root = click.Context(cli, info_name="singerlake", terminal_width=WIDTH, **cli.context_settings)
    found["singerlake"] = cli.get_help(root)
    for name in COMMANDS:
        _add(found, cli, root, name)
    for name, plugin in (
        ("target-singerlake", TargetSingerlake),
        ("tap-singerlake", TapSingerlake),
    ):
        context = click.Context(plugin.cli, info_name=name, terminal_width=WIDTH)
        found[name] = plugin.cli.get_help(context)
    return found


def _add(found: dict[str, str], group: click.Group, above: click.Context, name: str) -> None:
    command = group.get_command(above, name)
    if command is None:
        raise KeyError(name)
    context = click.Context(command, above, info_name=name)
    found[context.command_path] = command.get_help(context)
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            _add(found, command, context, inner)


class Commands(SphinxDirective):
    """A section for each command, under its own anchor."""

    def run(self) -> list[nodes.Node]:
        found: list[nodes.Node] = []
        for path, text in helps().items():
            section = nodes.section(ids=[path.replace(" ", "-")], names=[path])
            section += nodes.title(path, path)
            section += nodes.literal_block(text, text, language="text")
            found.append(section)
        return found


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx of the directive."""
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
