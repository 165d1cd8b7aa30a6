"""What is said of a store is said to all that write there, or refused."""

from __future__ import annotations

import pytest

from singerlake.errors import UsageError
from singerlake.projections.destinations.opening import open_destination
from singerlake.projections.projection import Format, Projection, Target
from singerlake.storage.options import StoreOptions


@pytest.mark.parametrize("format_", [Format.ICEBERG, Format.DELTA])
def test_a_table_format_refuses_what_its_library_is_not_told(format_: Format) -> None:
    options = StoreOptions(sse="aws:kms", requester_pays=True)
    target = Target("s3://bucket/shop", format_, options=options)
    with pytest.raises(UsageError, match="not told of sse, requester_pays"):
        open_destination(Projection("a", "select 1", target=target))
    plain = Target("s3://bucket/shop", Format.PARQUET, options=options)
    open_destination(Projection("a", "select 1", target=plain))
