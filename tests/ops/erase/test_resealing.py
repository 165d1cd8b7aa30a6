"""After an erasure no log tells of the erased rows, and it says everything else that it said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import DamagedError
from singerlake.format import sealed
from singerlake.format.lake_log import LakeVersion
from singerlake.format.log import decode_entry
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log import versions
from singerlake.log.log import read_whole
from singerlake.ops import freeze_lake_plan as freeze_lake
from singerlake.ops.delete_version import delete_version
from singerlake.ops.erase.check import check
from singerlake.ops.erase.old_proofs import SOUGHT
from singerlake.ops.erase.sought import Text
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.resealing import reseal
from singerlake.ops.vacuum.plan import DELETE
from singerlake.ops.verify.lake import check_lake_log
from singerlake.ops.verify.plan import check_log
from tests.build import resealed
from tests.cli.call import run, run_json
from tests.faults import plain
from tests.faults.operations import vacuum_options
from tests.frozen import vacuum_here
from tests.log.non_conditional import NonConditionalStore
from tests.ops.erase import by_hand
from tests.ops.erase.by_hand import holding, log_of, rows_at

ADA = 7
NAME = TableName("tap", "people")
FILES = [{"name": "people.csv", "size": 40, "sha256": "5" * 64}]


def filled(lake: Lake) -> Table:
    """Two versions with Ada's row, one without, a deleted one, and blocks before and after."""
    table = lake.table(NAME)
    ada = {"id": ADA, "name": "Ada"}
    by_hand.write(lake, table, {"id": 1, "name": "Bo"}, ada, metadata={"files": FILES})  # 1
    by_hand.freeze(table)  # 2
    by_hand.write(lake, table, {"id": 2, "name": "Cy"}, {**ada, "name": "Ada L."})  # 3
    by_hand.freeze(table, label="q3")  # 4
    freeze_all(lake, table)
    by_hand.write(lake, table, {**ada, "_sdc_deleted_at": "2026-01-02T03:04:05Z"})  # 5
    by_hand.freeze(table)  # 6
    by_hand.freeze(table, at=3)  # 7
    delete_version(table.store, table.snapshot(), "4", "by mistake")  # 8
    by_hand.write(lake, table, {"id": 3, "name": "Di"})  # 9
    return table


def freeze_all(lake: Lake, *tables: Table) -> LakeVersion:
    """A lake version of tables that have their versions."""
    wanted = freeze_lake.plan(lake.store, lambda: [table.name for table in tables])
    return freeze_lake.commit_lake_version(lake.store, wanted, {})


@pytest.fixture
def table(lake: Lake) -> Table:
    return filled(lake)


def told(table: Table) -> list[str]:
    """What confirms a guess at a row: proofs, and checksums of blocks."""
    documents = [json.loads(data) for data in log_of(table).values()]
    blocks = [block for document in documents for block in document.get("blocks", ())]
    texts = [f'"crc": {block["crc"]}' for block in blocks if "crc" in block]
    for document in documents:
        if "version" in document:
            texts += [document["version"][word] for word in by_hand.PROOFS]
            texts += document["lanes"].values()
    return texts


def answers(table: Table) -> dict[str, Any]:
    """What readers see of a table."""
    head = table.snapshot()
    return {
        "versions": versions.known(head),
        "transactions": [(t.number, t.commit, t.time) for t in head.transactions],
        "rows": {number: rows_at(table, head, number) for number in range(1, head.number + 1)},
        "blocks": head.blocks,
        "chain": head.chain,
    }


def check_whole(table: Table) -> None:
    """The log is a log to every reader there is, with the manifest and without."""
    checked = check_log(table.store, table.name)
    assert not checked.problems
    with_manifest = answers(table)
    whole = read_whole(table.store, table.name, table.snapshot().number)
    known = versions.known(whole)
    assert (known, whole.blocks) == (with_manifest["versions"], with_manifest["blocks"])
    other = plain.tables(plain.dump_folder(Path(table.store.uri)))[str(table.name)]
    head = table.snapshot()
    for number in range(1, head.number + 1):
        assert other.state(number) == sorted(rows_at(table, head, number), key=str)


def test_no_proof_of_before_stays(table: Table) -> None:
    before = told(table)
    touched = [v for v in table.snapshot().frozen if v.number < 3]
    after = by_hand.erase(table, ADA)
    seen = answers(table)
    done = reseal(table.store, after)
    assert done.entries == [1, 2, 3, 4, 5, 7]
    assert answers(table) == seen
    kept = {proof for v in table.snapshot().frozen for proof in (v.fingerprint,)}
    gone = [text for text in before if text not in {*kept, *told(table)}]
    assert len(gone) >= len(touched) * 4
    assert holding(table, gone) == []
    check_whole(table)
    table.store.delete(table.name.manifest)
    assert answers(table) == seen


def test_chain_ids_of_before_confirm_no_guess(lake: Lake, table: Table) -> None:
    """They are hashes of entries with the erased row: who guesses it could build these again."""
    lake_log = {item.key: lake.store.get(item.key).data for item in lake.store.list("versions/")}
    before = {**{table.name.transaction(n): data for n, data in log_of(table).items()}, **lake_log}
    reseal(table.store, by_hand.erase(table, ADA))
    resealed_now = [key for key in before if lake.store.get(key).data != before[key]]
    assert len(resealed_now) == 7
    salts = []
    for key in resealed_now:
        old, new = json.loads(before[key]), json.loads(lake.store.get(key).data)
        assert "salt" not in new
        salts.append(old["salt"])
        whole, guessed = (
            before[key],
            before[key].replace(f' "salt": "{old["salt"]}",\n'.encode(), b""),
        )
        hashes = [sealed.seal(data[: data.rindex(b' "hash"')])[1] for data in (whole, guessed)]
        assert hashes[0] == new["stands_for"] != hashes[1]
    assert len({*salts}) == len(salts)
    assert holding(table, salts) == []


def test_nothing_else_of_an_entry_changes(table: Table) -> None:
    before = log_of(table)
    after = by_hand.erase(table, ADA)
    reseal(table.store, after)
    start = after.number - 2
    for number, data in log_of(table).items():
        if number not in before or data == before[number]:
            continue
        old, new = json.loads(before[number]), json.loads(data)
        assert (new.pop("format"), new.pop("rewritten")) == (5, start)
        assert new.pop("stands_for") == old["hash"]
        assert len(old.pop("salt")) == 32
        for document in (old, new):
            del document["hash"]
            document.pop("lanes", None)
            document.pop("format", None)
            for word in (*by_hand.PROOFS, "rows"):
                document.get("version", {}).pop(word, None)
            for block in document.get("blocks", ()):
                block.pop("crc", None)
            for file in document.get("metadata", {}).get("files", ()):
                file.pop("sha256", None)
        assert new == old
    first = json.loads(log_of(table)[1])
    assert first["metadata"] == {"files": [{"name": "people.csv", "size": 40}]}


def test_a_second_run_writes_nothing(table: Table) -> None:
    after = by_hand.erase(table, ADA)
    reseal(table.store, after)
    before = plain.dump_folder(Path(table.store.uri))
    done = reseal(table.store, table.snapshot())
    assert (done.entries, done.lake_versions) == ([], [])
    assert plain.dump_folder(Path(table.store.uri)) == before


def test_the_proofs_between_two_erasures_go_as_well(table: Table) -> None:
    """Else the difference of the two is the second one's row."""
    first = reseal(table.store, by_hand.erase(table, ADA)).head
    between = [v.fingerprint for v in table.snapshot().frozen]
    lanes = json.loads(log_of(table)[first.number - 1])["erased"][0]["lanes"].values()
    done = reseal(table.store, by_hand.erase(table, 1))
    assert first.number - 1 in done.entries, "the first erasure's own entry"
    assert holding(table, [*between, *lanes]) == []
    check_whole(table)
    notes = table.snapshot().frozen[0].erased
    assert [(note.rows_before, note.rows) for note in notes] == [(2, 1), (1, 0)]
    starts = {json.loads(data).get("rewritten") for data in log_of(table).values()}
    first_start, start = first.number - 2, done.head.number - 2
    assert starts == {None, first_start, start}, "each by the last that changed it"


def test_who_slept_takes_nothing_back(table: Table) -> None:
    """A run that was taken for dead goes on behind a later erasure, of which it does not know."""
    head = by_hand.erase(table, ADA)
    between = [version.fingerprint for version in table.snapshot().frozen]
    steps = [0]

    def check() -> None:
        """Asked before each entry; the other one comes right after."""
        steps[0] += 1
        if steps[0] == 1:
            reseal(table.store, by_hand.erase(table, 1))
            seen.append(plain.dump_folder(Path(table.store.uri)))

    seen: list[plain.Dump] = []
    reseal(table.store, head, check=check)
    assert holding(table, set(between) - {v.fingerprint for v in table.snapshot().frozen}) == []
    assert plain.dump_folder(Path(table.store.uri)) == seen[0]
    check_whole(table)


def test_the_log_goes_on(lake: Lake, table: Table) -> None:
    reseal(table.store, by_hand.erase(table, ADA))
    by_hand.write(lake, table, {"id": 9, "name": "Ed"})
    by_hand.freeze(table)
    check_whole(table)
    entry = decode_entry(log_of(table)[table.snapshot().number], table.snapshot().number, "it")
    assert entry.format == 5
    assert not entry.rewritten


@pytest.mark.parametrize("lost", [(2,), (3, 4), (1, 2, 3, 4, 5, 6, 7), (10, 11), (4, 11, 12)])
def test_lost_entries_come_back_without_the_old_proofs(table: Table, lost: tuple[int, ...]) -> None:
    before = told(table)
    reseal(table.store, by_hand.erase(table, ADA))
    seen, kept = answers(table), told(table)
    for number in lost:
        table.store.delete(table.name.transaction(number))
    rebuild_table(table.store, table.name)
    assert answers(table) == seen
    assert not check_log(table.store, table.name).problems
    gone = set(before) - {*kept, *(v.fingerprint for v in table.snapshot().frozen)}
    assert holding(table, gone) == []


def change(table: Table, number: int, **members: Any) -> None:
    value = json.loads(log_of(table)[number])
    Path(table.store.uri, table.name.transaction(number)).write_bytes(
        resealed({**value, **members})
    )


@pytest.mark.parametrize("by", [9, 11, 99])
def test_what_no_erasure_allows_is_damage(table: Table, by: int) -> None:
    """It names another entry than the one that announced it, or none that is there."""
    reseal(table.store, by_hand.erase(table, ADA))
    change(table, 2, rewritten=by)
    [problem] = check_log(table.store, table.name).problems
    assert problem.where == table.name.transaction(2)
    assert f"an erase-start as transaction {by}" in problem.expected
    table.store.delete(table.name.manifest)
    with pytest.raises(DamagedError, match=f"transaction 2 .* transaction {by} should"):
        table.snapshot()


@pytest.mark.parametrize("members", [{"rewritten": 2}, {"stands_for": ""}])
def test_what_no_release_writes_is_refused(table: Table, members: dict[str, Any]) -> None:
    reseal(table.store, by_hand.erase(table, ADA))
    change(table, 2, **members)
    with pytest.raises(DamagedError, match="cannot be read"):
        decode_entry(log_of(table)[2], 2, "it")


def test_a_lost_end_is_found_though_entries_were_rewritten(table: Table) -> None:
    """The announcement itself is gone, with all behind it, and so is the manifest."""
    head = reseal(table.store, by_hand.erase(table, ADA)).head
    for number in range(10, head.number + 1):
        table.store.delete(table.name.transaction(number))
    table.store.delete(table.name.manifest)
    with pytest.raises(DamagedError, match="transaction 10 should announce"):
        table.snapshot()


def test_lake_versions_get_the_proofs_of_now(lake: Lake, table: Table) -> None:
    other = lake.table(TableName("tap", "other"))
    by_hand.write(lake, other, {"id": ADA, "name": "Fi"})
    by_hand.freeze(other)
    by_hand.freeze(table)
    freeze_all(lake, table, other)
    by_hand.write(lake, table, {"id": 4, "name": "Gus"}, {"id": ADA, "name": "Ada"})
    by_hand.freeze(table)
    third = freeze_all(lake, table, other)
    before = lake.lake_versions()
    done = reseal(table.store, by_hand.erase(table, ADA))
    assert done.lake_versions == [1, 3]
    after = lake.lake_versions()
    assert holding(table, [before[0].fingerprint, third.fingerprint]) == []
    assert [v.chain for v in after] == [v.chain for v in before]
    assert after[1] == before[1]
    allowed = [(e.tap, e.stream, e.transaction) for v in after for e in v.rewritten]
    assert allowed == [("tap", "people", done.head.number - 2)] * 2
    assert check_lake_log(lake.store).problems == []
    shown = run(lake, "versions", "--lake-version", "1").stdout
    assert f"rows of tap.people were erased (announced by transaction {allowed[0][2]})" in shown
    document = run_json(lake, "versions", "--lake-version", "1")
    assert document["rewritten"][0]["transaction"] == allowed[0][2]
    assert "rewritten" not in run_json(lake, "versions", "--lake-version", "2")
    assert len(plain.lake_versions(plain.dump_folder(Path(lake.store.uri)))) == 3
    fourth = freeze_all(lake, other)
    assert fourth.previous == third.hash
    again = reseal(other.store, by_hand.erase(other, ADA))
    assert again.lake_versions == [2, 3, 4]
    assert [len(v.rewritten) for v in lake.lake_versions()] == [1, 1, 2, 1]
    assert check_lake_log(lake.store).problems == []


def test_on_a_store_without_conditions(lake: Lake, table: Table, tmp_path: Path) -> None:
    after = by_hand.erase(table, ADA)
    shutil.copytree(lake.store.uri, tmp_path / "plain")
    store = NonConditionalStore(tmp_path / "plain", settle=0.02)
    done = reseal(store, Table(store, table.name).snapshot())
    assert done.entries == [1, 2, 3, 4, 5, 7]
    reseal(table.store, after)
    assert log_of(Table(store, table.name)) == log_of(table)
    assert not store.exists(table.name.table_lock)
    assert not check_log(store, table.name).problems


def test_entries_of_the_first_format(tmp_path: Path) -> None:
    """They have neither a hash nor a link, and get both."""
    shutil.copytree(Path(__file__).parents[2] / "lakes" / "format-1", tmp_path / "lake")
    table = Lake.open(str(tmp_path / "lake")).table(TableName("tap-shop", "orders"))
    key = rows_at(table, table.snapshot(), 1)[0]["id"]
    before = [v.fingerprint for v in table.snapshot().frozen]
    after = by_hand.erase(table, key)
    kept = [v.fingerprint for v in table.snapshot().frozen]
    assert not {*before} & {*kept}
    seen = answers(table)
    assert reseal(table.store, after).entries
    assert answers(table) == seen
    assert holding(table, {*before} - {*kept}) == []
    check_whole(table)
    formats = [json.loads(data)["format"] for data in log_of(table).values()]
    assert formats[-3:] == [5, 5, 5]
    assert {*formats[:-3]} == {1, 5}


def proofs_found(lake: Lake) -> list[str]:
    report = check(lake, [Text("text 1", "nowhere to be found")], NAME)
    assert {one.sought for one in report.found} <= {SOUGHT}
    return sorted(one.key for one in report.found)


def test_the_check_finds_what_is_left(lake: Lake, table: Table) -> None:
    assert proofs_found(lake) == []
    manifest = table.store.get(NAME.manifest).data
    after = by_hand.erase(table, ADA)
    stale = [NAME.transaction(number) for number in (1, 2, 3, 4, 5, 7)]
    assert proofs_found(lake) == [*stale, "versions/000000000001.json"]
    assert (
        "6 of its log entries (the first is transaction 1)" in check_log(table.store, NAME).notes[0]
    )
    table.store.replace(NAME.manifest, manifest, None)
    assert NAME.manifest in proofs_found(lake)
    reseal(table.store, table.snapshot())
    assert proofs_found(lake) == []
    assert check_log(table.store, NAME).notes == []
    assert table.snapshot().number == after.number


@pytest.mark.parametrize("deleted", [False, True])
def test_a_vacuum_finishes_it(lake: Lake, table: Table, deleted: bool) -> None:
    """Whether there are files to delete, or only entries to rewrite."""
    after = by_hand.erase(table, ADA, deleted=deleted)
    old = {*after.dropped}
    vacuum_here(table, vacuum_options((DELETE,)))
    assert proofs_found(lake) == []
    assert lake.lake_versions()[0].rewritten
    assert not old & {item.key[len(NAME.folder) :] for item in table.store.list(NAME.folder)}
    check_whole(table)


def test_verify_says_how_to_finish_it(table: Table) -> None:
    by_hand.erase(table, ADA)
    [*_, problem] = check_lake_log(table.store).problems
    assert problem.hint == "rows were erased: finish the erasure with: singerlake vacuum tap.people"
