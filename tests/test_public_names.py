"""What programs may import from ``singerlake``: taking a name away, or moving it, breaks them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import singerlake
from singerlake import errors
from tests.build import commit_rows

NAMES = {"FORMAT", "Lake", "Snapshot", "StoreOptions", "Table", "__version__", "open", "open_file"}
ERRORS = {
    "ConflictError",
    "DamagedError",
    "DataError",
    "DroppedError",
    "InputError",
    "InvalidNameError",
    "InvalidQueryError",
    "LockTimeoutError",
    "MisfitsError",
    "NewerFormatError",
    "NotDurableError",
    "NotFoundError",
    "OutcomeUnknownError",
    "RejectedRowsError",
    "RequirementsError",
    "RuntimeMissingError",
    "SingerlakeError",
    "StoreError",
    "UsageError",
    "ViolationsError",
}
LAKE = {
    "at",
    "catalogue",
    "copy",
    "find",
    "freeze",
    "lake_version",
    "lake_versions",
    "open",
    "publish",
    "query",
    "table",
    "tables",
    "taps",
}
TABLE = {
    "at",
    "change",
    "entries",
    "erase",
    "freeze",
    "history",
    "lease",
    "open_file",
    "publish",
    "read_block",
    "revert",
    "snapshot",
    "snapshot_at",
    "vacuum",
    "verify",
    "versions",
    "writer",
}
STATE = {
    "files",
    "has_files",
    "indexed",
    "scan_polars",
    "scanner",
    "schema",
    "to_arrow",
    "to_duckdb",
    "to_pandas",
    "to_polars",
    "to_spark",
    "transaction",
}
OLD = Path(__file__).parent / "lakes" / "format-1"


def test_the_public_names() -> None:
    assert set(singerlake.__all__) == NAMES | ERRORS
    for name in singerlake.__all__:
        assert getattr(singerlake, name) is not None, name
    assert set(singerlake.__all__) <= set(dir(singerlake))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = singerlake.nonsense  # type: ignore[attr-defined]


def test_a_lake_is_opened_by_a_path(tmp_path: Path) -> None:
    lake = singerlake.open(tmp_path / "lake", create=True)
    assert lake.store.uri == str(tmp_path / "lake")


def test_every_error_is_public() -> None:
    kinds = {name for name, one in vars(errors).items() if inspect.isclass(one)}
    assert kinds == ERRORS
    for name in ERRORS:
        assert issubclass(getattr(singerlake, name), singerlake.SingerlakeError), name


def test_what_a_lake_and_a_table_offer() -> None:
    for kind, expected in (
        (singerlake.Lake, LAKE),
        (singerlake.Table, TABLE),
        (singerlake.Snapshot, STATE),
    ):
        methods = {name for name in dir(kind) if not name.startswith("_")}
        assert expected <= methods
        assert all(inspect.getdoc(getattr(kind, name)) for name in methods)


def test_a_lake_is_opened_and_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = singerlake.open(str(OLD))
    assert [str(name) for name in lake.tables("made")] == ["made.totals"]
    assert [version.number for version in lake.table("tap-shop.orders").versions()] == [1, 2, 3]
    with pytest.raises(singerlake.NotFoundError, match="has no table tap-shop.nothing"):
        lake.table("tap-shop.nothing")
    with pytest.raises(singerlake.UsageError, match="is a version of tap-shop.orders"):
        lake.table("tap-shop.orders.1")
    monkeypatch.setenv("SINGERLAKE_LAKE", str(tmp_path / "mine"))
    with pytest.raises(singerlake.NotFoundError, match="there is no lake at"):
        singerlake.open()
    mine = singerlake.open(create=True)
    commit_rows(mine, "tap-a.b", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    assert [str(name) for name in singerlake.open().tables()] == ["tap-a.b"]


@pytest.mark.usefixtures("processes")
def test_importing_it_is_cheap() -> None:
    """Each command does it first of all. A lake may be looked into without Spark or S3."""
    code = (
        "import sys; before = set(sys.modules); import singerlake; new = set(sys.modules) - before;"
        "ours = {'singerlake', 'singerlake.errors', 'singerlake.version'};"
        "assert {name for name in new if name.startswith('singerlake')} == ours, new;"
        "assert not new & {'msgspec', 'orjson', 'logging', 'json', 'inspect'}, new;"
        f"singerlake.open({str(OLD)!r}).table('tap-shop.orders').versions();"
        "dear = {'pyspark', 'py4j', 'pyarrow', 'boto3', 'click', 'rich', 'singer_sdk', 'numpy'};"
        "assert not dear & set(sys.modules), dear & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
