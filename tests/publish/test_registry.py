"""What the lake's own file says of what is published."""

from __future__ import annotations

import json
from typing import Any

import pytest

from singerlake.annotations import changes
from singerlake.annotations.subjects import LAKE
from singerlake.errors import NotFoundError
from singerlake.format import names
from singerlake.format.annotations import Publication
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.publish import registry
from tests.build import commit_rows
from tests.cli.call import run, run_json

ORDERS = Publication(tables=["tap-shop.orders"], to="s3://bucket/orders", format="parquet")


@pytest.fixture
def filled(lake: Lake) -> Lake:
    commit_rows(lake, "tap-shop.orders", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    return Lake.open(lake.store.uri)


def raw(lake: Lake) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lake.store.get(names.LAKE).data)
    return found


def test_a_new_lake_says_nothing_of_it(filled: Lake) -> None:
    assert "published" not in raw(filled)
    assert not registry.leave(filled, "orders")
    assert "published" not in raw(filled)


def test_it_is_written_only_when_it_changes(filled: Lake) -> None:
    assert registry.enter(filled, "orders", ORDERS)
    etag = filled.store.get(names.LAKE).etag
    assert not registry.enter(filled, "orders", ORDERS)
    assert not registry.enter(Lake.open(filled.store.uri), "orders", ORDERS)
    assert filled.store.get(names.LAKE).etag == etag
    assert filled.annotations().published_from(TableName("tap-shop", "orders")) == {
        "orders": ORDERS
    }
    assert filled.annotations().published_from(TableName("tap-shop", "other")) == {}


def test_members_that_nobody_knows_stay(filled: Lake) -> None:
    file = raw(filled)
    file["published"] = {"orders": {"from": ["a.b"], "to": "x", "format": "csv", "mood": 7}}
    filled.store.replace(names.LAKE, json.dumps(file).encode(), None)
    assert registry.enter(filled, "orders", ORDERS)
    assert raw(filled)["published"]["orders"] == {
        "from": ["tap-shop.orders"],
        "to": "s3://bucket/orders",
        "format": "parquet",
        "mood": 7,
    }
    said = changes.change_of(LAKE, {"owner": "o"})
    assert changes.annotate(filled, [said])
    assert raw(filled)["published"]["orders"]["mood"] == 7


def test_what_is_not_published_is_told_with_the_nearest(filled: Lake) -> None:
    with pytest.raises(NotFoundError, match="nothing is published from this lake"):
        registry.find(filled, "order")
    registry.enter(filled, "orders", ORDERS)
    with pytest.raises(NotFoundError, match="did you mean orders"):
        registry.find(filled, "order")
    assert registry.find(filled, "orders") == ORDERS
    assert registry.leave(filled, "orders")
    assert raw(filled)["published"] == {}


def test_show_lists_it(filled: Lake) -> None:
    assert run_json(filled, "show", "tap-shop.orders")["published"] == {}
    assert "published" not in run(filled, "show", "tap-shop.orders").output
    registry.enter(filled, "daily", ORDERS)
    shown = run_json(filled, "show", "tap-shop.orders")["published"]
    assert shown == {"daily": {"from": ORDERS.tables, "to": ORDERS.to, "format": "parquet"}}
    line = "published     s3://bucket/orders (parquet), as daily"
    assert line in run(filled, "show", "tap-shop.orders").output
