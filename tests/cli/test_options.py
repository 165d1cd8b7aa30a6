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


WHY = {"--dry-run", "--comment", "--metadata"}
"""What a change of any kind takes."""
FROZEN = {"--new-version", "--label"}
"""And where rows are left that can be a version."""


@pytest.mark.parametrize(
    ("name", "wanted", "senseless"),
    [
        ("upload", {*WHY, *FROZEN, "--etag"}, set()),
        ("update", {*WHY, *FROZEN, "--etag"}, set()),
        ("delete", {*WHY, *FROZEN, "--etag"}, set()),
        ("alter", {*WHY, *FROZEN, "--etag"}, set()),
        ("create-table", {*WHY, *FROZEN}, {"--etag"}),  # there is no table to be at a transaction
        ("drop", {*WHY, "--etag"}, FROZEN),  # nothing is left
        ("undrop", {*WHY, "--etag"}, FROZEN),  # its versions come back with it
    ],
)
def test_all_that_changes_a_table_takes_the_same_options(
    name: str, wanted: set[str], senseless: set[str]
) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    ones = command.commands.values() if isinstance(command, click.Group) else [command]
    for one in ones:
        options = {text for parameter in one.params for text in parameter.opts}
        assert options >= wanted, one.name
        assert options.isdisjoint(senseless), one.name
