"""What counts as another definition of a projection."""

from __future__ import annotations

from dataclasses import replace

import pytest

from singerlake.format.names import TableName
from singerlake.publish.projection import (
    _DIGITS,
    Format,
    OrderKey,
    PartitionKey,
    Projection,
    Target,
    Transform,
)

ONE = Projection(
    "orders",
    "select id, at from a.b",
    stage=TableName("staging", "orders"),
    key=("id",),
    order_by=(OrderKey("at"),),
    target=Target("out", Format.PARQUET),
)


@pytest.mark.parametrize(
    ("other", "changed"),
    [
        (replace(ONE, name="x", versions=True, target=Target("x", Format.PARQUET)), ()),
        (replace(ONE, sql="select id,\n  at -- when\nfrom a.b"), ()),
        (replace(ONE, sql="select id, at as x from a.b"), ("sql",)),
        (replace(ONE, key=("id", "at")), ("key",)),
        (replace(ONE, order_by=(OrderKey("at", descending=True),)), ("order_by",)),
        (replace(ONE, partition_by=(PartitionKey("at", Transform.DAY),)), ("partition_by",)),
        (replace(ONE, target=Target("out", Format.CSV, "gzip")), ("format", "compression")),
        (replace(ONE, target=None), ("format",)),
    ],
)
def test_a_definition_tells_what_has_changed(other: Projection, changed: tuple[str, ...]) -> None:
    assert len(ONE.definition) == 64
    assert other.changed_since(ONE.definition) == changed
    assert ONE.changed_since(other.definition) == changed
    assert (other.definition == ONE.definition) is (not changed)


def test_a_definition_of_another_kind_has_all_changed() -> None:
    every = tuple(_DIGITS)
    assert ONE.changed_since("") == ONE.changed_since("0" * 64) == every
    assert ONE.changed_since(ONE.definition + "0") == every
