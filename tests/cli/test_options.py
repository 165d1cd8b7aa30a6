"""Options of commands and those that all of them take do not get in each other's way."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from singerlake.lake import Lake
from singerlake_cli.main import COMMANDS, cli
from tests.build import commit_rows


def is_choice(parameter: click.Parameter) -> bool:
    """Whether it is one of several flags for the same thing."""
    return isinstance(parameter, click.Option) and isinstance(parameter.flag_value, str)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_two_options_share_a_name(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    names = [parameter.name for parameter in command.params if not is_choice(parameter)]
    assert sorted(names, key=str) == sorted(set(names), key=str)
    choices = {parameter.name for parameter in command.params if is_choice(parameter)}
    assert not choices.intersection(names)


SEVERAL_KINDS = {
    "--columns": "names of columns, and for create-table types too",
    "--delete": "a version, or whether to delete the published files",
    "--format": "formats of rows, of pages, of annotations, of paths",
    "--if-transaction": "a transaction, for query also of each table",
    "--key": "rows by their ids, columns that are to be the key, or for sign a file",
    "--out": "a file, for docs a folder or a bucket, for sign a folder",
    "--to": "revert: to a version; publish: to a place",
}
"""Options that take values of several kinds, and which these are."""


def options_of(command: click.Command) -> Iterator[click.Option]:
    yield from (one for one in command.params if isinstance(one, click.Option))
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from options_of(inner)


def kind_of(option: click.Option) -> object:
    """What its value is, as help shows it."""
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    return option.is_flag or option.metavar or tuple(choices) or option.type.name


def test_an_option_takes_values_of_one_kind_in_all_commands() -> None:
    kinds = defaultdict(set)
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        for option in options_of(command):
            for text in option.opts:
                kinds[text].add(kind_of(option))
    assert {text for text, found in kinds.items() if len(found) > 1} == SEVERAL_KINDS.keys()


WHY = {"--dry-run", "--comment", "--metadata"}
"""What a change of any kind takes."""
FROZEN = {"--new-version", "--label"}
"""And where rows are left that can be a version."""


@pytest.mark.parametrize(
    ("name", "wanted", "senseless"),
    [
        ("upload", {*WHY, *FROZEN, "--if-transaction"}, set()),
        ("update", {*WHY, *FROZEN, "--if-transaction"}, set()),
        ("delete", {*WHY, *FROZEN, "--if-transaction"}, set()),
        ("alter", {*WHY, *FROZEN, "--if-transaction"}, set()),
        ("create-table", {*WHY, *FROZEN}, {"--if-transaction"}),  # no table has a transaction yet
        ("drop", {*WHY, "--if-transaction"}, FROZEN),  # nothing is left
        ("undrop", {*WHY, "--if-transaction"}, FROZEN),  # its versions come back with it
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


ADD = ["add-column", "region", "string", "--dry-run"]


@pytest.mark.parametrize(
    "words",
    [
        ["--lake", "LAKE", "--output", "json", "alter", "tap.s", *ADD],
        ["alter", "--lake", "LAKE", "--output", "json", "tap.s", *ADD],
        ["alter", "--lake=LAKE", "tap.s", "--output=json", *ADD],
        ["alter", "tap.s", "--lake", "LAKE", *ADD, "--output", "json"],
        ["alter", "tap.s", *ADD, "--output", "json", "--lake", "LAKE"],
    ],
)
def test_shared_options_stand_anywhere_among_subcommands(words: list[str], lake: Lake) -> None:
    commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    given = [word.replace("LAKE", lake.store.uri) for word in words]
    result = CliRunner().invoke(cli, given)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["table"] == "tap.s"
