"""Certificates of erasures: what they contain, and that no value of the person is among it."""

from __future__ import annotations

import hashlib
import html
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from singerlake import api
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.errors import UsageError
from singerlake.format.refused_lines import SCHEMA
from singerlake.format.signed_text import unarmored
from singerlake.lake import Lake, Table
from singerlake.ops.erase import tables
from singerlake.ops.erase.certificate import certificate
from singerlake.ops.erase.certificate_files import CertificateFiles
from singerlake.ops.erase.plan import EraseOptions
from singerlake.ops.erase.table import EraseRequest
from tests.build import commit_rows
from tests.cli.call import run
from tests.frozen import freeze_here
from tests.sshsig import Key, signed_with

HERE = EngineChoice(LOCAL)
ADA = "4711087"
NAME = "Ada Lovelace"
COLUMNS: dict[str, Any] = {"id": {"type": "string"}, "name": {"type": "string"}}
WHY = ("--key", ADA, "--reason", "request 12", "--no-notify", "--engine", "local")
OPTIONS = EraseOptions("request 12")


@pytest.fixture
def table(lake: Lake) -> Table:
    """Two versions with Ada's row, of which she has two."""
    for number, name in enumerate(("Ada L.", NAME)):
        people = [{"id": ADA, "name": name}, {"id": f"other {number}", "name": "Bo"}]
        commit_rows(lake, "tap.people", COLUMNS, ["id"], people)
        freeze_here(lake.find("tap.people")[0])
    return lake.find("tap.people")[0]


def certified(lake: Lake, folder: Path, *more: str, code: int = 0) -> dict[str, Any]:
    done = run(lake, "erase", "tap.people", *WHY, "--certificate", str(folder / "c"), *more)
    assert done.exit_code == code, done.output
    assert f"certificate: {folder / 'c.json'}, {folder / 'c.html'}" in done.stderr
    found: dict[str, Any] = json.loads((folder / "c.json").read_bytes())
    return found


def test_certificate_states_what_was_done_and_searched(
    table: Table, lake: Lake, tmp_path: Path
) -> None:
    found = certified(lake, tmp_path)
    assert found["complete"]
    assert found["asked"]["reason"] == "request 12"
    assert not found["asked"]["text_mentions_allowed"]
    assert not any(one["what"].startswith("text of logs") for one in found["remains"])
    assert found["asked"]["tables"] == [{"table": "tap.people", "rows": "1 by their ids"}]
    (erased,) = found["erased"]
    (done,) = erased["transactions"]
    assert (done["transaction"], done["rows"], done["row_versions"]) == (6, 1, 2)
    assert done["blocks_rewritten"] == 2
    assert done["versions"] == [
        {"version": 1, "rows_before": 2, "rows": 1},
        {"version": 2, "rows_before": 3, "rows": 2},
    ]
    assert erased["objects_deleted"] >= 2
    (searched,) = found["searched"]
    assert (searched["found"], searched["not_read"], searched["objects"] > 4) == ([], [], True)
    (proof,) = found["proofs"]
    log = {entry.number: entry for entry in table.entries()}
    assert proof["log"] == [{"transaction": 6, "chain": log[6].chain}]
    assert [(one["version"], one["rows"]) for one in proof["versions"]] == [(1, 1), (2, 2)]
    assert any("backups" in one["what"] for one in found["remains"])


def test_certificate_has_no_value_and_no_fingerprint(
    table: Table, lake: Lake, tmp_path: Path
) -> None:
    """It is kept outside of the lake, where no later erasure can remove fingerprints."""
    proofs = {one.fingerprint for one in table.snapshot().frozen}
    certified(lake, tmp_path)
    proofs |= {one.fingerprint for one in table.snapshot().frozen}
    for path in (tmp_path / "c.json", tmp_path / "c.html"):
        text = path.read_text()
        assert not [word for word in (ADA, NAME, "Ada L", *proofs) if word in text], path


def test_page_has_the_same_content_and_asks_for_nothing(
    table: Table, lake: Lake, tmp_path: Path
) -> None:
    found = certified(lake, tmp_path)
    text = html.unescape((tmp_path / "c.html").read_text())
    body = text[text.index("</style>") :]
    assert hashlib.sha256((tmp_path / "c.json").read_bytes()).hexdigest() in body
    for word in ("request 12", "tap.people", "Not found", "It is not signed", "backups"):
        assert word in body, word
    assert found["proofs"][0]["log"][0]["chain"] in body
    assert not re.findall(r"(?:src|href)=|@import|url\(", text)


def test_certificate_names_texts_that_were_allowed_to_stay(
    table: Table, lake: Lake, tmp_path: Path
) -> None:
    freeze_here(table, comment=f"as {ADA} asked")
    refused = run(lake, "erase", "tap.people", *WHY)
    assert (refused.exit_code, "--allow-text-mentions" in refused.stderr) == (2, True)
    found = certified(lake, tmp_path, "--allow-text-mentions")
    assert found["asked"]["text_mentions_allowed"]
    (left,) = (one for one in found["remains"] if one["what"].startswith("text of logs"))
    assert "search for texts of the person" in left["why"]
    assert "text of logs, annotations and lake versions" in (tmp_path / "c.html").read_text()


def test_second_run_certifies_what_the_first_erased(
    table: Table, lake: Lake, tmp_path: Path
) -> None:
    """As after a run that was killed before it could certify."""
    first = run(lake, "erase", "tap.people", *WHY)
    assert first.exit_code == 0
    found = certified(lake, tmp_path, code=3)
    assert [one["rows"] for one in found["erased"][0]["transactions"]] == [1]
    other = certificate(
        lake, [], EraseOptions("request 13"), tables.Erased({table.name: tables.ErasedTable()})
    )
    assert (other["erased"], other["searched"]) == ([], [])


def test_certificate_lists_what_is_left(table: Table, lake: Lake, tmp_path: Path) -> None:
    asked = [EraseRequest(table, (ADA,))]
    root = Path(lake.store.uri)
    block = table.snapshot().blocks[0]
    kept = root / "kept-by-hand.singer.gz"
    shutil.copy(root / table.name.data(block.file), kept)
    done = tables.erase(lake, asked, OPTIONS, HERE)
    found = certificate(lake, asked, OPTIONS, done)
    assert (done.is_done, found["complete"]) == (True, False)
    assert not certified(lake, tmp_path, code=4)["complete"]
    (place,) = found["searched"][0]["found"]
    assert (place["object"], place["count"]) == ("kept-by-hand.singer.gz", 1)
    assert any("the search found them" in one["why"] for one in found["remains"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--certificate", "{}/c", "--dry-run"), "leave --dry-run out"),
        (("--certificate", "{}/there.json"), "there.json already exists"),
        (("--certificate", "{}/there"), "there.json already exists: name another\n"),
        (("--certificate", "{}/none/c"), "there is no folder"),
        (("--search", "--certificate", "{}/c"), "--search looks for"),
    ],
)
def test_bad_certificates_are_refused_before_anything_is_erased(
    table: Table, lake: Lake, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    (tmp_path / "there.json").write_text("{}")
    before = table.snapshot().number
    more = [one.format(tmp_path) for one in arguments]
    why = WHY[:2] if "--search" in more else WHY
    done = run(lake, "erase", "tap.people", *why, *more)
    assert (done.exit_code, words in done.stderr) == (2, True), done.output
    assert table.snapshot().number == before


def test_signed_certificate_verifies(table: Table, lake: Lake, tmp_path: Path) -> None:
    key = Key()
    asked = [EraseRequest(table, (ADA,))]
    done = tables.erase(lake, asked, EraseOptions("request 12", signer=key), HERE)
    found = certificate(lake, asked, OPTIONS, done)
    files = CertificateFiles(tmp_path / "c.html", signed=True)
    files.write(found, key.sign)
    signature = unarmored((tmp_path / "c.json.sig").read_text())
    assert signed_with((tmp_path / "c.json").read_bytes(), signature) == key.fingerprint
    for version in found["proofs"][0]["versions"]:
        (own,) = version["signatures"]
        made = signed_with(own["text"].encode(), unarmored(own["signature"]))
        assert own["key"] == made == key.fingerprint
    assert "It is not signed" not in (tmp_path / "c.html").read_text()


def test_certificate_names_what_a_search_by_key_cannot_decide(
    table: Table, lake: Lake, tmp_path: Path
) -> None:
    """Rejected lines may name her in another way, and other tables may have rows of hers."""
    columns = SCHEMA.schema["properties"]
    row = {"digest": "0", "reason": "why", "message_base64": None}
    row["message"] = json.dumps({"id": ADA})
    commit_rows(lake, "tap.people__rejected", columns, ["digest"], [{**row, "message": NAME}])
    commit_rows(lake, "tap.orders", COLUMNS, ["id"], [{"id": "1", "name": "x"}])
    commit_rows(lake, "tap.orders__rejected", columns, ["digest"], [row])
    found = certified(lake, tmp_path)
    assert found["complete"]
    remains = {one["what"]: one["why"] for one in found["remains"]}
    assert "search for texts" in remains["rejected lines in tap.people__rejected"]
    assert "check them" in remains["rows in tap.orders__rejected with the same keys"]


def test_certificate_of_several_tables_says_each_thing_once(
    table: Table, lake: Lake, tmp_path: Path
) -> None:
    for other in ("tap.notes", "tap.orders"):
        commit_rows(lake, other, COLUMNS, ["id"], [{"id": ADA, "name": "x"}])
    remains = certified(lake, tmp_path, "--table", "tap.notes")["remains"]
    assert [one["what"] for one in remains].count("rows in tap.orders with the same keys") == 1


def test_python_writes_and_signs_the_certificate(
    table: Table, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Key()
    monkeypatch.setattr("singerlake.ops.sign.openssh.SigningKey.of", lambda _: key)
    people = api.Lake(lake.store).table("tap.people")
    more: dict[str, Any] = {"reason": "request 12", "certificate": tmp_path / "c", "sign": "key"}
    with pytest.raises(UsageError, match="leave dry_run or certificate out"):
        people.erase([ADA], **more, dry_run=True)
    (tmp_path / "c.html").write_text("")
    with pytest.raises(UsageError, match=r"c\.html already exists: name another$"):
        people.erase([ADA], **more)
    assert table.snapshot().number == 4
    (tmp_path / "c.html").unlink()
    done = people.erase([ADA], **more)
    assert done.certificate is not None
    assert done.certificate["complete"]
    data = (tmp_path / "c.json").read_bytes()
    assert json.loads(data) == done.certificate
    assert signed_with(data, unarmored((tmp_path / "c.json.sig").read_text())) == key.fingerprint
    assert "request 12" in (tmp_path / "c.html").read_text()
    assert ADA not in repr(done)
