"""Records that come in files are the records that come line by line."""

from __future__ import annotations

import gzip
import json
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from singerlake.errors import InputError
from target_singerlake import reader
from target_singerlake.batches import columns as columns_module
from target_singerlake.errors import MissingKeyError
from tests.target.batches import FORMS, batch, jsonl, rows_of
from tests.target.harness import (
    activate,
    lines_of,
    record,
    records_of,
    run,
    schema,
    state,
    tables,
)

SPEC: dict[str, Any] = {
    "id": {"type": "integer"},
    "name": {"type": ["null", "string"]},
    "x": {"type": ["null", "number"]},
    "cents": {"type": ["null", "number"], "multipleOf": 0.01},
    "on": {"type": ["null", "boolean"]},
    "day": {"type": ["null", "string"], "format": "date"},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "tags": {"type": ["null", "array"], "items": {"type": ["null", "string"]}},
    "place": {
        "type": ["null", "object"],
        "properties": {"zip": {"type": ["null", "string"]}, "no": {"type": ["null", "integer"]}},
    },
    "any": {},
}
SCHEMA = schema("s", SPEC, ["id"])


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
floats = st.floats(allow_nan=False, allow_infinity=False)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(-(1 << 63), (1 << 63) - 1),
            "name": maybe(texts),
            "x": maybe(floats),
            "cents": maybe(st.integers(-(10**9), 10**9).map(lambda n: float(Decimal(n) / 100))),
            "on": maybe(st.booleans()),
            "day": maybe(st.dates().map(date.isoformat)),
            "at": maybe(st.datetimes().map(lambda t: t.isoformat() + "Z")),
            "tags": maybe(st.lists(maybe(texts), max_size=3)),
            "place": maybe(
                st.fixed_dictionaries({"zip": maybe(texts), "no": maybe(st.integers(0, 99))})
            ),
            "any": maybe(texts),
        }
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.usefixtures("many_cases")
@given(ROWS, st.sampled_from(sorted(FORMS)), st.booleans(), st.integers(0, 8))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_state_is_the_same_whichever_way_it_came(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, Any]],
    form: str,
    versions: bool,
    cut: int,
) -> None:
    folder = tmp_path_factory.mktemp("both")
    parts = [part for part in (rows[:cut], rows[cut:]) if part]
    files = [folder / f"{n}.what" for n, _ in enumerate(parts)]
    for file, part in zip(files, parts, strict=True):
        file.write_bytes(FORMS[form](part))
    more = {"version": 7} if versions else {}
    last = [activate("s", 7)] if versions else []
    lines = [record("s", row, **more) for row in rows]
    old = record("s", {"id": 1, "name": "old"})
    run(folder / "lines", [SCHEMA, old, *last, *lines, *last, state(1)])
    one = [batch("s", file) for file in files]
    config = {"batch_roots": [str(folder)]}
    states = run(folder / "files", [SCHEMA, old, *last, *one, *last, state(1)], **config)
    assert states == [1]
    assert rows_of(folder / "files", "s") == rows_of(folder / "lines", "s")
    several = run(folder / "one", [SCHEMA, old, *last, batch("s", *files), state(1)], **config)
    assert several == [1]
    assert rows_of(folder / "one", "s") == rows_of(folder / "lines", "s")


ODD = [
    b'{"id": 1 , "x":1.10, "x":1e5,"new":"\\u00e9\\/"}',
    b'{"id":2,"big":123456789012345678901234567890}',
    '{"id":3,"name":"é \u2028 }\\n{"}'.encode(),
]
"""Records whose bytes anybody who reads and writes them would change."""


@pytest.mark.parametrize(
    "text",
    [
        b"\n".join(ODD),
        b"\r\n".join(ODD) + b"\r\n",
        b"\xef\xbb\xbf" + b"\n".join(ODD) + b"\n",
        b"\n\n" + b"\n \t\r\n".join(ODD) + b"\n\n\n",
        b" " + b" \n\t".join(ODD) + b" ",
    ],
    ids=["no final newline", "CRLF", "BOM", "blank lines", "blanks around"],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_lines_keep_their_bytes(tmp_path: Path, text: bytes, zipped: bool) -> None:
    file = tmp_path / "b.json"
    file.write_bytes(gzip.compress(text) if zipped else text)
    run(tmp_path / "lake", [SCHEMA, batch("s", file)], batch_roots=[str(tmp_path)])
    start = b'{"type":"RECORD","stream":"s","record":'
    lines = lines_of(tmp_path / "lake", "s")
    assert [line[len(start) : line.index(b',"time_extracted"')] for line in lines] == ODD
    assert all(line.startswith(start) for line in lines)


def test_many_chunks_and_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "CHUNK", 100)
    rows = [{"id": n, "name": f"n{n}"} for n in range(500)]
    rows[70]["_sdc_extracted_at"] = "2020-01-01T00:00:00+01:00"
    file = tmp_path / "b.json.gz"
    file.write_bytes(gzip.compress(jsonl(rows)))
    config = {"batch_roots": [str(tmp_path)], "block_rows": 7}
    run(tmp_path / "lake", [SCHEMA, batch("s", file), record("s", {"id": 500})], **config)
    assert records_of(tmp_path / "lake", "s") == [*rows, {"id": 500}]
    lines = [json.loads(line) for line in lines_of(tmp_path / "lake", "s")]
    times = {line["time_extracted"] for line in lines if line["record"]["id"] != 70}
    assert lines[70]["time_extracted"] == "2019-12-31T23:00:00.000000Z" not in times


def test_a_message_may_say_version_and_time(tmp_path: Path) -> None:
    file = tmp_path / "b"
    file.write_bytes(jsonl([{"id": 1}]))
    said = batch("s", file, version=3, time_extracted="2020-01-01T01:00:00+01:00")
    odd = batch("s", file, time_extracted='"}', version=None)
    run(tmp_path / "lake", [SCHEMA, said, odd], batch_roots=[str(tmp_path)])
    first, second = map(json.loads, lines_of(tmp_path / "lake", "s"))
    assert (first["version"], first["time_extracted"]) == (3, "2020-01-01T00:00:00.000000Z")
    assert "version" not in second
    assert second["time_extracted"] > "2026"


def test_null_in_one_file_and_text_in_the_next(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("nulls", "texts", "without")]
    for file, rows in zip(
        files,
        [{"id": [1, 2], "name": [None, None]}, {"id": [3], "name": ["x"]}, {"id": [4]}],
        strict=True,
    ):
        pq.write_table(pa.table(rows), file)
    run(tmp_path / "lake", [SCHEMA, batch("s", *files)], batch_roots=[str(tmp_path)])
    found = [row.get("name", "absent") for row in records_of(tmp_path / "lake", "s")]
    assert found == [None, None, "x", "absent"]


def test_what_columns_hold_beyond_the_schema(tmp_path: Path) -> None:
    at = datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
    table = pa.table(
        {
            "id": pa.array([1, 2], pa.uint8()),
            "name": pa.array(["a", None]).dictionary_encode(),
            "at": pa.array([at, None], pa.timestamp("ns", "UTC")),
            "any": pa.array([{"a": 1, "b": None}, None]),
            "_sdc_deleted_at": pa.array([None, at]),
            "time": pa.array([time(1, 2, 3), None]),
            "money": pa.array([Decimal("1.50"), None]),
            "text": pa.array(['é"\n', None]),
            "x": pa.array([1.5, float("nan")]),
        }
    )
    file = tmp_path / "b"
    pq.write_table(table, file)
    config = {"batch_roots": [str(tmp_path)], "non_finite": "string", "validate_records": False}
    run(tmp_path / "lake", [SCHEMA, batch("s", file)], **config)
    first, second = records_of(tmp_path / "lake", "s")
    assert first == {
        "id": 1,
        "name": "a",
        "at": "2020-01-02T03:04:05.000006Z",
        "any": {"a": 1},
        "_sdc_deleted_at": None,
        "time": "01:02:03",
        "money": 1.5,
        "text": 'é"\n',
        "x": 1.5,
    }
    assert second["_sdc_deleted_at"] == "2020-01-02T03:04:05.000006Z"
    assert second["x"] == "NaN"


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"id": 1}, {"id": "x"}], "line 2 of .*b: the record of stream 's', field 'id'"),
        ([{"id": 1, "name": 5}], "line 1 of .*b: the record of stream 's', field 'name'"),
        ([{"name": "x"}], "line 1 of .*b: the record of stream 's' has no value for its key 'id'"),
    ],
)
def test_records_are_validated(
    tmp_path: Path, form: str, rows: list[dict[str, Any]], words: str
) -> None:
    file = tmp_path / "b"
    if form == "parquet" and isinstance(rows[-1].get("id"), str):
        pq.write_table(pa.table({"id": ["1", "x"]}), file)
        words = words.replace("line 2", "line 1")
    else:
        file.write_bytes(FORMS[form](rows))
    with pytest.raises(InputError, match=words) as caught:
        run(tmp_path / "lake", [SCHEMA, batch("s", file), state(1)], batch_roots=[str(tmp_path)])
    assert isinstance(caught.value, MissingKeyError) == ("key" in words)
    assert tables(tmp_path / "lake") == {}
    assert file.exists()


def test_refused_lines_are_kept_with_file_and_line(tmp_path: Path) -> None:
    bad = [b'{"id": "x"} ', b"oops", b'{"id":1},"stream":"t","record":{"id":2}', b"\xff", b"[1]"]
    file = tmp_path / "b.json"
    file.write_bytes(b"\n".join([b'{"id":1}', *bad, b'{"id":3}']))
    pq.write_table(pa.table({"id": [4, None]}), parquet := tmp_path / "c")
    config = {"batch_roots": [str(tmp_path)], "invalid_records": "quarantine"}
    lines = [SCHEMA, record("s", {"id": "y"}), batch("s", file, parquet), state(1)]
    assert run(tmp_path / "lake", lines, **config) == [1]
    assert [row["id"] for row in records_of(tmp_path / "lake", "s")] == [1, 3, 4]
    rows = records_of(tmp_path / "lake", "s__rejected")
    assert [(row["file"], row["line"]) for row in rows] == [
        (None, 2),
        *((str(file), n) for n in range(2, 7)),
        (str(parquet), 2),
    ]
    kept = [row["message"] for row in rows]
    assert kept[1] == '{"id": "x"} '
    assert kept[4] is None
    assert kept[6] == "{}"
    assert rows[1]["reason"].startswith("the record of stream 's', field 'id': ")
    with pytest.raises(InputError, match="max_invalid allows 3"):
        run(tmp_path / "few", lines, **config, max_invalid=3)
    # Each of them comes again under the same key, whichever way.
    assert run(tmp_path / "lake", [SCHEMA, record("s", {"id": "x"})], **config) == []
    assert len(rows_of(tmp_path / "lake", "s__rejected")) == 7


def test_maps_and_flattening(tmp_path: Path) -> None:
    file = tmp_path / "b"
    rows = [{"id": n, "place": {"zip": f"z{n}"}} for n in range(4)]
    file.write_bytes(FORMS["parquet"](rows))
    config = {
        "batch_roots": [str(tmp_path)],
        "stream_maps": {"s": {"__filter__": "id != 2", "twice": "str(id)"}},
        "stream_map_config": {},
        "flattening_enabled": True,
        "flattening_max_depth": 1,
    }
    run(tmp_path / "files", [SCHEMA, batch("s", file)], **config)
    run(tmp_path / "lines", [SCHEMA, *(record("s", row) for row in rows)], **config)
    assert rows_of(tmp_path / "files", "s") == rows_of(tmp_path / "lines", "s")
    assert len(rows_of(tmp_path / "files", "s")) == 3


def test_non_finite_numbers(tmp_path: Path) -> None:
    file = tmp_path / "b"
    file.write_bytes(b'{"id":1,"x":NaN}\n{"id":2}')
    config = {"batch_roots": [str(tmp_path)]}
    with pytest.raises(InputError, match=r"line 1 of .*b is not JSON"):
        run(tmp_path / "lake", [SCHEMA, batch("s", file)], **config)
    run(tmp_path / "lake", [SCHEMA, batch("s", file)], **config, non_finite="null")
    assert records_of(tmp_path / "lake", "s") == [{"id": 1, "x": None}, {"id": 2}]


def test_record_of_too_many_levels_is_refused(tmp_path: Path) -> None:
    def lines(levels: int) -> bytes:
        return b'{"id":1}\n{"id":2,"x":%b}\n' % (b"[" * levels + b"]" * levels)

    file = tmp_path / "b"
    wanted = [schema("s", {"id": {"type": "integer"}, "x": {}}, ["id"]), batch("s", file)]
    file.write_bytes(lines(799))
    with pytest.raises(InputError, match=r"line 2 of .*b is nested more than 800 levels deep"):
        run(tmp_path / "lake", wanted, batch_roots=[str(tmp_path)])
    file.write_bytes(lines(798))
    run(tmp_path / "lake", wanted, batch_roots=[str(tmp_path)])
    assert len(records_of(tmp_path / "lake", "s")) == 2


def test_transactions_are_as_with_records(tmp_path: Path) -> None:
    files = [tmp_path / f"{n}" for n in range(3)]
    for n, file in enumerate(files):
        file.write_bytes(jsonl([{"id": n}]))
    lines = [SCHEMA]
    for n, file in enumerate(files):
        lines += [batch("s", file), state(n)]
    config = {"batch_roots": [str(tmp_path)], "commit_minutes": 0}
    assert run(tmp_path / "each", lines, **config) == [0, 1, 2]
    assert tables(tmp_path / "each") == {"s": 3}
    assert run(tmp_path / "one", lines, **config, atomic=True) == [2]
    assert tables(tmp_path / "one") == {"s": 1}


def test_a_batch_before_its_schema(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 2: a BATCH of stream 't' comes before its SCHEMA"):
        run(tmp_path / "lake", [SCHEMA, batch("t")])


def test_large_columns_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "BATCH_BYTES", 1 << 12)
    monkeypatch.setattr(columns_module, "MAPPED_BYTES", 1)
    long = ["a" * 1000, "b" * 500]
    rows = [{"id": n, "name": long[n % 2], "tags": [long[n % 2]]} for n in range(50)]
    for form in ("parquet", "arrow", "arrow stream"):
        file = tmp_path / form
        file.write_bytes(FORMS[form](rows))
        content = columns_module.Columns(file.open("rb"), file.read_bytes()[:8], "x", 1 << 30)
        sizes = [part.num_rows for part in content.batches()]
        assert sum(sizes) == 50
        assert max(sizes) <= 4
        run(tmp_path / f"{form}-lake", [SCHEMA, batch("s", file)], batch_roots=[str(tmp_path)])
        assert records_of(tmp_path / f"{form}-lake", "s") == rows


WRAPPED = [{"type": "RECORD", "stream": "s", "record": {"id": 1, "name": "a"}}]


@pytest.mark.parametrize("keys", [[], ["id"]], ids=["keyless", "keyed"])
@pytest.mark.parametrize("form", ["jsonl", "jsonl, gzip", "parquet"])
@pytest.mark.parametrize("settings", [{}, {"stream_maps": {"s": {"more": "'x'"}}}], ids=["", "map"])
def test_whole_messages_in_a_file_are_refused(
    tmp_path: Path, form: str, keys: list[str], settings: dict[str, Any]
) -> None:
    file = tmp_path / "a"
    file.write_bytes(FORMS[form](WRAPPED))
    lines = [schema("s", SPEC, keys), batch("s", file), state(1)]
    said = r"line 1 of .*a: it is a whole RECORD message of stream 's', where a file"
    with pytest.raises(InputError, match=said):
        run(tmp_path / "lake", lines, **settings)
    assert tables(tmp_path / "lake") == {}


def test_one_message_among_records_is_put_aside(tmp_path: Path) -> None:
    rows = [{"id": n, "name": "RECORD"} for n in range(50)]
    file = tmp_path / "a"
    file.write_bytes(jsonl([*rows, *WRAPPED, *rows]))
    lines = [schema("s", SPEC), batch("s", file), state(1)]
    run(tmp_path / "lake", lines, invalid_records="quarantine")
    assert records_of(tmp_path / "lake", "s") == [*rows, *rows]
    [row] = records_of(tmp_path / "lake", "s__rejected")
    assert (row["line"], json.loads(row["message"])) == (51, WRAPPED[0])


@pytest.mark.parametrize("keys", [[], ["type"]])
def test_rows_that_look_like_messages_are_rows_where_the_schema_says_so(
    tmp_path: Path, keys: list[str]
) -> None:
    properties = {"type": {"type": "string"}, "stream": {}, "record": {}}
    file = tmp_path / "a"
    file.write_bytes(jsonl(WRAPPED))
    run(tmp_path / "lake", [schema("s", properties, keys), batch("s", file)])
    assert records_of(tmp_path / "lake", "s") == WRAPPED
