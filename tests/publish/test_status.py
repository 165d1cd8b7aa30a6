"""What is out of date, and why: from logs and destinations alone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from singerlake.errors import DamagedError, UsageError
from singerlake.format.annotations import Publication
from singerlake.format.log import FrozenVersion, Operation
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log.commit import commit, draft_entry
from singerlake.ops.drop import drop_table
from singerlake.overlay.alter import AlterOptions
from singerlake.publish import registry
from singerlake.publish.projection import Format, OrderKey, Projection, Target
from singerlake.publish.spelling import select_all, sources
from singerlake.publish.status import Reason, Status, Why, status
from tests.far_store import FarStore
from tests.publish.standing import publish, stage, sync

ORDERS = "tap-shop.orders"


def projection(
    name: str, reads: str, staged: str | None = None, to: Path | None = None
) -> Projection:
    return Projection(
        name,
        sql := select_all(reads),
        sources(sql),
        stage=None if staged is None else TableName("staging", staged),
        key=("id",),
        order_by=(OrderKey("id"),),
        target=None if to is None else Target(str(to / name), Format.PARQUET),
    )


@pytest.fixture
def clean() -> Projection:
    return projection("clean", "tap_shop.orders", "orders")


@pytest.fixture
def daily(tmp_path: Path) -> Projection:
    return projection("daily", "staging.orders", to=tmp_path / "out")


@pytest.fixture
def raw(tmp_path: Path) -> Projection:
    return projection("raw", "tap_shop.orders", to=tmp_path / "out")


def texts(lake: Lake, *projections: Projection) -> dict[str, list[str]]:
    found = status(lake, projections)
    assert [one.error for one in found] == [None] * len(found)
    return {one.projection.name: [reason.text for reason in one.reasons] for one in found}


def test_a_chain_from_nothing_to_up_to_date(
    lake: Lake, clean: Projection, daily: Projection
) -> None:
    sync(lake, ORDERS)
    assert texts(lake, daily, clean) == {
        "clean": ["staging.orders: never built"],
        "daily": ["staging.orders is out of date", "never published"],
    }
    stage(lake, clean, ORDERS)
    assert texts(lake, clean, daily) == {"clean": [], "daily": ["never published"]}
    publish(lake, daily, "staging.orders", files=[[1, 2], [3]])
    assert texts(lake, clean, daily) == {"clean": [], "daily": []}
    assert status(lake, [clean, daily])[1] == Status(daily, (), rows=3, overlap=0.0)
    for _ in range(3):
        sync(lake, ORDERS)
    behind = Reason(Why.BEHIND, "staging.orders: 3 transactions behind tap-shop.orders", ORDERS, 3)
    first, second = status(lake, [clean, daily])
    assert first.reasons == (behind,)
    assert [one.why for one in second.reasons] == [Why.UPSTREAM]
    assert not first.up_to_date
    # A refresh that found no other rows: the table that others read has not moved on.
    stage(lake, clean, ORDERS, rows=())
    assert texts(lake, clean, daily) == {"clean": [], "daily": []}


def test_a_staging_table_that_somebody_else_changed(lake: Lake, clean: Projection) -> None:
    sync(lake, ORDERS)
    stage(lake, clean, ORDERS)
    sync(lake, "staging.orders")
    assert texts(lake, clean) == {"clean": ["staging.orders: transaction 3 was not a refresh"]}
    other = projection("other", "tap_shop.orders", "mine")
    sync(lake, "staging.mine")
    found, wrong = status(lake, [clean, other])
    assert found.error is None
    assert isinstance(wrong.error, UsageError)
    assert "staging.mine is a table that no projection created" in str(wrong.error)
    drop_table(lake.store, lake.find("staging.orders")[0].snapshot(), AlterOptions())
    assert texts(lake, clean) == {"clean": ["staging.orders: never built"]}


def test_another_definition(lake: Lake, clean: Projection, raw: Projection) -> None:
    sync(lake, ORDERS)
    stage(lake, clean, ORDERS)
    publish(lake, raw, ORDERS)
    assert texts(lake, clean, raw) == {"clean": [], "raw": []}
    order, key = (), ("id", "x")
    assert texts(lake, replace(clean, order_by=order), replace(raw, order_by=order)) == {
        "clean": [],  # a table of the lake has none
        "raw": ["the definition changed: order_by"],
    }
    assert texts(lake, replace(clean, key=key), replace(raw, key=key, order_by=order)) == {
        "clean": ["staging.orders: the definition changed: key"],
        "raw": ["the definition changed: key, order_by"],
    }


def test_a_destination_that_is_gone(lake: Lake, raw: Projection) -> None:
    sync(lake, ORDERS)
    publish(lake, raw, ORDERS)
    assert raw.target is not None
    publication = Publication(tables=[ORDERS], to=raw.target.uri, format="parquet")
    registry.enter(lake, "raw", publication)
    assert texts(lake, raw) == {"raw": []}
    shutil.rmtree(raw.target.uri)
    assert texts(lake, raw) == {"raw": ["the destination is missing"]}
    moved = replace(raw, target=replace(raw.target, uri=f"{raw.target.uri}-2"))
    assert texts(lake, moved) == {"raw": [f"never published here, but at {raw.target.uri}"]}


def test_what_lies_at_a_destination_is_somebody_elses(lake: Lake, raw: Projection) -> None:
    sync(lake, ORDERS)
    assert raw.target is not None
    Path(raw.target.uri).mkdir(parents=True)
    Path(raw.target.uri, "thesis.txt").write_text("all of it")
    unset = projection("unset", "tap_shop.orders", to=Path(raw.target.uri).parent)
    assert unset.target is not None
    unset = replace(unset, target=replace(unset.target, unset=("NOBODY_SETS_THIS",)))
    found, secret = status(lake, [raw, unset])
    assert isinstance(found.error, UsageError)
    assert not found.up_to_date
    assert "NOBODY_SETS_THIS" in str(secret.error)


def test_a_source_that_is_another_or_cannot_be_read_again(
    lake: Lake, raw: Projection, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, ORDERS)
    publish(lake, raw, ORDERS)
    sync(lake, ORDERS)
    with monkeypatch.context() as patched:
        patched.setattr("singerlake.log.table_state.TableState.readable", lambda *_: False)
        assert texts(lake, raw) == {
            "raw": ["history of tap-shop.orders was dropped: will be rebuilt"]
        }
    drop_table(lake.store, lake.find(ORDERS)[0].snapshot(), AlterOptions())
    (gone,) = status(lake, [raw])
    assert "has no table tap-shop.orders any more" in str(gone.error)
    sync(lake, ORDERS)
    assert texts(lake, raw) == {
        "raw": ["tap-shop.orders is not the same table that was read: will be rebuilt"]
    }
    Path(lake.store.uri, "raw/tap-shop/orders/manifest.json").write_text("{")
    log = Path(lake.store.uri, "raw/tap-shop/orders/transactions")
    (log / "000000000004.json").write_text("{")
    (damaged,) = status(lake, [raw])
    assert isinstance(damaged.error, DamagedError)


def freeze(lake: Lake, table: str, number: int, transaction: int) -> None:
    name = lake.find(table)[0].name
    head = lake.table(name).snapshot()
    version = FrozenVersion(
        number=number,
        transaction=transaction,
        schema_hash=head.schema_hash,
        rows=1,
        fingerprint="0" * 32,
        label=f"label-{number}",
    )
    commit(
        lake.store,
        head,
        lambda _: draft_entry(name, Operation.FREEZE, version=version, metadata={}),
    )


def test_versions(lake: Lake, raw: Projection, tmp_path: Path) -> None:
    sync(lake, ORDERS)
    freeze(lake, ORDERS, 1, 1)
    publish(lake, raw, ORDERS)
    assert texts(lake, raw, replace(raw, name="r", target=None, stage=TableName("s", "t"))) == {
        "raw": [],
        "r": ["s.t: never built"],
    }
    versions = replace(raw, versions=True)
    assert texts(lake, versions) == {"raw": ["version 1 of tap-shop.orders is not published"]}
    both = select_all(ORDERS).replace("`orders`", "orders") + " join tap_shop.orders.1 using (id)"
    joined = replace(versions, name="joined", sql=both, sources=sources(both))
    assert joined.target is not None
    joined = replace(joined, target=replace(joined.target, uri=str(tmp_path / "out" / "joined")))
    publish(lake, joined, ORDERS)
    (found,) = status(lake, [joined])
    assert "joined has no versions" in str(found.error)
    # Of a version that is frozen nothing is ever behind.
    fixed = projection("fixed", "tap_shop.orders version as of 'label-1'", to=tmp_path / "out")
    publish(lake, fixed, ORDERS, version=1)
    for _ in range(2):
        sync(lake, ORDERS)
    assert texts(lake, raw, fixed) == {
        "raw": ["2 transactions behind tap-shop.orders"],
        "fixed": [],
    }


def test_files_that_overlap_are_told(lake: Lake, raw: Projection) -> None:
    sync(lake, ORDERS)
    publish(lake, raw, ORDERS, files=[[1, 5], [4, 6], [7, 8, 9, 10, 11, 12]])
    (found,) = status(lake, [raw])
    assert (found.rows, found.overlap) == (10, 0.4)


def test_tables_of_a_bucket_are_looked_at_side_by_side(tmp_path: Path) -> None:
    near = Lake.open(str(tmp_path / "many"), create=True)
    declared = []
    for number in range(40):
        sync(near, f"tap.s{number}")
        declared.append(projection(f"p{number}", f"tap.s{number}", f"s{number}"))
    far = FarStore(tmp_path / "many")
    assert texts(Lake(far), *declared) == texts(near, *declared)
    assert far.most > 4


def test_destinations_are_looked_at_side_by_side(
    lake: Lake, raw: Projection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(lake, ORDERS)
    every = [projection(f"p{n}", "tap_shop.orders", to=tmp_path / "out") for n in range(4)]
    together = Barrier(len(every), timeout=20)

    class Place:
        def published(self) -> None:
            together.wait()

    monkeypatch.setattr("singerlake.publish.status.open_destination", lambda _: Place())
    assert [one.reasons[0].text for one in status(lake, every)] == ["never published"] * 4
