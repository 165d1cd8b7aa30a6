"""Many tables frozen as one: what the lake's log says, and what becomes of it."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import singerlake
from singerlake.errors import DamagedError, NotFoundError, UsageError
from singerlake.format import lake_log as format_lake_log
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log import lake_log
from singerlake.ops import freeze as freezing
from singerlake.ops import freeze_lake_plan as freeze_lake
from singerlake.ops.delete_version import delete_version
from singerlake.ops.drop import drop_table
from singerlake.ops.verify import lake as verify_lake
from singerlake.overlay.alter import AlterOptions
from tests.build import commit_rows, resealed
from tests.cli.call import run, run_json
from tests.log.non_conditional import NonConditionalStore
from tests.tap.run import run as run_tap

ID = {"id": {"type": "integer"}}
A, B = TableName("tap", "a"), TableName("tap", "b")


def freeze(lake: Lake, name: TableName, **wanted: Any) -> Any:
    """A version of a table's head, with made-up fingerprints: what is frozen is not of interest."""
    head = lake.table(name).snapshot()
    digits = f"{head.number:064x}"
    return freezing.commit_version(
        lake.store,
        head,
        freezing.plan(head, **wanted),
        rows=head.number,
        fingerprint=f"lt1:{digits}",
        record_fingerprint=f"lt1:{digits}",
    )


def freeze_all(lake: Lake, label: str | None = None) -> Any:
    """A lake version of all tables, which have their versions."""
    wanted = freeze_lake.plan(lake.store, lake.tables, label=label)
    assert wanted.missing == []
    return freeze_lake.commit_lake_version(lake.store, wanted, {})


@pytest.fixture
def tables(lake: Lake) -> Lake:
    """Two tables with a version each."""
    for name in (A, B):
        commit_rows(lake, str(name), ID, ["id"], [{"id": 1}])
        freeze(lake, name)
    return lake


def test_what_a_lake_version_says(tables: Lake) -> None:
    commit_rows(tables, "tap.b", ID, ["id"], [{"id": 2}])
    freeze(tables, B)
    first = freeze_all(tables, "2026-q3")
    assert (first.number, first.label, first.rows) == (1, "2026-q3", 1 + 3)
    said = [(t.name, t.head, t.version, t.transaction) for t in first.tables]
    assert said == [(A, 2, 1, 1), (B, 4, 2, 3)]
    assert freeze_all(tables).previous == first.hash
    assert tables.lake_versions()[0] == tables.lake_version("2026-q3") == tables.lake_version(1)
    with pytest.raises(NotFoundError, match="there is no lake version '9': it has 2, 1 "):
        tables.lake_version(9)


def test_the_fingerprint_is_one_that_anybody_can_compute(tables: Lake) -> None:
    version = freeze_all(tables)
    document = json.loads(Path(tables.store.uri, "versions/000000000001.json").read_bytes())
    lines = sorted(
        f"{t['tap']}/{t['stream']} {t['version']} {t['fingerprint']} {t['record_fingerprint']}\n"
        for t in document["tables"]
    )
    assert version.fingerprint == f"lv1:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"
    for other in ({"version": 2}, {"stream": "c"}, {"fingerprint": "lt1:0"}, {"tap": "other"}):
        changed = [{**document["tables"][0], **other}, *document["tables"][1:]]
        rows = [format_lake_log.LakeTable(**one) for one in changed]
        assert format_lake_log.fingerprint(rows) != version.fingerprint, other
        assert format_lake_log.fingerprint(rows[::-1]) == format_lake_log.fingerprint(rows)


def test_only_a_table_that_moved_needs_a_version(tables: Lake) -> None:
    commit_rows(tables, "tap.b", ID, ["id"], [{"id": 2}])
    wanted = freeze_lake.plan(tables.store, tables.tables)
    assert wanted.missing == [B]
    assert wanted.found[A].number == 1
    # A run that died after this leaves the version; the next one finds it.
    freeze(tables, B)
    wanted = freeze_lake.plan(tables.store, tables.tables)
    assert {name: one.number for name, one in wanted.found.items()} == {A: 1, B: 2}
    assert tables.lake_versions() == []


def test_a_version_that_proves_less_is_not_used(lake: Lake) -> None:
    head = commit_rows(lake, "tap.a", ID, ["id"], [{"id": 1}])
    freezing.commit_version(lake.store, head, freezing.plan(head), rows=1, fingerprint="0" * 32)
    assert freeze_lake.plan(lake.store, lake.tables).missing == [A]
    freezing.commit_version(
        lake.store,
        lake.table(A).snapshot(),
        freezing.plan(head),
        rows=1,
        fingerprint="lt1:0",
        violations=["paid"],
    )
    assert freeze_lake.plan(lake.store, lake.tables).missing == [A]
    marked = freeze_lake.plan(lake.store, lake.tables, allow_violations=True)
    assert marked.found[A].number == 2


def test_what_is_left_out_and_what_is_refused(tables: Lake) -> None:
    drop_table(tables.store, tables.table(B).snapshot(), AlterOptions(), with_versions=True)
    (Path(tables.store.uri) / "raw/tap/begun").mkdir()
    assert [one.name for one in freeze_all(tables, "q3").tables] == [A]
    with pytest.raises(NotFoundError, match=r"tap\.b was dropped"):
        freeze_lake.plan(tables.store, tables.tables, named=[B])
    with pytest.raises(NotFoundError, match="no table to freeze"):
        freeze_lake.plan(tables.store, list)
    with pytest.raises(UsageError, match="lake version 1 has the label 'q3' already"):
        freeze_lake.plan(tables.store, tables.tables, label="q3")
    with pytest.raises(UsageError, match="looks like a version's number"):
        freeze_lake.plan(tables.store, tables.tables, label="3")


def test_two_at_once(tables: Lake) -> None:
    """Both get a number of their own; of two with one label the second gets none."""
    first, second, third = (
        freeze_lake.plan(tables.store, tables.tables, label=label) for label in ("x", None, "x")
    )
    done = [freeze_lake.commit_lake_version(tables.store, one, {}) for one in (first, second)]
    assert [one.number for one in done] == [1, 2]
    with pytest.raises(UsageError, match="lake version 1 has the label 'x'"):
        freeze_lake.commit_lake_version(tables.store, third, {})


def test_of_two_that_freeze_one_state_at_once_the_second_takes_the_firsts_version(
    lake: Lake,
) -> None:
    head = commit_rows(lake, "tap.a", ID, ["id"], [{"id": 1}])
    wanted = freeze_lake.plan(lake.store, lake.tables)
    assert wanted.missing == [A]
    first = freeze(lake, A)
    taken = freezing.commit_version(
        lake.store,
        head,  # as the second saw it before the first committed
        freezing.plan(head),
        rows=1,
        fingerprint="lt1:1",
        instead=lambda head: freeze_lake.version_at_cut(head, wanted.cut, allow_violations=False),
    )
    assert taken == first
    assert lake.table(A).snapshot().frozen == [first]


def test_on_a_store_that_ignores_conditions(tmp_path: Path, tables: Lake) -> None:
    root = Path(tables.store.uri)
    lake = Lake(NonConditionalStore(root, settle=0.05))
    wanted = freeze_lake.plan(lake.store, lake.tables)
    numbers = [freeze_lake.commit_lake_version(lake.store, wanted, {}).number for _ in range(2)]
    assert numbers == [1, 2]
    lagging = NonConditionalStore(root, lag=60)
    assert list(lagging.list("versions/")) == []
    assert [one.number for one in lake_log.read(lagging)] == [1, 2]


def test_entries_that_are_damaged_lost_or_exchanged(tables: Lake) -> None:
    for _ in range(3):
        freeze_all(tables)
    first, second = (Path(tables.store.uri, f"versions/{n:012d}.json") for n in (1, 2))
    data, document = second.read_bytes(), json.loads(second.read_bytes())
    for bad in (
        data.replace(b'"rows": 1', b'"rows": 2'),
        data[:-40],
        b"",
        first.read_bytes(),
        resealed({**document, "comment": "another"}),
        resealed({**document, "tables": document["tables"][:1] * 2}),
        resealed({**document, "more": 1}),
        None,
    ):
        second.unlink()
        if bad is not None:
            second.write_bytes(bad)
        with pytest.raises(DamagedError):
            tables.lake_versions()
        assert verify_lake.check_lake_log(tables.store).problems, bad
        second.write_bytes(data)
    assert verify_lake.check_lake_log(tables.store).problems == []


def test_the_others_are_read_beside_one_that_is_damaged_or_lost(tables: Lake) -> None:
    third = [freeze_all(tables, label) for label in ("q1", "q2", "q3")][2]
    path = Path(tables.store.uri, "versions/000000000002.json")
    for harm in (lambda: path.write_bytes(path.read_bytes()[:-9]), path.unlink):
        harm()
        assert tables.lake_version(3) == tables.lake_version("q3") == third
        for name in (2, "q2"):
            with pytest.raises((DamagedError, NotFoundError), match=r"000000000002\.json"):
                tables.lake_version(name)
        result = run(tables, "--output", "json", "versions")
        assert (result.exit_code, [one["number"] for one in json.loads(result.stdout)]) == (
            5,
            [1, 3],
        )
        assert "000000000002.json" in result.stderr
        with pytest.raises(DamagedError):  # nothing is added to it, or copied
            tables.lake_versions()
        with pytest.raises(DamagedError):
            freeze_all(tables)


def test_what_became_of_a_lake_versions_tables(tables: Lake) -> None:
    freeze_all(tables, "q3")
    delete_version(tables.store, tables.table(A).snapshot(), "1", "a person left")
    result = run(tables, "drop", "tap.b", "--with-versions", "--yes")
    assert "lake version 1 (q3) loses tap.b, and keeps its other tables" in result.stderr
    shown = " ".join(run(tables, "versions", "--lake-version", "q3").stdout.split())
    assert "tap.a cannot be read any more: version 1 of tap.a was deleted by" in shown
    assert "tap.b cannot be read any more: version 1 of tap.b went with the table" in shown
    first, second = run_json(tables, "versions", "--lake-version", "q3")["tables"]
    assert "a person left" in first["gone"]
    assert "which was dropped (transaction 3" in second["gone"]


def test_a_difference_tells_of_tables_that_are_gone_and_shows_the_rest(tables: Lake) -> None:
    freeze_all(tables, "q2")
    commit_rows(tables, "tap.a", ID, ["id"], [{"id": 2}])
    freeze(tables, A)
    freeze_all(tables, "q3")
    delete_version(tables.store, tables.table(A).snapshot(), "1", "a person left")
    result = run(tables, "--output", "json", "diff", "--lake-versions", "q2", "q3")
    first, second = json.loads(result.stdout)["tables"]
    assert (result.exit_code, first["added"], second["unchanged"]) == (3, None, 1)
    assert "a person left" in result.stderr


def test_strays_among_lake_versions(tables: Lake) -> None:
    version = freeze_all(tables)
    folder = Path(tables.store.uri, "versions")
    for name in ("2.json", "notes.txt", "000000000002.json~"):
        (folder / name).write_bytes(b"{}")
    assert tables.lake_versions() == [version]
    assert verify_lake.check_lake_log(tables.store).problems == []
    (folder / "999999999999.json").write_bytes(b"{}")  # of which nobody reads all before
    with pytest.raises(DamagedError, match=r"000000000002\.json is lost"):
        tables.lake_versions()
    assert len(verify_lake.check_lake_log(tables.store).problems) == 2


def test_verify_holds_it_against_the_tables_logs(tables: Lake) -> None:
    version = freeze_all(tables)
    path = Path(tables.store.uri, "versions/000000000001.json")
    document = json.loads(path.read_bytes())
    for table, words in (
        ({"rows": 7}, "rows 7"),
        ({"version": 9}, "no such version"),
        ({"stream": "gone"}, "no such table"),
        ({"fingerprint": "lt1:1"}, "fingerprint lt1:1"),
    ):
        rows = [{**document["tables"][0], **table}, document["tables"][1]]
        computed = format_lake_log.fingerprint(format_lake_log.LakeTable(**one) for one in rows)
        path.write_bytes(resealed({**document, "tables": rows, "fingerprint": computed}))
        (problem,) = verify_lake.check_lake_log(tables.store).problems
        assert words in str(problem)
    path.write_bytes(resealed({**document, "fingerprint": "lv1:0"}))
    (problem,) = verify_lake.check_lake_log(tables.store).problems
    assert f"expected fingerprint {version.fingerprint}, found lv1:0" in str(problem)


def test_a_table_version_that_it_names_may_be_deleted_and_is_told(tables: Lake) -> None:
    freeze_all(tables, "q3")
    result = run(tables, "versions", "tap.a", "--delete", "1", "--reason", "a person left")
    assert result.exit_code == 0
    assert "lake version 1 (q3) contains it, keeps its other tables" in result.stderr
    report = verify_lake.check_lake_log(tables.store)
    assert report.problems == []
    assert "lake version 1 (q3): version 1 of tap.a was deleted by " in report.notes[0]
    assert tables.lake_version("q3").table(A) is not None  # what it was is still told
    assert [one.number for one in lake_log.naming(tables.lake_versions(), B, 1)] == [1]
    delete_version(tables.store, tables.table(B).snapshot(), "1", "another")
    assert freeze_lake.plan(tables.store, tables.tables).missing == [A, B]


def test_the_commands_that_read_metadata(tables: Lake) -> None:
    assert run_json(tables, "versions") == []
    text = run(tables, "versions").stdout
    assert text == (
        "the lake has no lake versions; to create one: singerlake freeze --all\nto list a table's "
        "versions: singerlake versions TABLE\n"
    )
    done = run_json(tables, "freeze", "--all", "--label", "q3", "--comment", "as reported")
    assert [(one["table"], one["new"]) for one in done["tables"]] == [
        ("tap.a", False),
        ("tap.b", False),
    ]
    assert "previous" not in done["lake_version"]
    assert done["lake_version"] == run_json(tables, "versions", "--lake-version", "q3")
    assert [done["lake_version"]] == run_json(tables, "versions")
    shown = run(tables, "versions").stdout
    assert "q3" in shown and "as reported" in shown
    assert "tap.b" in run(tables, "versions", "--lake-version", "1").stdout
    text = run(tables, "freeze", "tap").stdout
    assert "tap.a version 1: 1 row" in text and "; it already existed\n" in text
    assert "lake version 1 (q3): 2 tables, 2 rows, cut at 20" in text
    again = run_json(tables, "freeze", "tap.b", "tap.a", "--again")
    assert (again["lake_version"]["number"], again["new"]) == (2, True)
    assert tables.lake_versions()[1].fingerprint == tables.lake_versions()[0].fingerprint


def test_freezing_unchanged_tables_again_is_the_lake_version_that_was_there(tables: Lake) -> None:
    assert run_json(tables, "freeze", "--all", "--label", "q3", "--comment", "x")["new"]
    for options in ((), ("--label", "q3"), ("--comment", "y")):
        result = run(tables, "freeze", "--all", *options)
        assert "lake version 1 (q3): " in result.stdout
        assert result.stdout.endswith("; it already existed\n")
        assert ("the comment was ignored," in result.stderr) == ("y" in options)
    assert len(tables.lake_versions()) == 1
    refused = run(tables, "freeze", "--all", "--label", "q3", "--again")
    assert (refused.exit_code, "has the label 'q3' already" in refused.stderr) == (2, True)
    assert run_json(tables, "freeze", "--all", "--label", "q4")["lake_version"]["number"] == 2
    assert run_json(tables, "freeze", "--all", "--label", "q3")["lake_version"]["number"] == 1
    assert run_json(tables, "freeze", "tap.a", "tap.a", "tap")["new"] is False
    commit_rows(tables, "tap.a", ID, ["id"], [{"id": 7}])
    freeze(tables, A)
    refused = run(tables, "freeze", "--all", "--label", "q3")  # of another state
    assert (refused.exit_code, "has the label 'q3' already" in refused.stderr) == (2, True)
    lake = singerlake.open(tables.store.uri)
    assert [lake.freeze().number, lake.freeze().number, lake.freeze(again=True).number] == [3, 3, 4]


def test_programs_hold_a_lake_version(tables: Lake) -> None:
    freeze_all(tables, "q3")
    lake = singerlake.open(tables.store.uri)
    state = lake.at("q3")
    assert (list(state), len(state), state.tables) == ([A, B], 2, [A, B])
    assert "tap.a" in state and B in state and "tap.c" not in state and 3 not in state
    for wrong in (lambda: state[3], lambda: lake.freeze(7), lambda: lake["tap.a"].freeze(7)):
        with pytest.raises(UsageError, match="is not a table|is not text"):
            wrong()
    with pytest.raises(UsageError, match="the list of tables is empty"):
        lake.freeze("q4", tables=[])
    drop_table(tables.store, tables.table(B).snapshot(), AlterOptions(), with_versions=True)
    with pytest.raises(NotFoundError, match=r"tap\.b was dropped \(transaction 3"):
        state["tap.b"]
    commit_rows(tables, "tap.b", ID, ["id"], [{"id": 1}])  # another of its name
    with pytest.raises(NotFoundError, match=r"went with the table, which was dropped \(transact"):
        state["tap.b"]


def test_what_is_asked_wrongly(tables: Lake) -> None:
    for args, code, words in (
        (["freeze"], 2, "or use --all"),
        (["freeze", "--all", "tap.a"], 2, "or use --all"),
        (["freeze", "tab"], 2, "'tab' is not a tap of the lake"),
        (["freeze", "tap.a", "tap.c"], 3, "no table tap.c"),
        (["freeze", "tap.a", "tap.b.1"], 2, "tap.b.1 is a version"),
        (["freeze", "--all", "--transaction", "1"], 2, "--transaction needs a single table"),
        (["freeze", "--all", "--time", "2026-10-01"], 2, "--time needs a single table"),
        (["freeze", "--all", "--publish"], 2, "--publish needs a single table"),
        (["freeze", "--all", "--label", "7"], 2, "looks like a version's number"),
        (["versions", "--lake-version", "q9"], 3, "there is no lake version 'q9'"),
        (["versions", "tap.a", "--lake-version", "1"], 2, "leave the TABLE out"),
        (["versions", "--delete", "1"], 2, "lake versions cannot be deleted"),
        (["versions", "--lake-version", "1", "--delete", "1"], 2, "cannot be deleted"),
        (["verify", "--all", "--lake-version", "1"], 2, "or give a --lake-version"),
        (["verify", "--lake-version", "9"], 3, "there is no lake version '9'"),
    ):
        result = run(tables, *args)
        assert (result.exit_code, words in result.stderr) == (code, True), (args, result.stderr)


def test_the_tap_reads_each_table_at_its_version(tables: Lake) -> None:
    freeze_all(tables, "q3")
    commit_rows(tables, "tap.a", ID, ["id"], [{"id": 2}])
    commit_rows(tables, "tap.c", ID, ["id"], [{"id": 3}])
    for name in ("q3", "1", 1):
        done = run_tap(tables, lake_version=name)
        assert [done.records(stream) for stream in "abc"] == [[{"id": 1}], [{"id": 1}], []]
    assert run_tap(tables, lake_version="q3", streams=["b"]).records() == [{"id": 1}]
    with pytest.raises(NotFoundError, match=r"lake version 1 \(q3\) has no table tap\.c"):
        run_tap(tables, lake_version="q3", streams=["a", "c"])
    with pytest.raises(NotFoundError, match="has none of the streams"):
        run_tap(tables, lake_version="q3", streams=["c*"])
    with pytest.raises(NotFoundError, match="there is no lake version 'q4'"):
        run_tap(tables, lake_version="q4")
    for empty in ({"lake_version": ""}, {"table_version": " "}):
        with pytest.raises(UsageError, match="_version is empty: give a number or a label"):
            run_tap(tables, **empty)
    with pytest.raises(UsageError, match="exclude each other"):
        run_tap(tables, lake_version="q3", table_version=1)
    delete_version(tables.store, tables.table(B).snapshot(), "1", "a person left")
    with pytest.raises(NotFoundError, match="a person left; .* name the others in streams"):
        run_tap(tables, lake_version="q3")
    drop_table(tables.store, tables.table(B).snapshot(), AlterOptions(), with_versions=True)
    with pytest.raises(NotFoundError, match="was dropped.* name the others in streams"):
        run_tap(tables, lake_version="q3")
    shutil.rmtree(Path(tables.store.uri, "raw/tap/b"))
    with pytest.raises(NotFoundError, match=r"q3\) has tap\.b, which is missing from the lake; "):
        run_tap(tables, lake_version="q3")
    assert run_tap(tables, lake_version="q3", streams=["a"]).records() == [{"id": 1}]
