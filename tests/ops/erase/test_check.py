"""The check finds what was planted, whatever kind of object it is in, and nothing elsewhere."""

from __future__ import annotations

import functools
import gzip
import io
import json
import threading
import time
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singerlake.errors import NotFoundError
from singerlake.format.annotations import Publication
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops.erase import parquet, reading
from singerlake.ops.erase.check import Places, Report, check
from singerlake.ops.erase.sought import Text
from singerlake.publish import registry
from singerlake.storage.base import StoredCopy
from singerlake.storage.local.store import LocalStore
from tests.cli import call
from tests.ops.erase import planted
from tests.ops.erase.containers import arrow
from tests.ops.erase.planted import KEY, NAME, ONLY_TEXTS, ROW, TEXT, WITH_ROWS
from tests.target import harness

DATA_FILE = "t-20260102T030405000006Z-20260102T030405000006Z-0123456789abcdef"
BY_TEXT = ("erase", "--search", "--text", TEXT)
BY_KEY = ("erase", "--search", str(NAME), "--key", KEY)


@pytest.fixture
def lake(lake: Lake) -> Lake:
    return planted.innocent(lake)


@pytest.mark.parametrize("args", [BY_TEXT, BY_KEY])
def test_a_lake_without_her(lake: Lake, args: tuple[str, ...]) -> None:
    document = call.run_json(lake, *args)
    assert document["found"] == document["not_read"] == []
    assert document["objects"] == len([*lake.store.list("")])


@pytest.mark.parametrize("what", [*WITH_ROWS, *ONLY_TEXTS])
def test_a_planted_text_is_found(lake: Lake, what: str) -> None:
    key, data = {**WITH_ROWS, **ONLY_TEXTS}[what]
    planted.plant(lake.store, key, data)
    document = call.run_json(lake, *BY_TEXT, code=5)
    assert [(one["key"], one["sought"]) for one in document["found"]] == [(key, "text 1")]
    assert document["not_read"] == []


@pytest.mark.parametrize("what", WITH_ROWS)
def test_a_planted_row_is_found(lake: Lake, what: str) -> None:
    key, data = WITH_ROWS[what]
    planted.plant(lake.store, key, data)
    document = call.run_json(lake, *BY_KEY, code=5)
    assert [(one["key"], one["sought"], one["count"]) for one in document["found"]] == [
        (key, "key 1", 1)
    ]
    assert call.run_json(lake, "erase", "--search", str(NAME), "--key", "4712")["found"] == []


@pytest.mark.parametrize("what", ONLY_TEXTS)
def test_words_about_her_are_no_rows(lake: Lake, what: str) -> None:
    planted.plant(lake.store, *ONLY_TEXTS[what])
    assert call.run_json(lake, *BY_KEY)["found"] == []


def test_what_each_object_is_said_to_be(lake: Lake) -> None:
    planted.commit(lake, ROW)
    for what in ("a staged file", "an index", "data that no log names"):
        planted.plant(lake.store, *WITH_ROWS[what])
    said = {one["words"] for one in call.run_json(lake, *BY_KEY, code=5)["found"]}
    assert said == {
        "data of the table",
        "a data file that no transaction lists: a vacuum deletes it",
        "a materialized snapshot, which can be deleted at any time",
        "staged by a writer, not published: a vacuum removes it",
    }


def test_every_place_of_the_format_is_known_by_its_name(lake: Lake) -> None:
    page = (Path(__file__).parents[3] / "docs" / "internals" / "format.md").read_text(
        encoding="utf-8"
    )
    layout = page.partition("## Layout")[2].split("```")[1]
    written = {
        "<hash>": "abcdefg",
        "<stream>-<first>-<last>-<id>": DATA_FILE,
        "<tap>": "tap",
        "<stream>": "t",
        "<transaction>": "3",
        "part-<id>": f"part-{0:032x}",
        "<reader>": "r",
        "<pipeline>": "dev%3Atap-a-to-target-b",
        "<digits>": "0123",
        "<ab>": "ab",
        "<sha256>": "ab" * 32,
        "<id>": f"{0:032x}",
    }
    places = Places(lake)
    kinds = {}
    for line in layout.strip().splitlines():
        key = line.split()[0]
        for placeholder, value in written.items():
            key = key.replace(placeholder, value)
        kinds[key] = places.of(key).kind
    assert len(kinds) > 15
    assert [key for key, kind in kinds.items() if kind == "other"] == []


def test_ctrl_c_waits_for_no_object(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PIECE_BYTES", 1 << 10)
    planted.plant(lake.store, "large", b"x" * (64 << 20))  # takes minutes in such pieces
    begun = threading.Event()
    look = LocalStore.read_copy

    def slow(self: LocalStore, copy: StoredCopy, offset: int, length: int) -> bytes:
        if copy.key == "large" and offset:
            begun.set()
            time.sleep(0.01)
        return look(self, copy, offset, length)

    def interrupt(_: Report) -> None:
        assert begun.wait(30)
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalStore, "read_copy", slow)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        check(lake, [Text("text 1", TEXT)], progress=interrupt)
    assert time.monotonic() - started < 30


def test_the_same_key_in_another_table_is_told_but_counts_only_if_computed_from_it(
    lake: Lake,
) -> None:
    planted.commit(lake, ROW, table=TableName("tap", "other"))
    document = call.run_json(lake, *BY_KEY)
    assert (document["found"], document["alike"]) == ([], {"tap.other": 1})
    said = {"sources": [{"table": "tap.t", "version": None, "transaction": 1}]}
    planted.commit(lake, ROW, table=TableName("staging", "t"), metadata=said)
    above = {"sources": [{"table": "staging.t", "version": None, "transaction": 1}]}
    planted.commit(lake, ROW, table=TableName("staging", "more"), metadata=above)
    document = call.run_json(lake, *BY_KEY, code=5)
    assert {one["table"] for one in document["found"]} == {"staging.t", "staging.more"}
    assert document["alike"] == {"tap.other": 1}


def test_real_refused_lines(tmp_path: Path) -> None:
    uri = tmp_path / "lake"
    lines = [
        harness.schema("a", keys=["id"]),
        harness.record("a", {"id": 1}),
        b'{"type":"RECORD","stream":"a","record":{"id":4711,"x":01}}',
        b'{"type":"RECORD","stream":"a","record":{"id":4712,"x":"\xff"}}',
    ]
    harness.run(uri, lines, invalid_records="quarantine")
    lake = Lake.open(str(uri))
    table = f"{harness.TAP}.a"
    for key in ("4711", "4712"):
        found = call.run_json(lake, "erase", "--search", table, "--key", key, code=5)["found"]
        assert [one["table"] for one in found] == [f"{table}__rejected"]
    assert call.run_json(lake, "erase", "--search", table, "--key", "4713")["found"] == []


def test_of_a_dropped_table_too(lake: Lake) -> None:
    planted.commit(lake, ROW)
    assert call.run(lake, "drop", str(NAME), "--yes").exit_code == 0
    assert call.run(lake, *BY_KEY).exit_code == 5


def test_the_table_is_named_in_any_spelling_of_its_key(lake: Lake) -> None:
    line = json.dumps(ROW).replace("4711", "4.711e3").encode()
    planted.plant(lake.store, "backup/t.jsonl", line)
    assert len(call.run_json(lake, *BY_KEY, code=5)["found"]) == 1


def test_typed_columns_are_searched_as_they_are_spelled(lake: Lake) -> None:
    columns = {
        "phone": pa.array([4930123456], pa.int64()),
        "born": pa.array([0], pa.timestamp("us", "UTC")),
        "seen": pa.array([1], pa.timestamp("ns")),
        "pair": pa.array([["a", "inner"]], pa.list_(pa.string(), 2)),
        "none": pa.nulls(1),
        "yes": pa.array([True]),
        "paid": pa.array(["17.50"]).cast(pa.decimal128(38, 2)),
    }
    planted.plant(lake.store, f"index/tap/t/3/part-{0:032x}.parquet", planted.parquet(**columns))
    for text in ("4930123456", "1970-01-01", "1970-01-01T00:00:00Z", "17.50", "inner"):
        assert call.run(lake, "erase", "--search", "--text", text).exit_code == 5, text
    assert call.run(lake, "erase", "--search", "--text", "1971-01-01").exit_code == 0


def test_a_column_that_cannot_be_searched_is_no_proof(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: pa.DataType) -> bool:
        raise pa.ArrowNotImplementedError("Unsupported cast")

    monkeypatch.setattr(parquet, "_TEXTS", (refuse,))
    planted.plant(lake.store, "x.parquet", planted.parquet(a=[1]))
    (unread,) = call.run_json(lake, *BY_TEXT, code=5)["not_read"]
    assert unread["why"].endswith("or has columns of a kind that cannot be searched")


def test_row_groups_are_read_some_rows_at_a_time(lake: Lake) -> None:
    sink = io.BytesIO()
    numbers = [*range(30_000), int(KEY)]
    pq.write_table(pa.table({"id": numbers}), sink, row_group_size=12_000)
    planted.plant(lake.store, f"index/tap/t/3/part-{0:032x}.parquet", sink.getvalue())
    (found,) = call.run_json(lake, *BY_KEY, code=5)["found"]
    assert found["count"] == 2


@pytest.mark.parametrize(
    ("key", "data"),
    [
        ("x.parquet", planted.parquet(a=["Ada"])[:-9]),
        (f"index/tap/t/3/part-{0:032x}.parquet", b"PAR1"),
        ("x.gz", gzip.compress(b"", mtime=0)[:10] + b"\xff" * 30),
    ],
)
def test_what_cannot_be_read_is_no_proof(lake: Lake, key: str, data: bytes) -> None:
    planted.plant(lake.store, key, data)
    document = call.run_json(lake, *BY_TEXT, code=5)
    assert [one["key"] for one in document["not_read"]] == [key]
    text = call.run(lake, *BY_TEXT).stdout
    assert f"not read: {key}: " in text
    assert "not found, but not all could be read" in text


def test_packed_files_are_told(lake: Lake) -> None:
    planted.plant(lake.store, "raw/tap/t/files/x.docx", b"PK\x03\x04...")
    document = call.run_json(lake, *BY_TEXT)
    assert document["packed"] == {"a ZIP archive, or an office document": 1}


_GZIP = gzip.compress(TEXT.encode(), mtime=0)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (zlib.compress(TEXT.encode()), "compressed with zlib"),
        (b"a line\n" + _GZIP, "gzip amid other bytes"),
        (
            functools.reduce(lambda data, _: gzip.compress(data, mtime=0), range(4), _GZIP),
            "gzip within",
        ),
        (gzip.compress(b"PK\x03\x04...", mtime=0), "a ZIP archive"),
        (gzip.compress(planted.parquet(a=[TEXT]), mtime=0), "Parquet within gzip"),
        (gzip.compress(arrow(b"Ada", "lz4", pa.ipc.new_file), mtime=0), "Arrow within gzip"),
        (planted.parquet(a=[b"no", _GZIP]), "compressed documents in columns"),
        (planted.parquet(a=[{"b": [b"%PDF-1.7"]}]), "compressed documents in columns"),
        (planted.parquet(a=[b"no"]), None),
        (b"x^y is a power, " * 9, None),
    ],
)
def test_what_is_packed_is_counted_by_its_first_bytes(
    lake: Lake, data: bytes, words: str | None
) -> None:
    planted.plant(lake.store, "x", data)
    report = check(lake, [Text("text 1", "nobody")])
    assert report.is_clean
    assert [one[: len(words or "")] for one in report.packed] == ([words] if words else [])


def test_symbolic_links_are_listed_and_all_else_is_read(lake: Lake, tmp_path: Path) -> None:
    root = Path(lake.store.uri)
    (root / "backup").symlink_to(tmp_path)
    (root / "raw" / "tap" / "t" / "link").symlink_to(tmp_path / "nothing")
    planted.plant(lake.store, "x", TEXT.encode())
    document = call.run_json(lake, *BY_TEXT, code=5)
    assert [one["key"] for one in document["not_read"]] == ["backup", "raw/tap/t/link"]
    assert "is a symbolic link" in document["not_read"][0]["why"]
    assert [one["key"] for one in document["found"]] == ["x"]
    assert "not read: backup: it is a symbolic link" in call.run(lake, *BY_TEXT).stdout


def test_what_is_deleted_meanwhile_is_no_finding(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = LocalStore.copies
    gone = StoredCopy("raw/tap/t/leases/gone.json", 9)
    monkeypatch.setattr(LocalStore, "copies", lambda self: iter([gone, *copies(self)]))
    assert call.run_json(lake, *BY_TEXT)["not_read"] == []


def test_nothing_sought_is_repeated(lake: Lake, tmp_path: Path) -> None:
    planted.commit(lake, ROW)
    texts = tmp_path / "texts"
    texts.write_text(f"{TEXT}\n\nnobody\n")
    result = call.run(
        lake, "erase", "--search", str(NAME), "--texts-from", str(texts), "--key", KEY
    )
    assert result.exit_code == 5
    assert TEXT not in result.output
    assert KEY not in result.output
    for label in ("text 1", "key 1"):
        assert label in result.stdout
    again = call.run(lake, "erase", "--search", "--texts-from", "-", input=f"{TEXT}\n")
    assert again.exit_code == 5


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["tap.t", "--key", "1"], 2, "give the reason"),
        (["--search"], 2, "specify what to search for"),
        (["--search", "--key", "1"], 2, "--key needs the TABLE"),
        (["--search", "tap.t", "--text", ""], 2, "is empty"),
        (["--search", "tap.t.1", "--key", "1"], 2, "is a version"),
        (["--search", "tap.t", "--key", '["1"]'], 2, "id (a whole number): give its value alone"),
        (["--search", "tap.t", "--key", ""], 2, "a whole number"),
        (["--search", "tap.u", "--key", "1"], 3, "no table tap.u"),
        (["--search", "--texts-from", "/nowhere"], 3, "there is no file /nowhere"),
    ],
)
def test_what_is_asked_wrongly(lake: Lake, args: list[str], code: int, words: str) -> None:
    result = call.run(lake, "erase", *args)
    assert result.exit_code == code
    assert words in result.stderr


def test_a_table_whose_log_is_gone_has_no_key(lake: Lake) -> None:
    for item in [*lake.store.list("raw/tap/t/")]:
        lake.store.delete(item.key)
    with pytest.raises(NotFoundError):
        lake.table(NAME).snapshot()
    done = call.run(lake, *BY_KEY)
    assert done.exit_code == 5, done.output
    assert "catalogue.json lists it" in done.output


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_what_is_published_is_looked_through(lake: Lake, tmp_path: Path, form: str) -> None:
    """A row of the key where it is of the table; a text anywhere; what is not there is no worry."""
    out = tmp_path / "out"
    (out / "v1").mkdir(parents=True)
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist([ROW]), out / "v1" / "part.parquet")
    else:
        (out / "v1" / "part.jsonl").write_text(json.dumps(ROW))
    for name, table in (("people", str(NAME)), ("gone", str(NAME)), ("others", "tap.none")):
        to = str(out if name == "people" else tmp_path / name)
        registry.enter(lake, name, Publication(tables=[table], to=to, format=form))
    for args in (BY_TEXT, BY_KEY):
        document = call.run_json(lake, *args, code=5)
        found = [(one["key"], one["kind"], one["words"]) for one in document["found"]]
        assert found == [(f"{out}/v1/part.{form}", "published", "published as people")]
        assert document["not_read"] == []
    registry.enter(lake, "people", Publication(tables=["tap.none"], to=str(out), format=form))
    assert call.run_json(lake, *BY_KEY)["found"] == [], "which is somebody else's row"
    registry.enter(lake, "people", Publication(tables=[str(NAME)], to=str(out), format="csv"))
    notes = call.run(lake, *BY_KEY).stderr
    assert "published as people, rows are csv: search for them with --text" in notes


def test_what_is_published_where_nobody_can_look(lake: Lake) -> None:
    to = Publication(tables=[str(NAME)], to="ftp://somewhere/people", format="csv")
    registry.enter(lake, "people", to)
    result = call.run(lake, *BY_TEXT)
    assert result.exit_code == 0
    assert f"people is published at {to.to}, which is not searched: " in result.stderr
