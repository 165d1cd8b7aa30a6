"""Signatures of all versions of a lake version."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import pytest

from singerlake import api
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import DamagedError, RequirementsError, SingerlakeError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.freeze import FreezeOptions, freeze
from singerlake.ops.freeze_lake import LakeFreezeOptions, LakeFrozen, freeze_lake, plan
from singerlake.ops.sign.sign import TRIAL
from singerlake.ops.verify.verify import verify
from singerlake_cli import live_line, signing
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.sshsig import NAMESPACE, Allowed, Key

HERE = EngineChoice(LOCAL)
COLUMNS: dict[str, Any] = {"id": {"type": "integer"}}
A, B = TableName("tap", "a"), TableName("tap", "b")
ADA, BOB = Key(), Key()
SIGNERS = Allowed({"ada@example.org": ADA})


@pytest.fixture
def tables(lake: Lake) -> Lake:
    """Two tables, of which one has a version of its head."""
    for name in (A, B):
        commit_rows(lake, str(name), COLUMNS, ["id"], [{"id": 1}])
    freeze(lake.table(A), FreezeOptions(), HERE)
    return lake


class Counting(Key):
    """A key that notes what it signs, and breaks after so many texts."""

    def __init__(self, most: int = 99) -> None:
        super().__init__(ADA.private)
        self.most = most
        self.texts: list[bytes] = []

    def sign(self, text: bytes, namespace: bytes = NAMESPACE) -> str:
        if len(self.texts) >= self.most:
            raise SingerlakeError("the device is gone")
        self.texts.append(text)
        return super().sign(text, namespace)


def frozen(lake: Lake, signer: Any = ADA, **options: Any) -> LakeFrozen:
    asked = LakeFreezeOptions(signer=signer, **options)
    return freeze_lake(lake, plan(lake, lake.tables, asked), asked, HERE)


def signed(lake: Lake) -> dict[str, list[int]]:
    """The versions of each table that have a signature."""
    return {
        name.stream: [one.number for one in lake.table(name).snapshot().frozen if one.signed]
        for name in lake.tables()
    }


def heads(lake: Lake) -> dict[str, int]:
    return {name.stream: lake.table(name).snapshot().number for name in lake.tables()}


def test_each_version_of_a_lake_version_is_signed(tables: Lake) -> None:
    """Also one that was there already."""
    done = frozen(tables)
    assert (done.new, done.made, done.failed) == (True, [B], {})
    assert [(name, one.new) for name, one in done.signed.items()] == [(A, True), (B, True)]
    assert signed(tables) == {"a": [1], "b": [1]}
    for name in (A, B):
        assert done.tables[name].signed == [done.signed[name].signature]
        assert verify(tables.table(name), "1", HERE, SIGNERS).problems == []


def test_second_run_signs_nothing_and_asks_the_key_for_nothing(tables: Lake) -> None:
    first, before = frozen(tables), heads(tables)
    key = Counting()
    again = frozen(tables, key)
    assert (again.new, again.version) == (False, first.version)
    assert [one.new for one in again.signed.values()] == [False, False]
    assert (key.texts, heads(tables)) == ([], before)


def test_key_that_cannot_sign_is_an_error_before_anything_is_frozen(tables: Lake) -> None:
    before = heads(tables)
    with pytest.raises(SingerlakeError, match="device is gone"):
        frozen(tables, Counting(0))
    assert (heads(tables), tables.lake_versions()) == (before, [])


def test_key_is_tried_before_requirements_are_measured(tables: Lake) -> None:
    key = Counting()
    with pytest.raises(RequirementsError):
        frozen(tables, key, require=["rows > 7"])
    assert key.texts == [TRIAL]
    assert signed(tables) == {"a": [], "b": []}


def test_key_that_breaks_half_way_leaves_no_lake_version(tables: Lake) -> None:
    done = frozen(tables, Counting(2))  # the trial, and the first table
    assert (done.version, done.made) == (None, [B])
    assert {name: str(error) for name, error in done.failed.items()} == {B: "the device is gone"}
    assert done.tables.keys() == {A, B}
    assert (signed(tables), tables.lake_versions()) == ({"a": [1], "b": []}, [])
    key = Counting()
    later = frozen(tables, key)
    assert (later.new, later.made, signed(tables)) == (True, [], {"a": [1], "b": [1]})
    assert [one.new for one in later.signed.values()] == [False, True]
    assert len(key.texts) == 2


def test_tables_beside_a_damaged_one_are_signed_and_no_lake_version_is_made(tables: Lake) -> None:
    wanted = plan(tables, tables.tables, LakeFreezeOptions())
    for file in Path(tables.store.uri, "raw/tap/b").rglob("*.singer.gz"):
        file.write_bytes(b"")
    done = freeze_lake(tables, wanted, LakeFreezeOptions(signer=ADA), HERE)
    assert [type(error) for error in done.failed.values()] == [DamagedError]
    assert (done.version, [*done.failed], [*done.signed]) == (None, [B], [A])


def test_other_key_signs_what_is_signed_already(tables: Lake) -> None:
    frozen(tables)
    done = frozen(tables, BOB)
    assert (done.new, [one.new for one in done.signed.values()]) == (False, [True, True])
    assert len(done.tables[A].signed) == 2


def test_python_signs_each_version_of_a_lake_version(
    tables: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("singerlake.ops.sign.openssh.SigningKey.of", lambda _: ADA)
    lake = api.Lake(tables.store)
    assert lake.freeze("q3", sign=tmp_path / "key", engine="local").label == "q3"
    assert signed(tables) == {"a": [1], "b": [1]}


@pytest.fixture
def key_of_cli(monkeypatch: pytest.MonkeyPatch) -> Counting:
    key = Counting()
    monkeypatch.setattr("singerlake.ops.sign.openssh.SigningKey.of", lambda _: key)
    return key


def test_command_prints_what_is_signed_and_what_is_not(tables: Lake, key_of_cli: Counting) -> None:
    key_of_cli.most = 2
    done = run(tables, "freeze", "--all", "--sign", "key")
    by = f"is signed with {ADA.fingerprint}"
    assert done.exit_code == 1
    assert f"tap.a version 1 {by} (transaction 3)" in done.stdout
    assert "tap.b version 1: 1 row" in done.stdout
    assert "tap.b version 1 is signed" not in done.stdout
    assert "tap.b: the device is gone" in done.stderr
    assert "not signed: tap.b.1: run this command again, or sign them with: " in done.stderr
    assert "singerlake sign tap.b.1 --key FILE" in done.stderr
    assert "no lake version was created" in done.stderr
    key_of_cli.most = 99
    done = run(tables, "freeze", "--all", "--sign", "key")
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"tap.a version 1 has a signature of {ADA.fingerprint} already" in done.stdout
    assert f"tap.b version 1 {by} (transaction 3)" in done.stdout
    assert "lake version 1: 2 tables" in done.stdout
    found = run_json(tables, "freeze", "tap", "--sign", "key")
    (listed,) = run_json(tables, "versions", "tap.b")
    for one in (found["tables"][1], run_json(tables, "freeze", "tap.b"), listed):
        (signature,) = one["signed"]
        assert (signature["key"], signature["current"]) == (ADA.fingerprint, True)


def test_live_line_waits_while_a_key_may_ask(key_of_cli: Counting) -> None:
    stream = io.StringIO()
    drawing = threading.Thread(target=live_line.draw, args=(stream, "freezing tap.a"))

    class Asking(Counting):
        def sign(self, text: bytes, namespace: bytes = NAMESPACE) -> str:
            drawing.start()
            drawing.join(0.05)
            assert stream.getvalue() == ""
            return super().sign(text, namespace)

    assert signing.ShownSigner(Asking()).sign(b"text")
    drawing.join()
    assert "freezing tap.a" in stream.getvalue()
    live_line.erase()
