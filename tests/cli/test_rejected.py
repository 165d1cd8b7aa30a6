"""singerlake rejected: lists, replays, exports and discards, as people and programs see them."""

from __future__ import annotations

import json

import pytest

from singerlake.lake import Lake
from tests.cli.call import run, run_json
from tests.ops.rejected.shop import EITHER, NAME, row, sync, totals


@pytest.fixture
def shop(lake: Lake) -> Lake:
    sync(lake, row(1, "secret"), row("x", 3), row(4, 4))
    return lake


def test_list_of_tables(shop: Lake) -> None:
    [found] = run_json(shop, "rejected")
    assert (found["table"], found["lines"], found["reasons"]) == (NAME, 2, 2)
    assert NAME in run(shop, "rejected").stdout


def test_lines_of_no_stream_are_named_as_they_can_be_typed(lake: Lake) -> None:
    sync(lake, b"stray", b"print", row(1, 1))
    [found] = run_json(lake, "rejected")
    name = "tap-test.__rejected"
    assert (found["table"], found["dead_letter_table"]) == (name, name)
    assert name in run(lake, "rejected").stdout
    assert f"{name}: 2 rejected records" in run(lake, "rejected", name).stdout
    assert run_json(lake, "rejected", name)["table"] == name
    discarded = run(lake, "rejected", name, "--discard", "--where", "line = 2")
    assert discarded.stdout == f"{name}: 1 record discarded\n"
    run(lake, "rejected", name, "--discard", "--reason", "*")
    assert f"{name} has no rejected records" in run(lake, "rejected", name).stdout


@pytest.mark.parametrize("name", [NAME, f"{NAME}__rejected"])
def test_list_of_a_table_hides_values(shop: Lake, name: str) -> None:
    shown = run(shop, "rejected", name)
    assert shown.exit_code == 0
    assert "2 rejected records" in shown.stdout
    assert '{"id": integer, "total": string}' in shown.stdout
    assert "secret" not in shown.stdout
    assert "secret" not in run(shop, "--output", "json", "rejected", name).stdout
    assert "secret" in run(shop, "rejected", name, "--values").stdout
    document = run_json(shop, "rejected", name, "--values")
    assert document["lines"] == 2
    assert json.loads(document["sample"][0]["message"])["record"]["total"] == "secret"


def test_replay(shop: Lake) -> None:
    sync(shop, schema=EITHER)
    would = run(shop, "rejected", NAME, "--replay", "--dry-run")
    assert "1 record would be replayed; 1 record stays rejected" in would.stdout
    done = run_json(shop, "rejected", NAME, "--replay", "--comment", "wider")
    assert (done["transaction"], done["replayed"], done["kept"]) == (3, 1, 1)
    assert totals(shop) == {1: "secret", 4: "4"}
    again = run(shop, "rejected", NAME, "--replay")
    assert "no record was replayed; 1 record stays rejected" in again.stdout
    history = run(shop, "history", NAME, "--operation", "replay").stdout
    assert f"records of {NAME}__rejected replayed: wider" in history
    # What runs rejected stays counted; what became of it is counted too.
    metrics = run(shop, "metrics").stdout
    assert 'singerlake_table_rejected_lines{tap="tap-test",stream="a"} 2' in metrics
    assert 'singerlake_table_replayed_records{tap="tap-test",stream="a"} 1' in metrics
    [listed, _] = run_json(shop, "ls")
    assert listed["rejected"] == 2


@pytest.mark.parametrize("back", [["undo", NAME, "3"], ["revert", NAME, "--to-transaction", "2"]])
def test_note_of_an_undone_replay_gives_the_command_that_lists_its_records(
    shop: Lake, back: list[str]
) -> None:
    sync(shop, schema=EITHER)
    run(shop, "rejected", NAME, "--replay")
    done = run(shop, *back)
    assert totals(shop) == {4: "4"}
    [line] = [one for one in done.stderr.splitlines() if "rejected records" in one]
    words = line.partition("run: singerlake ")[2].split()
    assert words == ["undo", f"{NAME}__rejected", "2", "--on-conflict", "keep"]
    assert "1 rejected record" in run(shop, "rejected", NAME).stdout
    assert run(shop, *words).exit_code == 0
    assert "2 rejected records" in run(shop, "rejected", NAME).stdout
    again = run(shop, "rejected", NAME, "--replay")
    assert "1 record replayed; 1 record stays rejected" in again.stdout
    assert totals(shop) == {1: "secret", 4: "4"}


def test_undo_of_a_replay_that_is_listed_by_itself_needs_no_note(
    shop: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(shop, schema=EITHER)
    with monkeypatch.context() as patch:
        patch.setattr("singerlake.ops.rejected.replay.settle", lambda *_: None)
        run(shop, "rejected", NAME, "--replay")
    assert "rejected records" not in run(shop, "undo", NAME, "3").stderr
    assert "2 rejected records" in run(shop, "rejected", NAME).stdout


def test_export_and_discard(shop: Lake) -> None:
    exported = run(shop, "rejected", NAME, "--export", "--reason", "*'total'*").stdout.splitlines()
    assert [json.loads(line)["type"] for line in exported] == ["SCHEMA", "RECORD"]
    assert exported[1].encode() == row(1, "secret")
    would = run(shop, "rejected", NAME, "--discard", "--reason", "*", "--dry-run")
    assert f"{NAME}: 2 records would be discarded" in would.stdout
    assert run_json(shop, "rejected", NAME, "--discard", "--reason", "*")["lines"] == 2
    assert run(shop, "rejected").stdout == "no records are rejected\n"
    assert "has no rejected records" in run(shop, "rejected", NAME).stdout


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (["--replay"], 2, "name the TABLE"),
        ([NAME, "--replay", "--export"], 2, "use one of --replay and --export"),
        ([NAME, "--overwrite"], 2, "--overwrite needs --replay"),
        ([NAME, "--export", "--dry-run"], 2, "need --replay or --discard"),
        ([NAME, "--replay", "--values"], 2, "leave it out"),
        ([NAME, "--discard"], 2, "--reason '*' selects all"),
        ([f"{NAME}.1"], 2, "name the table alone"),
        (["tap-test.nope"], 3, "has no table tap-test.nope"),
        (["tap-test.b"], 3, "no records of tap-test.b were rejected"),
        ([NAME, "--where", "line >", "--engine", "local"], 2, "needs Spark"),
    ],
)
def test_what_is_refused(shop: Lake, args: list[str], code: int, word: str) -> None:
    from tests.build import commit_rows

    commit_rows(shop, "tap-test.b", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    before = [one.key for one in shop.store.list("raw/")]
    found = run(shop, "rejected", *args)
    assert (found.exit_code, word in found.stderr) == (code, True), found.output
    assert [one.key for one in shop.store.list("raw/")] == before
