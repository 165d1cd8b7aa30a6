"""history: by operation, with run ids; and what show says of columns in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from singerlake.format.log import Operation
from singerlake.lake import Lake
from singerlake.log import commit as commits
from singerlake.ops import freeze as freezes
from singerlake_cli.commands.history import OPERATIONS
from singerlake_cli.main import cli
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.cli.terminal import COLUMNS, on_a_terminal
from tests.ops.vacuum.test_combine import combine

TABLE = "tap-shop.orders"
ID = {"id": {"type": "integer"}}
FORMAT = Path(__file__).parents[2] / "docs" / "internals" / "format.md"


@pytest.fixture
def vacuumed(lake: Lake) -> Lake:
    """Two syncs, one of them of a known run, and a vacuum's entry."""
    commit_rows(lake, TABLE, ID, ["id"], [{"id": 1}], metadata={"run_id": "nightly-7"})
    commit_rows(lake, TABLE, ID, ["id"], [{"id": 2}], metadata={"why": "by hand"})
    combine(lake.find(TABLE)[0], 1 << 20)
    return lake


def operations(lake: Lake, *args: str) -> list[tuple[int, str]]:
    found = run_json(lake, "history", TABLE, *args)
    return [(entry["number"], entry["operation"]) for entry in found]


def test_only_the_operations_asked_for(vacuumed: Lake) -> None:
    assert operations(vacuumed) == [(3, "combine"), (2, "sync"), (1, "sync")]
    assert operations(vacuumed, "--operation", "sync") == [(2, "sync"), (1, "sync")]
    assert operations(vacuumed, "--operation", "combine") == [(3, "combine")]
    assert operations(vacuumed, "--operation", "vacuum") == []
    both = ("--operation", "combine", "--operation", "sync")
    assert operations(vacuumed, *both) == operations(vacuumed)


def test_the_limit_counts_what_is_shown(vacuumed: Lake) -> None:
    args = ("--operation", "sync", "--limit", "1")
    assert operations(vacuumed, *args) == [(2, "sync")]
    text = run(vacuumed, "history", TABLE, *args).stdout
    assert "1 older: --limit" in text
    assert "combine" not in text


def test_an_operation_that_never_was_and_one_that_is_none(vacuumed: Lake) -> None:
    result = run(vacuumed, "history", TABLE, "--operation", "revert")
    assert result.exit_code == 0
    assert "no transaction of 3 is of operation revert" in result.stdout
    result = run(vacuumed, "history", TABLE, "--operation", "synk")
    assert result.exit_code == 2
    assert "'sync'" in result.stderr


def test_operations_are_those_of_the_format() -> None:
    text = FORMAT.read_text(encoding="utf-8").partition("### Operations")[2]
    rows = re.findall(r"^\| `([a-z-]+)` \|", text.partition("\n#### ")[0], re.MULTILINE)
    assert sorted(rows) == sorted(OPERATIONS)


def test_run_ids_are_shown_where_one_is_known(vacuumed: Lake) -> None:
    found = run_json(vacuumed, "history", TABLE)
    assert [entry["run_id"] for entry in found] == [None, None, "nightly-7"]
    assert "nightly-7" in run(vacuumed, "history", TABLE).stdout
    text = run(vacuumed, "history", TABLE, "--limit", "2").stdout
    assert " run" not in text.splitlines()[2]


def test_who_made_a_transaction_and_why(lake: Lake) -> None:
    head = commit_rows(lake, TABLE, ID, ["id"], [{"id": 1}])
    assert " by" not in run(lake, "history", TABLE).stdout
    wanted = freezes.plan(head, label="q3", comment="for the board")
    freezes.commit_version(lake.store, head, wanted, rows=1, fingerprint="x")
    run_json(lake, "alter", TABLE, "describe", "id", "the number", "--comment", "asked for twice")
    draft = commits.draft_entry(
        head.table, Operation.REVERT, writer="w", metadata={"reverted_to": 1}
    )
    commits.commit(lake.store, lake.find(TABLE)[0].snapshot(), lambda _: draft)
    found = run_json(lake, "history", TABLE)
    me = commits.current_user()
    assert [(one["by"], one["comment"]) for one in found] == [
        (None, None),
        (me, "asked for twice"),
        (me, "for the board"),
        (None, None),
    ]
    args = ["--lake", lake.store.uri, "history", TABLE]
    for width in COLUMNS:
        shown = on_a_terminal(width, lambda: cli.main(args=args, standalone_mode=False))
        for words in ("back to", "twice", "board", "described"):
            assert words in shown
        assert (f" {me} " in shown) is (width > 60)


def test_a_refresh_says_what_it_was_computed_of(lake: Lake) -> None:
    sources = [{"table": "a.b", "transaction": 7}, {"table": "a.c", "transaction": 3, "version": 2}]
    for said in (sources, [], "x", [1]):
        metadata = {"projection": "open", "definition": "0", "sources": said}
        commit_rows(lake, TABLE, ID, ["id"], [{"id": 1}], metadata=metadata)
    lines = run(lake, "history", TABLE).stdout.splitlines()
    assert [line.split("–")[-1].strip() for line in lines if " sync " in line] == [
        "open of nothing",
        "",
        "open of nothing",
        "open of a.b @7, a.c.2",
    ]


def test_a_damaged_entry_hides_no_history_from_people(vacuumed: Lake) -> None:
    table, _ = vacuumed.find(TABLE)
    vacuumed.store.replace(table.name.transaction(1), b"{", None)
    result = run(vacuumed, "history", TABLE)
    assert result.exit_code == 0, result.output
    assert len(re.findall(r"\bsync\b", result.stdout)) == 2
    assert run(vacuumed, "--output", "json", "history", TABLE).exit_code == 5


def test_show_has_descriptions_of_the_table_and_its_columns(lake: Lake) -> None:
    properties = {
        "id": {"type": "integer", "description": "The number on the invoice"},
        "place": {"$ref": "#/properties/address"},
        "address": {"type": "object", "description": "Where it\x1b[2J went"},
        "odd": {"type": "string", "description": 7},
        "plain": {"type": "string"},
    }
    commit_rows(lake, TABLE, properties, ["id"], [{"id": 1}])
    text = run(lake, "show", TABLE).stdout
    assert re.search(r"^ id +integer +key +The number on the invoice$", text, re.MULTILINE)
    assert text.count("Where it\\x1b[2J went") == 2
    assert re.search(r"^ plain +string +–$", text, re.MULTILINE)
    assert run_json(lake, "show", TABLE)["schema"]["properties"]["id"] == properties["id"]


def test_show_of_a_schema_without_words_has_no_column_for_them(lake: Lake) -> None:
    commit_rows(lake, TABLE, ID, ["id"], [{"id": 1}])
    text = run(lake, "show", TABLE).stdout
    assert "description" not in text
    assert "1 record in 1 block, 1 file, " in text
