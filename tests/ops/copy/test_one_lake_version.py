"""A lake version is copied alone: its tables at their versions, and the log that proves it."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import DamagedError, NotFoundError
from singerlake.format import sealed
from singerlake.format.names import NOT_COPIED, TableName
from singerlake.lake import Lake
from singerlake.log import not_copied
from singerlake.ops import freeze_lake_plan as freeze_lake
from singerlake.ops.delete_version import delete_version
from singerlake.ops.drop import drop_table
from singerlake.ops.verify.lake import check_lake_log
from singerlake.overlay.alter import AlterOptions
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.faults import plain
from tests.log.non_conditional import NonConditionalStore
from tests.ops.copy import world
from tests.ops.freeze.test_freeze_lake import ID, A, B, freeze
from tests.tap.run import run as run_tap

C = TableName("tap", "c")
ENTRY = "versions/{:012d}.json"


@pytest.fixture
def paper(tmp_path: Path) -> Lake:
    return Lake(LocalStore(tmp_path / "paper"))


@pytest.fixture
def source(lake: Lake) -> Lake:
    """Lake version 1 of a and b, and 2 of a later version of a alone."""
    for name in (A, B):
        more(lake, name, 1)
    freeze_some(lake, "q1", A, B)
    more(lake, A, 2)
    freeze_some(lake, "q2", A)
    return lake


def more(lake: Lake, name: TableName, number: int) -> None:
    commit_rows(lake, str(name), ID, ["id"], [{"id": number}])
    freeze(lake, name)


def freeze_some(lake: Lake, label: str | None, *tables: TableName) -> Any:
    wanted = freeze_lake.plan(lake.store, lambda: {*tables}, label=label)
    assert wanted.missing == []
    return freeze_lake.commit_lake_version(lake.store, wanted, {})


def copied(source: Lake, to: Lake, *more: str, code: int = 0) -> str:
    result = run(source, "copy", source.store.uri, to.store.uri, *more)
    assert result.exit_code == code, result.output
    return str(result.stdout + result.stderr)


def copy_version(source: Lake, to: Lake, name: str, *more: str, code: int = 0) -> str:
    return copied(source, to, "--lake-version", name, *more, code=code)


def dump(lake: Lake) -> plain.Dump:
    return plain.dump_folder(Path(lake.store.uri))


def is_sound(lake: Lake, *notes: str) -> None:
    """What verify finds without Spark: nothing but these notes."""
    report = check_lake_log(lake.store)
    assert (report.problems, report.notes) == ([], [*notes])
    for name in lake.tables():
        assert world.problems(lake.store, str(name)) == []
    assert all("/locks" not in key for key in plain.leftovers(dump(lake)))
    plain.lake_versions(dump(lake))
    said = [
        f"{number} {table}"
        for (number, _), of in plain.not_copied(dump(lake)).items()
        for table in of
    ]
    assert len(said) == len(notes), "nothing is said to be absent that is there"


LEFT_OUT = "lake version 1 (q1) was not copied completely: tap.b left out"


def test_its_tables_its_number_its_label_and_its_fingerprint(source: Lake, paper: Lake) -> None:
    said = copy_version(source, paper, "q2")
    assert said.splitlines() == [
        "tap.a.2 at transaction 4: 4 transactions, 2 files, 448 B copied",
        "lake version 1 (q1): copied, without tap.b",
        "lake version 2 (q2): copied",
        "1 table: 2 files, 448 B copied",
    ]
    assert paper.tables() == [A]
    assert paper.lake_version("q2") == source.lake_version("q2")
    for number in (1, 2):
        key = ENTRY.format(number)
        assert paper.store.get(key).data == source.store.get(key).data
    assert world.log_of(paper.store, "tap.a") == world.log_of(source.store, "tap.a")
    is_sound(paper, LEFT_OUT)
    before = dump(paper)
    assert copy_version(source, paper, "2").splitlines() == [
        "tap.a.2 at transaction 4: up to date",
        "1 table: 0 files, 0 B copied",
    ]
    assert dump(paper) == before


def test_who_asks_for_one_that_was_left_out_is_told(source: Lake, paper: Lake) -> None:
    copy_version(source, paper, "q2")
    words = "was not copied completely: this lake is a copy of others, without tap.b"
    with pytest.raises(NotFoundError, match=words):
        paper.lake_version("q1")
    for command in (
        ("query", "select 1 from tap.a", "--lake-version", "q1"),
        ("diff", "--lake-versions", "1", "2"),
        ("publish", "--lake-version", "1"),
    ):
        assert words in " ".join(run(paper, *command).stderr.split()), command
    with pytest.raises(NotFoundError, match=words):
        run_tap(paper, lake_version="q1")
    listed = run(paper, "versions").stdout
    assert LEFT_OUT in listed
    assert [one.get("not_copied") for one in run_json(paper, "versions")] == [["tap.b"], None]
    shown = run(paper, "versions", "--lake-version", "q1")
    assert shown.exit_code == 0 and LEFT_OUT in shown.stdout
    tables = run_json(paper, "versions", "--lake-version", "q1")["tables"]
    gone = "tap.b at version 1 was not copied to this lake"
    assert [one.get("gone") for one in tables] == [None, gone]


def test_what_was_not_left_out_and_is_gone_is_damage(source: Lake, paper: Lake) -> None:
    copy_version(source, paper, "q2")
    note = Path(paper.store.uri, NOT_COPIED)
    data = note.read_bytes()
    note.unlink()
    [problem] = check_lake_log(paper.store).problems
    assert (problem.where, problem.found) == (f"{ENTRY.format(1)}, tap.b", "no such table")
    note.write_bytes(data.replace(b'"b"', b'"a"'))
    assert check_lake_log(paper.store).problems[0].where == NOT_COPIED
    with pytest.raises(DamagedError, match=f"{NOT_COPIED} is damaged"):
        not_copied.read(paper.store)
    assert paper.lake_version("q1").number == 1, "a damaged note is no reason to refuse it"
    said = copy_version(source, paper, "q2", code=5)
    assert "not-copied.json is damaged" in said
    assert "or delete it, and copy the lake versions" in " ".join(said.split())
    note.write_bytes(data)
    for key in dump(paper):
        if key.startswith("raw/tap/a/"):
            Path(paper.store.uri, key).unlink()
    wheres = [problem.where for problem in check_lake_log(paper.store).problems]
    assert wheres == [f"{ENTRY.format(number)}, tap.a" for number in (1, 2)]


def test_a_lost_note_is_made_up_for_by_what_it_was_about(source: Lake, paper: Lake) -> None:
    copy_version(source, paper, "q2")
    Path(paper.store.uri, NOT_COPIED).unlink()
    assert check_lake_log(paper.store).problems
    copy_version(source, paper, "q1")
    assert check_lake_log(paper.store).problems == []


def test_later_ones_follow_and_fill_what_was_absent(source: Lake, paper: Lake) -> None:
    copy_version(source, paper, "q2")
    more(source, A, 3)
    more(source, C, 1)
    freeze_some(source, "q3", C)
    freeze_some(source, "q4", A, B)
    copy_version(source, paper, "q4")
    assert paper.tables() == [A, B]
    is_sound(paper, "lake version 3 (q3) was not copied completely: tap.c left out")
    assert paper.lake_version("q1") == source.lake_version("q1"), "all its tables came"
    assert copy_version(source, paper, "q3").splitlines()[:1] == [
        "tap.c.1 at transaction 2: 2 transactions, 1 file, 224 B copied"
    ]
    is_sound(paper)
    assert paper.lake_version("q3").label == "q3"


def test_the_whole_lake_goes_on_from_it(source: Lake, paper: Lake) -> None:
    copy_version(source, paper, "q2")
    assert copied(source, paper, "tap.b").splitlines()[0].startswith("tap.b at transaction 2: 2 tr")
    is_sound(paper)  # the tables alone are enough
    (third := Lake(LocalStore(Path(f"{paper.store.uri}-3")))).store.put_if_absent("raw/x", b"")
    third.store.delete("raw/x")
    copy_version(source, third, "q2")
    more(source, B, 2)
    freeze_some(source, None, A, B)
    assert "lake version 3: copied" in copied(source, third)
    is_sound(third)
    assert not_copied.read(third.store) == {}
    for name in (A, B):
        log = world.log_of(third.store, str(name))
        assert log == world.log_of(source.store, str(name))


def test_a_copy_of_the_copy_says_the_same(source: Lake, paper: Lake, tmp_path: Path) -> None:
    copy_version(source, paper, "q2")
    again = Lake(LocalStore(tmp_path / "again"))
    assert "lake version 1 (q1): copied, without tap.b" in copied(paper, again)
    is_sound(again, LEFT_OUT)
    key = NOT_COPIED
    assert again.store.get(key).data == paper.store.get(key).data
    said = copy_version(paper, Lake(LocalStore(tmp_path / "third")), "q1", code=3)
    assert "was not copied completely:" in said


def test_only_the_first_needs_no_note(source: Lake, paper: Lake) -> None:
    assert "lake version 1 (q1): copied\n" in copy_version(source, paper, "1")
    is_sound(paper)
    assert not paper.store.exists(NOT_COPIED) and not paper.store.exists(ENTRY.format(2))
    assert [v.number for v in paper.find("tap.a")[0].versions()] == [1]
    assert "lake version 2 (q2): copied" in copy_version(source, paper, "2")
    is_sound(paper)
    assert not paper.store.exists(NOT_COPIED)


def test_a_dry_run_writes_nothing(source: Lake, paper: Lake) -> None:
    assert copy_version(source, paper, "q2", "--dry-run").splitlines() == [
        "tap.a.2 at transaction 4: 4 transactions, 2 files, 448 B would be copied",
        "lake version 1 (q1): its entry would be copied",
        "lake version 2 (q2): would be copied",
        "1 table: 2 files, 448 B would be copied",
    ]
    assert not Path(paper.store.uri).exists()
    lines = run_json(source, "copy", source.store.uri, paper.store.uri, "--lake-version", "2")
    assert [one.get("versions") for one in lines] == [[2], None, None]
    assert [one.get("not_copied") for one in lines] == [None, ["tap.b"], None]


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        (["--lake-version", "q9"], 3, "there is no lake version 'q9': it has 2 (q2)"),
        (["--lake-version", "3"], 3, "there is no lake version '3'"),
        (["tap.a", "--lake-version", "q2"], 2, "leave out the TABLES"),
        (["--lake-version", "q2", "--sync"], 2, "--sync needs whole tables"),
        (["--lake-version", ""], 3, "there is no lake version ''"),
    ],
)
def test_what_cannot_be_asked(
    source: Lake, paper: Lake, asked: list[str], code: int, words: str
) -> None:
    assert words in copied(source, paper, *asked, code=code)
    assert not Path(paper.store.uri).exists()


def test_what_is_gone_at_the_source_is_named(source: Lake, paper: Lake) -> None:
    delete_version(source.store, source.table(A).snapshot(), "2", "wrong")
    said = copy_version(source, paper, "q2", code=3)
    assert "lake version 2 (q2) cannot be copied: " in said
    assert "version 2 of tap.a was deleted" in said and "wrong" in said
    assert not Path(paper.store.uri).exists()
    drop_table(source.store, source.table(B).snapshot(), AlterOptions(), with_versions=True)
    assert "lake version 1 (q1) cannot be copied: tap.b was dropped" in copy_version(
        source, paper, "q1", code=3
    )
    assert not Path(paper.store.uri).exists()


def test_a_lake_version_that_the_tables_do_not_bear_out(source: Lake, paper: Lake) -> None:
    entry = Path(source.store.uri, ENTRY.format(2))
    entry.write_bytes(entry.read_bytes().replace(b'"rows": 3', b'"rows": 4'))
    assert "is damaged" in copy_version(source, paper, "2", code=5)
    assert not Path(paper.store.uri).exists()
    Path(source.store.uri, ENTRY.format(1)).unlink()
    entry.unlink()
    assert "there is no lake version" in copy_version(source, paper, "2", code=3)


def test_the_log_before_it_has_to_be_there(source: Lake, paper: Lake) -> None:
    Path(source.store.uri, ENTRY.format(1)).unlink()
    said = copy_version(source, paper, "2", code=5)
    assert f"{ENTRY.format(1)} is lost" in said
    assert not Path(paper.store.uri).exists()


def test_what_stands_behind_it_does_not_matter(source: Lake, paper: Lake) -> None:
    Path(source.store.uri, ENTRY.format(2)).write_bytes(b"{}")
    copy_version(source, paper, "1")
    is_sound(paper)


def test_a_destination_with_lake_versions_of_its_own(source: Lake, paper: Lake) -> None:
    more(paper, C, 1)
    freeze_some(paper, "own", C)
    before = dump(paper)
    said = copy_version(source, paper, "q2", code=4)
    assert f"has another {ENTRY.format(1)} than the source" in said
    assert dump(paper) == before, "found before any table was copied"


def test_a_table_of_the_same_name(source: Lake, paper: Lake) -> None:
    commit_rows(paper, "tap.a", ID, ["id"], [{"id": 7}])
    said = copy_version(source, paper, "q2", code=4)
    assert "tap.a at " in said and "is no longer a copy of the source:" in said
    assert "lake version 2 (q2) is not copied yet" in said
    assert paper.lake_versions() == [] and not paper.store.exists(NOT_COPIED)


def test_a_version_whose_files_were_rewritten_since_begins_a_log_of_its_own(
    source: Lake, paper: Lake
) -> None:
    world.combine(source, "tap.a")
    world.delete(source, "tap.a")
    assert "tap.a.2 at transaction 4: 4 transactions, 1 file" in copy_version(source, paper, "q2")
    is_sound(paper, LEFT_OUT)
    assert world.log_of(paper.store, "tap.a") != world.log_of(source.store, "tap.a")
    assert paper.find("tap.a")[0].snapshot().frozen == source.find("tap.a")[0].snapshot().frozen
    more(source, A, 3)
    freeze_some(source, "q3", A)
    said = copy_version(source, paper, "q3", code=4)
    assert "it is a copy of versions only" in said
    is_sound(paper, LEFT_OUT)
    other = Lake(LocalStore(Path(f"{paper.store.uri}-2")))
    copy_version(source, other, "q3")
    is_sound(other, LEFT_OUT)
    assert world.log_of(other.store, "tap.a") == {
        key: data
        for key, data in world.log_of(source.store, "tap.a").items()
        if key <= A.transaction(other.table(A).snapshot().number)
    }, "what a vacuum did before the freeze is a part of the log"


def test_two_at_once(source: Lake, paper: Lake) -> None:
    codes: list[int] = []

    def one(name: str) -> None:
        codes.append(
            run(source, "copy", source.store.uri, paper.store.uri, "--lake-version", name).exit_code
        )

    threads = [threading.Thread(target=one, args=(name,)) for name in ("q1", "q2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("q1", "q2"):
        copy_version(source, paper, name)
    is_sound(paper)
    assert {*codes} <= {0, 4}, "who came to a log that moved on under it says so"


def test_a_store_that_ignores_conditions(source: Lake, tmp_path: Path) -> None:
    store = NonConditionalStore(tmp_path / "plain", settle=0.02)
    for _ in range(2):
        world.copy_lake_version(source.store, store, "q2")
    is_sound(Lake(LocalStore(tmp_path / "plain")), LEFT_OUT)


def test_a_killed_copy_of_the_whole_table_leaves_nothing_in_the_way(
    source: Lake, paper: Lake
) -> None:
    """Its entries stood ahead of the first one; the version's log ends before some of them."""
    more(source, A, 3)
    number = source.table(A).snapshot().number
    store = LocalStore(Path(paper.store.uri))
    world.copy(source.store, store, "tap.a", options=world.ONE_BY_ONE)
    store.delete(A.transaction(1))  # the last that a copy of a new table puts
    copy_version(source, paper, "q2")
    assert paper.table(A).snapshot().number == 4 < number
    assert not store.exists(A.transaction(5))
    world.copy(source.store, store, "tap.a", options=replace(world.QUICK, verify=True))
    assert world.log_of(store, "tap.a") == world.log_of(source.store, "tap.a")


def test_the_note_is_as_the_page_says(source: Lake, paper: Lake) -> None:
    copy_version(source, paper, "q2")
    note = json.loads(paper.store.get(NOT_COPIED).data)
    digest = note.pop("hash")
    assert digest == plain.hash_of(paper.store.get(NOT_COPIED).data)
    chain = source.lake_version(1).hash
    tables = [{"tap": "tap", "stream": "b"}]
    assert note == {
        "format": 2,
        "lake_versions": [{"number": 1, "chain": chain, "tables": tables}],
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"format": 2, "lake_versions": []}',
        b'{"format": 99}',
        b'{"format": 1, "lake_versions": []}',
        "of another shape",
        "with a member that nobody knows",
    ],
    ids=str,
)
def test_a_note_that_is_none(source: Lake, paper: Lake, data: bytes | str) -> None:
    """It is told of, excuses nothing, and hinders nobody who reads a lake version that is whole."""
    copy_version(source, paper, "q2")
    if isinstance(data, str):
        member = {"lake_versions": 3} if "shape" in data else {"lake_versions": [], "more": 1}
        data = sealed.seal(json.dumps({"format": 2, **member}).encode())[0]
    Path(paper.store.uri, NOT_COPIED).write_bytes(data)
    assert paper.lake_version("q2").number == 2
    problems = check_lake_log(paper.store).problems
    assert [one.where for one in problems] == [NOT_COPIED, f"{ENTRY.format(1)}, tap.b"]
    for asked in (("versions",), ("versions", "--lake-version", "1")):
        listed = run(paper, *asked)
        assert listed.exit_code == 5 and NOT_COPIED in listed.stderr and "q1" in listed.stdout
    assert NOT_COPIED in copy_version(source, paper, "q2", code=5)
    assert Path(paper.store.uri, NOT_COPIED).read_bytes() == data


def test_a_note_excuses_no_lake_version_but_its_own(source: Lake, paper: Lake) -> None:
    """One that a copy left which died before it put the entries."""
    more(paper, B, 1)
    freeze_some(paper, "own", B)
    wrong = Lake(LocalStore(Path(f"{paper.store.uri}-2")))
    copy_version(source, wrong, "q2")
    Path(paper.store.uri, NOT_COPIED).write_bytes(wrong.store.get(NOT_COPIED).data)
    for key in [key for key in dump(paper) if key.startswith("raw/tap/b/")]:
        Path(paper.store.uri, key).unlink()
    [problem] = check_lake_log(paper.store).problems
    assert problem.found == "no such table"
