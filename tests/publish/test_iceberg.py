"""What Iceberg tables have and others have not: partitions, sort orders, catalogs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from singerlake.errors import ConflictError, DamagedError, StoreError, UsageError
from singerlake.publish.projection import Format, OrderKey, PartitionKey, Transform
from singerlake.publish.published import Commit
from singerlake.storage.local.store import LocalStore
from tests.publish.table_place import (
    FIRST,
    SECOND,
    Place,
    destination,
    files_of,
    position,
    projection,
    publish,
    rows,
    write,
)

pytest.importorskip("pyiceberg")

NOTHING = timedelta(0)


@pytest.mark.parametrize(
    "key",
    [
        PartitionKey("country"),
        PartitionKey("id"),
        PartitionKey("at", Transform.YEAR),
        PartitionKey("at", Transform.MONTH),
        PartitionKey("at", Transform.DAY),
        PartitionKey("day"),
        PartitionKey("country", Transform.BUCKET, 4),
        PartitionKey("id", Transform.BUCKET, 3),
        PartitionKey("total", Transform.BUCKET, 3),
    ],
    ids=str,
)
def test_partitions_are_those_of_iceberg(tmp_path: Path, key: PartitionKey) -> None:
    from pyiceberg.table import StaticTable

    place = Place(str(tmp_path / "t"), Format.ICEBERG, partition_by=(key,))
    table = pa.table(
        {
            "id": [1, 2, 3, 4],
            "country": ["DE", "", None, "a/b=c %"],
            "at": pa.array([0, -1, 1_600_000_000_000_000, None], pa.timestamp("us", "UTC")),
            "day": pa.array([0, -200_000, 3, None], pa.date32()),
            "total": pa.array(["1.50", "-7.00", None, "0.00"]).cast(pa.decimal128(38, 2)),
        }
    )
    publish(place.open(), table, 1, apart=key)
    assert place.read() == rows(table)
    read = StaticTable.from_metadata(place.root)
    for row in table.to_pylist():
        value = row[key.column]
        if value is None:
            condition = f"{key.column} is null"
        else:
            text = value.isoformat() if hasattr(value, "isoformat") else str(value)
            condition = (
                f"{key.column} = '{text}'" if not isinstance(value, int) else f"id = {value}"
            )
        found = read.scan(row_filter=condition)
        assert [one["id"] for one in found.to_arrow().to_pylist()] == [row["id"]], condition
    moved = place.open()
    base = moved.published()
    assert base is not None
    file = write(moved, table, moved.file_schema(table.schema, base), [base.files[0].partition[0]])
    with pytest.raises(DamagedError, match="another partition"):
        moved.commit(base, Commit(position(2), table.schema, base.files, [file]))


def test_partitions_and_order_change_with_the_definition(tmp_path: Path) -> None:
    from pyiceberg.table import StaticTable

    place = Place(str(tmp_path / "t"), Format.ICEBERG)
    publish(place.open(), FIRST, 1)
    table = StaticTable.from_metadata(place.root)
    assert [str(field) for field in table.sort_order().fields] == ["1 ASC NULLS LAST"]
    key = PartitionKey("name", Transform.BUCKET, 2)
    order = (OrderKey("name", descending=True), OrderKey("id"))
    place.projection = projection(place.root, Format.ICEBERG, partition_by=(key,), order_by=order)
    publish(place.open(), FIRST, 2, apart=key)
    table = StaticTable.from_metadata(place.root)
    assert [str(field) for field in table.sort_order().fields] == [
        "2 DESC NULLS LAST",
        "1 ASC NULLS LAST",
    ]
    assert [str(field.transform) for field in table.spec().fields] == ["bucket[2]"]
    place.projection = projection(place.root, Format.ICEBERG)
    publish(place.open(), FIRST, 3)
    assert StaticTable.from_metadata(place.root).spec().is_unpartitioned()
    assert place.read() == rows(FIRST)


def test_a_catalog_of_ones_own(tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    target = {
        "catalog": {"type": "sql", "uri": f"sqlite:///{tmp_path}/all.db", "name": "house"},
        "identifier": "sales.orders",
    }
    root = str(tmp_path / "t")
    of = projection(root, Format.ICEBERG, target=target)
    base = publish(destination(of, LocalStore(Path(root))), FIRST, 1)
    catalog = SqlCatalog("house", uri=f"sqlite:///{tmp_path}/all.db")
    table = catalog.load_table("sales.orders")
    assert table.scan().to_arrow().to_pylist() == rows(FIRST)
    assert "catalog.db" not in files_of(root)
    # Somebody else may take turns, but what was worked out for another snapshot is refused.
    slow = destination(of, LocalStore(Path(root)))
    mine = write(slow, SECOND, slow.file_schema(SECOND.schema, base))
    publish(destination(of, LocalStore(Path(root))), SECOND, 2, keep=True)
    with pytest.raises(ConflictError):
        slow.commit(base, Commit(position(2), FIRST.schema, base.files, [mine]))
    elsewhere = projection(str(tmp_path / "other"), Format.ICEBERG, target=target)
    with pytest.raises(UsageError, match=r"\(table\)"):
        destination(elsewhere, LocalStore(tmp_path / "other")).published()
    destination(of, LocalStore(Path(root))).sweep(NOTHING)
    destination(of, LocalStore(Path(root))).remove()
    assert files_of(root) == set()
    assert catalog.list_tables("sales") == []
    catalog.engine.dispose()


def test_an_identifier_that_is_none(tmp_path: Path) -> None:
    of = projection(str(tmp_path), Format.ICEBERG, target={"identifier": "orders"})
    with pytest.raises(UsageError, match=r"write namespace\.table"):
        destination(of, LocalStore(tmp_path))
    root = str(tmp_path / "t")
    deep = projection(root, Format.ICEBERG, target={"identifier": "a.b.orders"})
    with pytest.raises(UsageError, match="rejected the table a.b.orders"):
        publish(destination(deep, LocalStore(Path(root))), FIRST, 1)


def test_a_catalog_that_cannot_be_opened_or_reached(tmp_path: Path) -> None:
    root, secret = str(tmp_path / "t"), "hunter-2000"
    cases: list[tuple[dict[str, str], type[Exception]]] = [
        ({"type": "sql", "credential": secret}, UsageError),
        ({"type": "stone", "credential": secret}, UsageError),
        ({"type": "sql", "uri": f"postgresql+nothing://me:{secret}@localhost/x"}, StoreError),
        ({"type": "sql", "uri": f"sqlite:////nowhere/{secret}.db"}, StoreError),
    ]
    for catalog, kind in cases:
        of = projection(root, Format.ICEBERG, target={"catalog": catalog})
        with pytest.raises(kind, match="catalog") as caught:
            destination(of, LocalStore(Path(root))).published()
        assert secret not in str(caught.value)


@pytest.mark.usefixtures("many_cases")
def test_manifests_stay_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.table import StaticTable

    from singerlake.publish.destinations.iceberg import destination as snapshots

    monkeypatch.setattr(snapshots, "MANIFESTS", 4)
    place = Place(str(tmp_path / "t"), Format.ICEBERG)
    publish(place.open(), FIRST, 1)
    for transaction in range(2, 12):
        row = pa.table({"id": [transaction * 10], "name": ["x"]})
        base = publish(place.open(), row, 1, keep=True)
        kept = [file for file in base.files if file.low != transaction * 10 - 10]
        place.open().commit(base, Commit(position(transaction), FIRST.schema, kept, ()))
    table = StaticTable.from_metadata(place.root)
    snapshot = table.current_snapshot()
    assert snapshot is not None and len(snapshot.manifests(table.io)) <= 4
    assert place.read() == [*rows(FIRST), {"id": 110, "name": "x"}]
    place.open().sweep(NOTHING)
    assert place.read() == [*rows(FIRST), {"id": 110, "name": "x"}]
