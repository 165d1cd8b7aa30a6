"""Other engines read what is published, and find the same rows, types, nulls and order."""

from __future__ import annotations

import ast
import json
import math
import re
import runpy
import subprocess
import sys
import warnings
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singerlake.publish.projection import Format
from tests.apart import NotInstalledError
from tests.publish import duckdb_apart
from tests.publish.readers_table import PROPERTIES, ROWS, Shelf, publish_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")
fastavro = pytest.importorskip("fastavro")
DOCS = Path(__file__).parents[2] / "docs"
PROGRAM = DOCS / "fingerprint.py"
SCRIPT = runpy.run_path(str(PROGRAM))
NESTED = ("who", "tags", "lines")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Shelf:
    root = tmp_path_factory.mktemp("shelf") / "published"  # as the page has it
    root.mkdir()
    return publish_all(root, spark)


@pytest.fixture(scope="module")
def apart(environments: None) -> Path:
    try:
        return duckdb_apart.installed()
    except NotInstalledError as error:
        pytest.skip(str(error))


def check(found: list[dict[str, Any]], wanted: list[dict[str, Any]] = ROWS) -> None:
    """Hold rows against what is wanted: values and their types, nulls, the sign of zero, order."""
    assert [list(row) for row in found] == [list(row) for row in wanted]
    for row, want in zip(found, wanted, strict=True):
        for name, value in want.items():
            assert (type(row[name]), row[name]) == (type(value), value), (want["id"], name)
    if isinstance(found[1].get("number"), float):
        assert math.copysign(1, found[1]["number"]) == -1


def iceberg(shelf: Shelf) -> Any:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(str(shelf.place(Format.ICEBERG)))


def delta(shelf: Shelf) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(str(shelf.place(Format.DELTA)))


def of_pandas(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.Table.from_pandas(frame, preserve_index=False).to_pylist()
    return rows


# --- formats with types


def test_parquet(shelf: Shelf) -> None:
    file = shelf.file(Format.PARQUET)
    check(pq.read_table(file).to_pylist())
    check(duckdb.sql(f"select * from '{file}'").to_arrow_table().to_pylist())
    check(pl.read_parquet(file).to_dicts())
    check(of_pandas(pd.read_parquet(file, dtype_backend="pyarrow")))


def test_iceberg(shelf: Shelf) -> None:
    with warnings.catch_warnings(action="ignore"):  # another library would plan it faster
        check(pl.scan_iceberg(iceberg(shelf)).collect().to_dicts())
    # pyiceberg 0.12 takes null for an empty list where it holds objects.
    known = [{**row, "lines": row["lines"] or []} for row in ROWS]
    check(iceberg(shelf).scan().to_arrow().to_pylist(), known)
    check(of_pandas(iceberg(shelf).scan().to_pandas(types_mapper=pd.ArrowDtype)), known)
    assert iceberg(shelf).scan().use_ref("v1").to_arrow().num_rows == len(ROWS)


def test_delta(shelf: Shelf) -> None:
    check(delta(shelf).to_pyarrow_table().to_pylist())
    check(pl.read_delta(str(shelf.place(Format.DELTA))).to_dicts())
    check(of_pandas(delta(shelf).to_pandas(types_mapper=pd.ArrowDtype)))


def test_avro(shelf: Shelf) -> None:
    with Path(shelf.file(Format.AVRO)).open("rb") as file:
        check(list(fastavro.reader(file)))
    check(pl.read_avro(shelf.file(Format.AVRO)).to_dicts())


@pytest.mark.usefixtures("environments")
def test_duckdb_with_its_extensions(shelf: Shelf, apart: Path, tmp_path: Path) -> None:
    for format_, scan in ((Format.ICEBERG, "iceberg_scan"), (Format.DELTA, "delta_scan")):
        sql = f"select * from {scan}('{shelf.place(format_)}')"
        check(pq.read_table(duckdb_apart.query(apart, sql, tmp_path / "o")).to_pylist())
    # The extension for Avro knows no decimals, and takes instants for local times.
    left_out = ("large", "money", "exact", "at")
    columns = ", ".join(f'"{name}"' for name in PROPERTIES if name not in left_out)
    sql = f"select {columns} from read_avro('{shelf.file(Format.AVRO)}')"
    known = [{name: row[name] for name in row if name not in left_out} for row in ROWS]
    check(pq.read_table(duckdb_apart.query(apart, sql, tmp_path / "o")).to_pylist(), known)


# --- formats of text


def canonical(row: dict[str, Any]) -> dict[str, str | None]:
    """A row as texts, by the script in docs, which knows nothing of the package."""
    texts: dict[str, str | None] = {}
    for name, value in row.items():
        bare = value is None or isinstance(value, str)
        said = value if bare else SCRIPT["text"](value)
        texts[name] = said.strip('"') if name in ("day", "at") and said else said
    return texts


@pytest.mark.parametrize("format_", [Format.CSV, Format.TSV])
def test_delimited(shelf: Shelf, format_: Format) -> None:
    file, delimiter = shelf.file(format_), "\t" if format_ is Format.TSV else ","
    wanted = [canonical(row) for row in ROWS]
    options = f"all_varchar=true, delim='{delimiter}', quote='\"', escape='\"', header=true"
    found = duckdb.sql(f"select * from read_csv('{file}', {options}, allow_quoted_nulls=false)")
    assert found.to_arrow_table().to_pylist() == wanted
    assert pl.read_csv(file, separator=delimiter, infer_schema=False).to_dicts() == wanted
    # pandas tells no empty text from null.
    table = pd.read_csv(file, sep=delimiter, dtype=str, keep_default_na=False)
    assert table.to_dict("records") == [{k: v or "" for k, v in row.items()} for row in wanted]


def test_json_lines(shelf: Shelf) -> None:
    file = shelf.file(Format.JSONL)
    types = {
        "id": "bigint", "whole": "bigint", "large": "decimal(38,0)", "number": "double",
        "money": "decimal(38,2)", "exact": "decimal(38,18)", "text": "varchar", "day": "date",
        "at": "timestamptz", "yes": "boolean", "who": "struct(first varchar, born date)",
        "tags": "varchar[]", "lines": "struct(sku varchar, n bigint)[]", "json": "varchar",
    }  # fmt: skip
    columns = ", ".join(f"'{name}': '{type_}'" for name, type_ in types.items())
    found = duckdb.sql(f"select * from read_json('{file}', columns={{{columns}}})")
    rows = found.to_arrow_table().to_pylist()
    for row, want in zip(rows, ROWS, strict=True):
        for name, value in want.items():
            lost = name == "exact"  # DuckDB takes a number of many digits for a double first
            near = pytest.approx(value, rel=Decimal("1e-15")) if lost and value else value
            assert row[name] == near, (want["id"], name)
    # Python's own reader keeps what readers that make doubles of all numbers lose.
    with Path(file).open() as lines:
        exact = [json.loads(line, parse_float=Decimal, parse_int=Decimal) for line in lines]
    assert [row["exact"] for row in exact] == [row["exact"] for row in ROWS]
    assert [row["large"] for row in exact] == [row["large"] for row in ROWS]
    assert [row["id"] for row in exact] == [1, 2, 3, 4]
    # Polars and pandas have no numbers of so many digits; they read the others.
    few = Path(file).with_name("few.jsonl")
    with Path(file).open() as lines:
        few.write_text("".join(line for line in lines if '"id":2,' in line or '"id":3,' in line))
    simple = ["id", "whole", "text", "yes", "tags", "json", "day"]
    wanted = [{name: row[name] for name in simple} for row in ROWS[1:3]]
    schema = {**dict.fromkeys(PROPERTIES, pl.String), "id": pl.Int64, "whole": pl.Int64}
    schema |= {"yes": pl.Boolean, "tags": pl.List(pl.String), "day": pl.Date}
    assert pl.read_ndjson(few, schema_overrides=schema).select(simple).to_dicts() == wanted
    table = pd.read_json(few, lines=True, dtype=False, convert_dates=False)
    assert [list(table["text"].fillna("-")), list(table["id"])] == [["", "-"], [2, 3]]


# --- the fingerprint


@pytest.mark.usefixtures("processes")
def test_the_fingerprint_is_computed_by_another_engine(shelf: Shelf) -> None:
    latest = json.loads((shelf.place(Format.PARQUET) / "_latest.json").read_text())
    tables = str(shelf.place(Format.ICEBERG)), str(shelf.place(Format.DELTA))
    places = [
        ("parquet", f"{shelf.place(Format.PARQUET)}/{latest['folder']}*.parquet"),
        *(("iceberg", tables[0], *version) for version in ((), ("v1",))),
        *(("delta", tables[1], *version) for version in ((), ("0",))),
    ]
    with warnings.catch_warnings(action="ignore"):
        found = [SCRIPT["fingerprint"](SCRIPT["frame"](*place)) for place in places]
    assert found == [shelf.fingerprint] * len(places)
    said = subprocess.check_output([sys.executable, PROGRAM, *places[0]], text=True, timeout=120)
    assert said.strip() == shelf.fingerprint


# --- the page


def blocks(language: str) -> list[str]:
    """What stands on the page in one language, as people copy it."""
    page = (DOCS / "guides" / "readers.md").read_text()
    found = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found
    return found


def ids(found: Any) -> list[int]:
    """The ids of rows, whatever library holds them."""
    if isinstance(found, duckdb.DuckDBPyRelation):
        found = found.to_arrow_table()
    column = found["id"]
    return [int(one) for one in (column.to_pylist() if isinstance(found, pa.Table) else column)]


def test_the_blocks_of_the_page(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shelf.root.parent)
    names: dict[str, Any] = {}
    seen = []
    with warnings.catch_warnings(action="ignore"):  # another library would plan it faster
        for node in ast.parse("".join(blocks("python"))).body:
            code = ast.unparse(node)
            if isinstance(node, ast.Expr):
                seen.append(ids(eval(code, names)))
            else:
                exec(code, names)
    assert len(seen) == 11
    assert all(one in ([1, 2, 3, 4], [2, 3, 4]) for one in seen), seen
    (sql,) = blocks("sql")
    *statements, last = (one for one in sql.split(";\n") if one.strip())
    with duckdb.connect() as connection:
        for statement in statements:
            connection.execute(statement)
        found = connection.execute(last).fetchall()
    assert found == [(str(row["id"]), row["text"]) for row in ROWS]


@pytest.mark.usefixtures("environments")
def test_the_blocks_for_duckdbs_extensions(shelf: Shelf, apart: Path, tmp_path: Path) -> None:
    for sql in blocks("sql apart"):
        here = sql.replace("published/", f"{shelf.root}/")
        assert ids(pq.read_table(duckdb_apart.query(apart, here, tmp_path / "o"))) == [2, 3, 4]
