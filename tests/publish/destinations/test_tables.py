"""Iceberg and Delta tables meet the contract that every destination meets."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from singerlake.publish.destinations.base import Destination
from singerlake.publish.destinations.opening import open_destination
from singerlake.publish.projection import Format, Projection
from tests.publish.destinations.contract import DestinationContract, Opener, projection

pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")


class _InFolder(DestinationContract):
    format: Format

    @pytest.fixture
    def opener(self) -> Opener:
        return open_destination

    @pytest.fixture
    def wanted(self, tmp_path: Path) -> Projection:
        return projection(str(tmp_path / f"out-{uuid.uuid4().hex[:4]}"), self.format)


class TestIceberg(_InFolder):
    format = Format.ICEBERG

    def read(self, place: Destination) -> list[tuple[object, ...]]:
        return _scan(place, None)

    def read_version(self, place: Destination, version: int) -> list[tuple[object, ...]]:
        return _scan(place, version)


class TestDelta(_InFolder):
    format = Format.DELTA

    def read(self, place: Destination) -> list[tuple[object, ...]]:
        from deltalake import DeltaTable

        return _tuples(DeltaTable(place.target.uri).to_pyarrow_table().to_pylist())

    def read_version(self, place: Destination, version: int) -> list[tuple[object, ...]]:
        from deltalake import DeltaTable

        published = place.published()
        assert published is not None
        said = published.versions[version]
        table = DeltaTable(place.target.uri if " " in said else f"{place.target.uri}/{said}")
        if " " in said:
            table.load_as_version(int(said.rpartition(" ")[2]))
        return _tuples(table.to_pyarrow_table().to_pylist())


def _scan(place: Destination, version: int | None) -> list[tuple[object, ...]]:
    from pyiceberg.table import StaticTable

    scan = StaticTable.from_metadata(place.target.uri).scan()
    if version is not None:
        scan = scan.use_ref(f"v{version}")
    return _tuples(scan.to_arrow().to_pylist())


def _tuples(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in rows]
