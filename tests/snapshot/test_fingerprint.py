from __future__ import annotations

import hashlib
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from blake3 import blake3
from hypothesis import example, given
from hypothesis import strategies as st

from singerlake.format.log import SchemaEntry
from singerlake.format.types import Columns, columns_of
from singerlake.lake import Lake
from singerlake.rows.batches.row_columns import DIGEST
from singerlake.rows.columns import canonical_text
from singerlake.rows.columns.arrow_types import arrow_type
from singerlake.rows.state.fingerprint import Content, Proof, Summer, Sums, digits
from singerlake.rows.state.shape import shape_of
from singerlake.sql.state import index_build, index_rows
from tests.build import commit_rows
from tests.histories.model_machine import set_hash
from tests.sql.index_frames import frame_content, index_content, state_content

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "fingerprints.md"


def texts(properties: dict[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    columns = columns_of(SchemaEntry({"properties": properties}))
    arrays = [
        pa.array([row.get(name) for row in rows], arrow_type(type_)) for name, type_ in columns
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in columns])
    result: list[str] = canonical_text.row_texts(batch, columns).to_pylist()
    return result


def test_a_row_is_written_as_the_page_says() -> None:
    properties = {
        "z": {"type": "integer"},
        "é": {"type": "boolean"},
        'a"\\': {"type": "string"},
        "n": {"type": "number"},
        "d": {"type": "number", "multipleOf": 0.001},
        "day": {"type": "string", "format": "date"},
        "t": {"type": "string", "format": "date-time"},
        "o": {"type": "object", "properties": {"y": {"type": "integer"}, "x": {"type": "string"}}},
        "l": {"type": "array", "items": {"type": "number"}},
        "j": {},
    }
    import datetime as dt

    row = {
        "z": 5, "é": True, 'a"\\': 'q"\\\n\x01é/\x7f', "n": 1e21, "d": Decimal("1.500"),
        "day": dt.date(33, 4, 3), "t": dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc),
        "o": {"y": 1, "x": None}, "l": [1.0, None, -0.0], "j": '{"a": 1}',
    }  # fmt: skip
    assert texts(properties, [row, {}]) == [
        r'{"a\"\\":"q\"\\\n\u0001é/' + "\x7f" + r'","d":1.5,"day":"0033-04-03",'
        r'"j":"{\"a\": 1}","l":[1,null,0],"n":1000000000000000000000,"o":{"y":1},'
        r'"t":"2020-01-02T03:04:05.000000Z","z":5,"é":true}',
        "{}",
    ]


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(-0.0)
@example(1e16)
@example(1e-7)
@example(5e-324)
@example(123456789.125)
def test_numbers_are_plain_and_read_back(value: float) -> None:
    (text,) = texts({"n": {"type": "number"}}, [{"n": value}])
    number = json.loads(text, parse_float=str, parse_int=str)["n"]
    assert "e" not in number.lower()
    assert float(number) == value
    assert number == canonical_text.number_text(value)
    digits_of = Decimal(repr(value)).normalize()
    assert Decimal(number) == digits_of


@given(st.lists(st.one_of(st.text(), st.none()), max_size=8))
def test_strings_are_json(values: list[str | None]) -> None:
    got = texts({"s": {"type": "string"}}, [{"s": value} for value in values])
    assert [json.loads(text).get("s") for text in got] == values
    encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
    assert got == ["{}" if v is None else encoder.encode({"s": v}) for v in values]


nested = st.fixed_dictionaries(
    {},
    optional={
        "s": st.text(max_size=4) | st.none(),
        "n": st.integers(-9, 9) | st.none(),
        "l": st.lists(st.integers(0, 9) | st.none(), max_size=3) | st.none(),
    },
)
NESTED = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "n": {"type": "number"},
        "l": {"type": "array", "items": {"type": "integer"}},
    },
}


@given(st.lists(nested | st.none(), max_size=6), st.integers(0, 6))
def test_structs_and_lists_are_written_by_whole_columns_as_one_by_one(
    values: list[Any], start: int
) -> None:
    (_, struct), (_, lists) = columns_of(
        SchemaEntry({"properties": {"o": NESTED, "a": {"type": "array", "items": NESTED}}})
    )
    whole = pa.array(values, arrow_type(struct)).slice(start)
    expected = [
        None if v is None else canonical_text.value_text(v, struct) for v in whole.to_pylist()
    ]
    assert canonical_text.texts(whole, struct).to_pylist() == expected
    listed = pa.array([values, None, [], values[:1]], arrow_type(lists)).slice(start % 3)
    expected = [
        None if v is None else canonical_text.value_text(v, lists) for v in listed.to_pylist()
    ]
    assert canonical_text.texts(listed, lists).to_pylist() == expected


def batch_of(**columns: Any) -> pa.RecordBatch:
    count = len(next(iter(columns.values())))
    return pa.RecordBatch.from_pydict({**columns, DIGEST: [b"%20d" % n for n in range(count)]})


def summed(batch: pa.RecordBatch, columns: Columns, *proofs: Proof) -> Content:
    """As executors and the driver do it together, a row to each executor."""
    total = Sums(proofs)
    for place in range(batch.num_rows):
        (found,) = Summer(columns, proofs)(iter([batch.slice(place, 1)]))
        total.add(found.to_pylist()[0])
    return total.content()


def test_the_published_vector_of_earlier_versions() -> None:
    (vector,) = re.findall(r"has\s+the fingerprint `([0-9a-f]{32})`", PAGE.read_text("utf-8"))
    columns = columns_of(
        SchemaEntry({"properties": {"id": {"type": "integer"}, "name": {"type": "string"}}})
    )
    found = summed(batch_of(id=[1], name=["a"]), columns, Proof.ACCIDENT, Proof.VALUES)
    assert found.proofs[Proof.ACCIDENT] == vector
    assert found.fingerprint in PAGE.read_text("utf-8")
    twice = summed(batch_of(id=[1, 1], name=["a", "a"]), columns, Proof.ACCIDENT)
    assert (twice.rows, twice.proofs) == (2, {Proof.ACCIDENT: digits(2 * int(vector, 16))})
    plain = sum(
        int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")
        for text in ['{"id":1,"name":"a"}'] * 2
    )
    assert digits(plain) == twice.proofs[Proof.ACCIDENT]


def test_a_row_without_a_digest_is_never_passed_over() -> None:
    batch = pa.RecordBatch.from_pydict({"id": [1], DIGEST: pa.array([None], pa.binary())})
    columns = columns_of(SchemaEntry({"properties": {"id": {"type": "integer"}}}))
    with pytest.raises(AssertionError, match="not every row"):
        summed(batch, columns, Proof.RECORDS)


def test_order_and_partitions_do_not_matter_and_values_do(spark: SparkSession, lake: Lake) -> None:
    from singerlake.sql.state import from_blocks

    columns = {"id": {"type": "integer"}, "v": {"type": "number"}, "s": {}}
    rows: list[Any] = [{"id": n, "v": n / 7, "s": f"é{n}"} for n in range(200)]
    commit_rows(lake, "tap.a", columns, [], rows, block_rows=20)
    commit_rows(lake, "tap.b", columns, ["id"], rows[100:], block_rows=17)
    table_b = lake.find("tap.b")[0]
    index_build.ensure(spark, table_b, table_b.snapshot())
    commit_rows(lake, "tap.b", columns, ["id"], rows[99::-1], block_rows=31)
    changed = [*rows[:-1], {"id": 199, "v": 199 / 7, "s": "é198"}]
    commit_rows(lake, "tap.c", columns, [], changed)
    commit_rows(lake, "tap.d", columns, [], [*rows, rows[0]])
    table_a, table_c, table_d = (lake.find(f"tap.{letter}")[0] for letter in "acd")

    snapshot = table_a.snapshot()
    own = shape_of(snapshot).columns
    frame = from_blocks.rows(spark, table_a, snapshot, digests=True)
    base = frame_content(frame, own)
    assert base.rows == 200
    assert frame_content(frame.repartition(5).orderBy("c1"), own) == base
    assert state_content(spark, table_b, table_b.snapshot()) == base
    built = index_build.ensure(spark, table_b, table_b.snapshot())
    assert index_content(spark, built) == base
    assert frame_content(index_rows.readable(spark, built, digests=True), own) == base
    assert state_content(spark, table_c, table_c.snapshot()).fingerprint != base.fingerprint
    twice = state_content(spark, table_d, table_d.snapshot())
    assert (twice.rows, twice.fingerprint != base.fingerprint) == (201, True)
    assert twice.record_fingerprint != base.record_fingerprint


def test_duckdb_finds_the_same_fingerprints(spark: SparkSession, lake: Lake) -> None:
    """Another engine, from the lake's files and the page alone."""
    duckdb = pytest.importorskip("duckdb")
    from tests.frozen import freeze_on_spark as freeze

    columns = {"name": {"type": "string"}, "id": {"type": "integer"}}
    rows: list[Any] = [{"id": n, "name": f"é {n}" if n % 3 else None} for n in range(100)]
    commit_rows(lake, "tap.s", columns, ["id"], rows)
    table = lake.find("tap.s")[0]
    version = freeze(spark, table)
    built = index_build.ensure(spark, table, table.snapshot())
    files = [str(Path(lake.store.uri, part.key)) for part in built.parts]
    found = duckdb.sql(
        f"""
        SELECT '{{"id":' || id ||
          CASE WHEN name IS NULL THEN '' ELSE ',"name":' || to_json(name) END || '}}', _digest
        FROM read_parquet({files!r})
        """
    ).fetchall()
    assert set_hash(text.encode() for text, _ in found) == version.fingerprint
    assert set_hash(digest for _, digest in found) == version.record_fingerprint
    texts = (json.dumps(row).encode() for row in rows)
    assert {blake3(text).digest()[:20] for text in texts} == {digest for _, digest in found}
