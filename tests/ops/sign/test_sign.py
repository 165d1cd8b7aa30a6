"""Signatures of versions: what they cover, who may check them, and what an erasure leaves."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import (
    ConflictError,
    DamagedError,
    NotFoundError,
    SingerlakeError,
    UsageError,
)
from singerlake.format.log import FrozenVersion, decode_entry, seal_entry
from singerlake.format.names import TableName
from singerlake.format.signed_text import (
    armored,
    content_hash,
    signed_text,
    signing_key,
    unarmored,
)
from singerlake.format.version_notes import SignatureNote, VersionErasure
from singerlake.lake import Lake, Table
from singerlake.log.log import read_whole
from singerlake.ops.delete_version import delete_version
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.erase import tables
from singerlake.ops.erase.plan import EraseOptions
from singerlake.ops.erase.table import EraseRequest
from singerlake.ops.freeze import FreezeOptions, Frozen, freeze
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.resealing import reseal
from singerlake.ops.sign.sign import sign
from singerlake.ops.verify.plan import check_log
from singerlake.ops.verify.problems import Report
from singerlake.ops.verify.verify import verify
from singerlake.overlay.alter import AlterOptions
from tests.build import commit_rows
from tests.cli.call import run
from tests.faults import plain
from tests.ops.erase import by_hand
from tests.sshsig import NAMESPACE, Allowed, Key, packed, signed_with

HERE = EngineChoice(LOCAL)
COLUMNS: dict[str, Any] = {"id": {"type": "integer"}}
NAME = TableName("tap", "s")
ADA, BOB = Key(), Key()
SIGNERS = Allowed({"ada@example.org": ADA, "bob@example.org": BOB})


def filled(lake: Lake, *numbers: int) -> Table:
    commit_rows(lake, "tap.s", COLUMNS, ["id"], [{"id": number} for number in numbers])
    return lake.find("tap.s")[0]


def frozen(table: Table, **options: Any) -> Frozen:
    return freeze(table, FreezeOptions(**options), HERE)


@pytest.fixture
def table(lake: Lake) -> Table:
    """Two versions, of one row and of two."""
    table = filled(lake, 1)
    frozen(table, label="first")
    frozen(filled(lake, 2))
    return table


def signed(table: Table, name: str, key: Key = ADA) -> SignatureNote:
    return sign(table.store, table.snapshot(), name, key).signature


def verified(table: Table, version: str | None = None, signers: Allowed = SIGNERS) -> Report:
    return verify(table, version, HERE, signers)


def wrong(report: Report) -> list[str]:
    assert all(problem.what == "signer" for problem in report.problems), report.problems
    return [f"{problem.where}: {problem.found}" for problem in report.problems]


def dumped(table: Table) -> plain.PlainTable:
    """The table as the independent reader has it, which verifies signatures."""
    return plain.tables(plain.dump_folder(Path(table.store.uri)))[str(table.name)]


VERSION = FrozenVersion(
    number=3,
    transaction=81,
    schema_hash="NFSHXeX",
    rows=119,
    fingerprint="lt1:" + "d" * 64,
    record_fingerprint="lt1:" + "b" * 64,
    label='q"3',
    types=2,
    erased=[VersionErasure(95, "t", 120, 119), VersionErasure(105, "t", 119, 118)],
)
NOTE = SignatureNote(
    transaction=102,
    rows=119,
    head=101,
    chain="c" * 64,
    time="2026-11-22T18:30:00.123456Z",
    content=content_hash("5" * 64, VERSION.fingerprint, VERSION.record_fingerprint),
    salt="5" * 64,
    signature="",
)


def test_text_has_each_fact_in_a_line() -> None:
    text = signed_text(TableName("tap", "bücher"), VERSION, NOTE)
    assert text.decode() == (
        "singerlake-version-1\n"
        'table "tap.bücher"\n'
        "version 3\n"
        'label "q\\"3"\n'
        "transaction 81\n"
        "schema NFSHXeX\n"
        "types 2\n"
        "erased 95 120 119\n"
        "rows 119\n"
        "content 97770038775d150429dde73fc21762058bf8b2b1afbba9ef47f08a9764212a72\n"
        f"head 101 {'c' * 64}\n"
        "time 2026-11-22T18:30:00.123456Z\n"
    )


def test_signature_of_another_namespace_or_cut_is_none() -> None:
    good = ADA.sign(b"text")
    assert signing_key(good) == ADA.fingerprint
    assert unarmored(armored(good)) == good
    with pytest.raises(ValueError, match="its namespace is not singerlake"):
        signing_key(ADA.sign(b"text", b"git"))
    whole = base64.b64decode(good)
    for cut in (b"", b"SSHSIG", whole[:40], whole[:12], b"x" + whole[1:]):
        with pytest.raises(ValueError, match="not a signature of OpenSSH"):
            signing_key(base64.b64encode(cut).decode())
    with pytest.raises(ValueError, match="not a signature of OpenSSH"):
        unarmored("hello")


def test_signature_is_kept_with_its_version(table: Table) -> None:
    note = signed(table, "first")
    assert (note.transaction, note.head, note.rows) == (5, 4, 1)
    head = table.snapshot()
    assert head.version("1").signed == [note]
    assert head.number == 5
    text = signed_text(NAME, head.version("1"), note)
    assert signed_with(text, note.signature) == ADA.fingerprint
    assert read_whole(table.store, table.name, 5).version("1").signed == [note]
    assert dumped(table).log[-1]["signature"]["version"] == 1


def test_key_signs_the_same_version_once(table: Table) -> None:
    first = sign(table.store, table.snapshot(), "2", ADA)
    again = sign(table.store, table.snapshot(), "2", ADA)
    assert (first.new, again.new, again.signature) == (True, False, first.signature)
    assert sign(table.store, table.snapshot(), "2", BOB).new
    assert table.snapshot().number == 6


def test_transactions_and_unknown_versions_are_not_signed(table: Table) -> None:
    with pytest.raises(UsageError, match="@3 is a transaction: freeze it first"):
        signed(table, "@3")
    with pytest.raises(NotFoundError, match="no version '7'"):
        signed(table, "7")
    assert table.snapshot().number == 4


def test_stale_signatures_are_refused(table: Table) -> None:
    head = table.snapshot()
    delete_version(table.store, head, "2", "wrong")
    with pytest.raises(ConflictError, match="was deleted by another process"):
        sign(table.store, head, "2", ADA)


class Broken(Key):
    def sign(self, text: bytes, namespace: bytes = NAMESPACE) -> str:
        raise SingerlakeError("the device is gone")


def test_signer_that_fails_changes_nothing(table: Table) -> None:
    with pytest.raises(SingerlakeError, match="device is gone"):
        signed(table, "1", Broken())
    assert table.snapshot().number == 4


def test_freeze_signs_before_it_moves_the_pointer(table: Table, lake: Lake) -> None:
    filled(lake, 3)
    done = frozen(table, signer=ADA, pointer="current")
    assert done.signed is not None
    assert (done.version.number, done.signed.signature.transaction) == (3, 7)
    assert done.version.pointed[-1].transaction == 8
    assert wrong(verified(table, "3")) == []
    again = frozen(table, signer=ADA, pointer="current")
    assert again.signed is not None
    assert (again.new, again.signed.new, table.snapshot().number) == (False, False, 8)
    filled(lake, 4)
    left = (
        "device is gone; version 4 of tap.s was frozen and is not signed, and the pointer @current"
    )
    with pytest.raises(SingerlakeError, match=f"{left} did not move: sign it with singerlake sign"):
        frozen(table, signer=Broken(), pointer="current")
    assert table.snapshot().named("@current")[0] == table.snapshot().version("3")
    assert frozen(table, signer=BOB).signed is not None  # it goes on with version 4
    assert [one.number for one in table.snapshot().frozen if one.signed] == [3, 4]


def test_versions_need_a_signature_of_an_allowed_signer(table: Table, lake: Lake) -> None:
    signed(table, "1")
    assert wrong(verified(table)) == ["version 2: none"]
    signed(table, "2", Key())
    (only,) = wrong(verified(table))
    assert "version 2: one by SHA256:" in only
    assert only.endswith(": another key")
    signed(table, "2", BOB)
    report = verified(table)
    assert wrong(report) == []
    assert [(one.version, one.signer, one.current) for one in report.signatures] == [
        (1, "ada@example.org", True),
        (2, None, True),
        (2, "bob@example.org", True),
    ]
    assert wrong(verified(table, "1", Allowed({"bob@example.org": BOB}))) != []
    commit_rows(lake, "tap.new", COLUMNS, ["id"], [{"id": 1}])
    assert wrong(verified(lake.find("tap.new")[0])) == ["versions: no version"]


def forged(lake: Lake, table: Table, tmp_path: Path, rows: int) -> Table:
    """A new log with right hashes, of other rows, and the signatures of the old one."""
    other = Lake.open(str(tmp_path / "forged"), create=True)
    filled(other, *range(rows))
    frozen(other.find("tap.s")[0], label="first")
    there = other.find("tap.s")[0]
    head = there.snapshot()
    signature = table.snapshot().version("1").signed[0]

    class Copied(Key):
        def sign(self, text: bytes, namespace: bytes = NAMESPACE) -> str:
            return signature.signature

    sign(there.store, head, "1", Copied())
    return there


@pytest.mark.parametrize("rows", [1, 2])
def test_forged_log_fails_with_a_copied_signature(
    table: Table, lake: Lake, tmp_path: Path, rows: int
) -> None:
    signed(table, "1")
    there = forged(lake, table, tmp_path, rows)
    assert check_log(there.store, there.name).problems == []  # its hashes are right
    (found,) = wrong(verified(there))
    assert found.startswith("version 1: one by SHA256:")


def rewritten(table: Table, number: int, **changes: Any) -> None:
    """Change the signature in the last entry, with the hash that its bytes then have."""
    key = table.name.transaction(number)
    entry = decode_entry(table.store.get(key).data, number, key)
    assert entry.signature is not None
    one = structs.replace(entry.signature, **changes)
    Path(table.store.uri, key).write_bytes(
        seal_entry(structs.replace(entry, signature=one, hash=""))[1]
    )
    Path(table.store.uri, table.name.manifest).unlink()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"rows": 7}, "the content of version 1"),
        ({"content": "0" * 64}, "the content of version 1"),
        ({"salt": "0" * 64}, "the content of version 1"),
        ({"salt": ""}, "the content of version 1"),
        ({"head": 3}, "the chain id of transaction 3"),
        ({"head": 5}, "an earlier transaction as its head"),
        ({"chain": "0" * 64}, "the chain id of transaction 4"),
        ({"signature": "QUJD"}, "a signature"),
        ({"version": 9}, "a version to sign that there was"),
        ({"time": "2026-01-01T00:00:00.000000Z"}, None),
    ],
)
def test_altered_signature_is_found(
    table: Table, changes: dict[str, Any], expected: str | None
) -> None:
    """Without the list of signers as far as the log tells, with it always."""
    signed(table, "1")
    rewritten(table, 5, **changes)
    found = [problem.expected for problem in check_log(table.store, table.name).problems]
    assert [text for text in found if expected and text.startswith(expected)] == found
    assert bool(found) is (expected is not None)
    assert any(
        problem.where == "version 1" and problem.what == "signer"
        for problem in verified(table, "1").problems
    )


def test_unreadable_signature_is_listed_and_does_not_stop_others(table: Table, lake: Lake) -> None:
    signed(table, "1")
    rewritten(table, 5, signature="QUJD")
    listed = run(lake, "sign", "tap.s.1")
    assert (listed.exit_code, "signed with unreadable on" in listed.stdout) == (0, True)
    assert signed(table, "1").transaction == 6


def test_entry_whose_version_is_signed_already_is_damaged(table: Table) -> None:
    signed(table, "2")
    key = table.name.transaction(4)
    entry = decode_entry(table.store.get(key).data, 4, key)
    changed = structs.replace(entry, version=table.snapshot().version("2"), hash="")
    with pytest.raises(DamagedError, match="signed already"):
        decode_entry(seal_entry(changed)[1], 4, key)


def test_signatures_survive_a_rebuild_and_a_drop(table: Table) -> None:
    notes = [signed(table, "1"), signed(table, "1", BOB)]
    for number in range(1, 7):
        table.store.delete(table.name.transaction(number))
    rebuild_table(table.store, table.name)
    assert table.snapshot().version("1").signed == notes
    assert wrong(verified(table, "1")) == []
    drop_table(table.store, table.snapshot(), AlterOptions(), with_versions=True)
    undrop_table(table.store, table.snapshot(dropped=True), AlterOptions())
    assert table.snapshot().version("1").signed == notes
    assert wrong(verified(table, "1")) == []


def test_copies_of_single_versions_are_not_signed(table: Table, lake: Lake, tmp_path: Path) -> None:
    signed(table, "2")
    done = run(lake, "copy", str(lake.store.uri), str(tmp_path / "one"), "tap.s.2")
    assert done.exit_code == 0, done.output
    there = Lake.open(str(tmp_path / "one")).find("tap.s")[0]
    assert [one.signed for one in there.snapshot().frozen] == [[], []]
    assert check_log(there.store, there.name).problems == []
    whole = run(lake, "copy", str(lake.store.uri), str(tmp_path / "all"))
    assert whole.exit_code == 0, whole.output
    assert wrong(verified(Lake.open(str(tmp_path / "all")).find("tap.s")[0], "2")) == []


@pytest.fixture
def people(lake: Lake) -> Table:
    """A version of three people, signed by Ada."""
    table = lake.table(TableName("tap", "people"))
    by_hand.write(lake, table, *({"id": number, "name": f"n{number}"} for number in (1, 2, 3)))
    by_hand.freeze(table)
    signed(table, "1")
    return table


def signers_said(table: Table) -> list[tuple[str | None, int, bool]]:
    """Who signed version 1, how many rows, and whether that is what it is now."""
    from singerlake.ops.verify.signatures import check_signatures

    report, head = Report(table.name), table.snapshot()
    check_signatures(head, head.frozen, SIGNERS, report)
    assert bool(report.problems) is not any(o.signer and o.current for o in report.signatures)
    return [(one.signer, one.rows, one.current) for one in report.signatures]


@pytest.mark.parametrize("resealing", [False, True])
def test_erasure_takes_the_salt_and_leaves_the_signature(people: Table, resealing: bool) -> None:
    salt = people.snapshot().version("1").signed[0].salt
    after = by_hand.erase(people, 2)
    if resealing:
        done = reseal(people.store, after)
        assert 3 in done.entries
        assert by_hand.holding(people, [salt]) == []
    assert people.snapshot().version("1").signed[0].salt == ""
    assert signers_said(people) == [("ada@example.org", 3, False)]
    assert [p for p in check_log(people.store, people.name).problems if p.what != "log"] == []
    log = dumped(people).log
    assert ("salt" in log[2]["signature"]) is not resealing


def test_chain_of_statements_verifies_after_erasures(people: Table) -> None:
    """Each new signature states how many rows each erasure before it removed."""
    reseal(people.store, by_hand.erase(people, 2))
    second = signed(people, "1", BOB)
    text = signed_text(people.name, people.snapshot().version("1"), second).decode()
    assert "erased 5 3 2\nrows 2\n" in text
    ada, bob = ("ada@example.org", 3), ("bob@example.org", 2)
    assert signers_said(people) == [(*ada, False), (*bob, True)]
    reseal(people.store, by_hand.erase(people, 3))
    assert signers_said(people) == [(*ada, False), (*bob, False)]
    assert signed(people, "1", BOB).rows == 1
    assert signers_said(people) == [(*ada, False), (*bob, False), ("bob@example.org", 1, True)]
    assert check_log(people.store, people.name).problems == []
    assert len(dumped(people).log) == people.snapshot().number


def test_old_manifest_with_a_salt_is_found(people: Table) -> None:
    from singerlake.format.metadata import Manifest, decode
    from singerlake.ops.resealing import read_erasures

    data = people.store.get(people.name.manifest).data
    reseal(people.store, by_hand.erase(people, 2))
    erasures = read_erasures(people.store, people.snapshot())
    now = people.store.get(people.name.manifest).data
    assert [erasures.are_told_in(decode(one, Manifest, "it")) for one in (data, now)] == [
        True,
        False,
    ]
    salted = json.loads(now)
    salted["table_versions"][0]["signed"][0]["salt"] = "5" * 64
    from tests.build import resealed

    assert erasures.are_told_in(decode(resealed(salted), Manifest, "it"))


def test_signature_of_before_an_erasure_is_not_committed_after_it(people: Table) -> None:
    head = people.snapshot()
    by_hand.erase(people, 2)
    with pytest.raises(ConflictError, match="were erased in the meantime"):
        sign(people.store, head, "1", BOB)


def test_signed_data_is_what_protocol_sshsig_says() -> None:
    """By the bytes of a signature that OpenSSH 9.2 made of b"hello\\n"."""
    made = (
        "U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgSRe8AVjBNoqenWUo7adtI1eqYO"
        "Ka5jofvWNjqFYMqz0AAAAKc2luZ2VybGFrZQAAAAAAAAAGc2hhNTEyAAAAUwAAAAtzc2gt"
        "ZWQyNTUxOQAAAED4V1qN1CGMIN/9F9cPMh5mXE61nb5HhdFB4y8b6+I1460dz+tpEJZz2b"
        "vtn/PqDKQ3vMWWNoMpmAVhQTRb7XgM"
    )
    key = "SHA256:YFMvWzGmy1SS6Ey+SZ1BvW8ySUPAiiXX/nSYmTkeR40"
    assert signed_with(b"hello\n", made) == signing_key(made) == key
    assert signed_with(b"hellp\n", made) is None
    assert packed(b"a") == b"\0\0\0\1a"


def test_erase_signs_what_is_left_of_versions(table: Table, lake: Lake) -> None:
    signed(table, "2")
    frozen(filled(lake, 3))
    options = EraseOptions("request 1", signer=BOB)
    done = tables.erase(lake, [EraseRequest(table, ("2",))], options, HERE)
    assert [one.version.number for one in done.signed[table.name]] == [2, 3]
    assert done.is_done
    assert [one.number for one in table.snapshot().frozen if one.signed] == [2, 3]
    assert wrong(verified(table, "2")) == []
    head = table.snapshot().number
    again = tables.erase(lake, [EraseRequest(table, ("2",))], options, HERE)
    assert [one.new for one in again.signed[table.name]] == [False, False]
    assert table.snapshot().number == head
    dumped(table)


def test_erase_whose_signer_fails_has_erased_and_says_so(table: Table, lake: Lake) -> None:
    """The same command signs, later, what the erasure left."""
    asked = [EraseRequest(table, ("2",))]
    done = tables.erase(lake, asked, EraseOptions("request 1", signer=Broken()), HERE)
    assert str(done.unsigned[table.name]) == "the device is gone"
    assert (done.found, done.is_done) == (True, False)
    assert table.snapshot().version("2").rows == 1
    later = tables.erase(lake, asked, EraseOptions("request 1", signer=BOB), HERE)
    assert [one.new for one in later.signed[table.name]] == [True]
    assert wrong(verified(table, "2")) == []
