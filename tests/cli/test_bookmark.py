"""singerlake bookmark, and what revert and undo say of bookmarks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singerlake.lake import Lake
from singerlake.log import bookmarks
from singerlake.log.locks.lock import Waiting
from singerlake.ops.bookmark import bookmark_lock_of
from singerlake.ops.verify.lake import check_lake_log
from singerlake.storage.local.store import LocalStore
from tests.cli.call import run, run_json
from tests.pipeline import ID, STREAMS, Source, read, steps, write
from tests.target.harness import TAP


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """Two runs of two streams."""
    source, folder = Source(), tmp_path / "lake"
    for _ in range(2):
        for stream in STREAMS:
            source.grow(stream)
        for _ in steps(folder, source, LocalStore(folder), split=False):
            pass
    return str(folder)


def test_a_bookmark_is_read_written_listed_and_deleted(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    assert run(lake, "bookmark", "get", ID).stdout == "null\n"
    assert run_json(lake, "bookmark", "ls") == []
    given = '{"completed": {"singer_state": {"x": 1.10}}, "partial": {}}'
    done = run(lake, "bookmark", "set", ID, input=given)
    assert (done.exit_code, done.stdout) == (0, f"wrote the bookmark {ID}\n")
    assert run(lake, "bookmark", "get", ID).stdout == given.replace(" ", "") + "\n"
    assert run(lake, "bookmark", "ls").stdout == f"{ID}\n"
    assert run(lake, "bookmark", "delete", ID).exit_code == 0
    assert run_json(lake, "bookmark", "get", ID)["state"] is None


def test_a_lock_is_held_until_standard_input_ends(lake: str) -> None:
    for _ in range(2):
        done = run(lake, "bookmark", "lock", ID, input="")
        assert (done.exit_code, done.stdout) == (0, f"locked {ID} until standard input ends\n")
    assert [path.suffix for path in Path(lake, "bookmarks").iterdir()] == [".json"]
    with bookmark_lock_of(Lake(LocalStore(lake)), ID, Waiting()):
        (lock,) = run_json(lake, "locks")
    assert (lock["table"], lock["lock"]) == (None, "bookmark")


def nested(member: str, levels: int) -> str:
    """A bookmark with arrays in arrays."""
    return f'{{"{member}": {{"a": {"[" * levels}1{"]" * levels}}}}}'


@pytest.mark.parametrize(
    ("args", "given", "why"),
    [
        (["set", ID], "", "standard input is not a bookmark"),
        (["set", ID], '{"completed": []}', "completed must be an object or null"),
        (["set", ID], nested("completed", 9000), "nested more than 800 levels"),
        (["set", ID], nested("partial", 1500), "nested more than 800 levels"),
        (["set", ""], "{}", "'' cannot be the id of a bookmark"),
        (["get", "x" * 181], "", "cannot be the id of a bookmark"),
        (["get"], "", "ID"),
    ],
)
def test_what_is_no_bookmark_is_one_plain_error(
    tmp_path: Path, args: list[str], given: str, why: str
) -> None:
    done = run(str(tmp_path / "lake"), "bookmark", *args, input=given)
    assert done.exit_code == 2
    assert why in done.stderr
    assert not (tmp_path / "lake").exists()


def test_set_warns_of_a_bookmark_whose_tap_is_unknown(lake: str) -> None:
    given = '{"completed": {"singer_state": {"x": 7}}, "partial": {}}'
    said = run(lake, "bookmark", "set", "nightly", input=given).stderr.replace("\n", " ")
    assert "no tap of the lake is known for nightly, so a revert or undo will not turn it" in said
    assert run(lake, "bookmark", "set", ID, input=given).stderr == ""


def test_a_revert_says_which_bookmarks_go_back(lake: str) -> None:
    args = ["revert", f"{TAP}.a", "--to-transaction", "1"]
    will = run(lake, *args, "--dry-run").stderr.replace("\n", " ")
    assert (
        f"the bookmark {ID} will be turned back as well, so the next run resends these records"
        in will
    )
    stays = run(lake, *args, "--keep-bookmark").stderr.replace("\n", " ")
    assert f"the bookmark {ID} will stay (--keep-bookmark)" in stays
    assert read(LocalStore(lake)) == {"bookmarks": {"a": 2, "b": 2}}
    write(LocalStore(lake), {"x": 1}, state_id=f"prod:{TAP}-to-x")
    said = run(lake, "undo", f"{TAP}.b", "2").stderr.replace("\n", " ")
    assert f"the bookmarks {ID}, prod:{TAP}-to-x will be turned back as well" in said
    found = run(lake, "bookmark", "get", ID)
    assert found.stderr.replace("\n", " ") == (
        f"note: turned back, because {TAP}.b was turned back to transaction 1 "
    )
    assert run_json(lake, "bookmark", "get", ID)["turned_back"] == [
        {"table": f"{TAP}.b", "transaction": 1, "acknowledged": 1}
    ]
    wrong = run(lake, *args, "--metadata", "keep_bookmark=true")
    assert (wrong.exit_code, "rename it" in wrong.stderr) == (2, True)


def test_without_a_bookmark_in_the_lake_a_revert_says_that_it_stays(lake: str) -> None:
    run(lake, "bookmark", "delete", ID)
    said = run(lake, "revert", f"{TAP}.a", "--to-transaction", "1", "--dry-run").stderr
    assert "the tap's bookmark is not reset" in said


def test_a_copy_of_a_lake_takes_bookmarks_along_and_one_of_tables_does_not(
    lake: str, tmp_path: Path
) -> None:
    for name, tables, there in (("all", [], [ID]), ("some", [f"{TAP}.a"], [])):
        copy = str(tmp_path / name)
        done = run(lake, "copy", lake, copy, *tables)
        assert done.exit_code == 0, done.output
        assert bookmarks.ids(LocalStore(copy)) == there
    copied = LocalStore(tmp_path / "all")
    assert read(copied) == {"bookmarks": {"a": 2, "b": 2}}
    # A later copy replaces it; a table that is behind turns it back.
    for _ in steps(Path(lake), Source({"a": 3, "b": 3}), LocalStore(lake), split=False):
        pass
    assert run(lake, "copy", lake, copied.uri).exit_code == 0
    assert read(copied) == {"bookmarks": {"a": 3, "b": 3}}


def test_a_vacuum_leaves_bookmarks_and_verify_reads_them(lake: str) -> None:
    done = run(lake, "vacuum", "--all", "--retain", "0s", "--no-retention-guard")
    assert done.exit_code == 0, done.output
    assert read(LocalStore(lake)) == {"bookmarks": {"a": 2, "b": 2}}
    assert check_lake_log(LocalStore(lake)).problems == []
    (path,) = Path(lake, "bookmarks").iterdir()
    path.write_bytes(b"{")
    (problem,) = check_lake_log(LocalStore(lake)).problems
    assert problem.where == f"bookmarks/{path.name}"
    assert f"singerlake bookmark delete '{ID}'" in str(problem)


def test_an_erasure_looks_into_bookmarks(lake: str) -> None:
    args = ["erase", f"{TAP}.a", "--key", "2", "--reason", "asked"]
    done = run(lake, *args)
    assert done.exit_code == 2, done.output
    assert (
        f"text in bookmarks that names one of these rows, or something spelled the same: {ID}"
        in (done.stderr.replace("\n", " ").replace("  ", " "))
    )
    document = json.loads(
        run(lake, "--output", "json", "erase", "--search", "--text", '"a": 2').stdout
    )
    assert "bookmark" in {one["kind"] for one in document["found"]}
