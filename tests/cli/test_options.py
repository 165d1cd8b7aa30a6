"""Options of commands and those that all of them take do not get in each other's way."""

from __future__ import annotations

import click
import pytest

from singerlake_cli.main import COMMANDS, cli


@pytest.mark.parametrize("name", COMMANDS)
def test_no_two_options_share_a_name(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    names = [parameter.name for parameter in command.params]
    assert sorted(names, key=str) == sorted(set(names), key=str)
