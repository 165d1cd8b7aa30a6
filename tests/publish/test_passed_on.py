"""What is said of a store is said to all that write there, or refused."""

from __future__ import annotations

import pytest

from singerlake.errors import UsageError
from singerlake.publish.destinations.opening import open_destination
from singerlake.publish.projection import Format, Projection, Target
from singerlake.storage.options import StoreOptions


@pytest.mark.usefixtures("services")
def test_a_format_refuses_what_its_library_is_not_told() -> None:
    options = StoreOptions(sse="aws:kms", acl="private", requester_pays=True)
    target = Target("s3://bucket/shop", Format.DELTA, options=options)
    with pytest.raises(UsageError, match="has no settings for acl"):
        open_destination(Projection("a", "select 1", target=target))
    for format_ in (Format.PARQUET, Format.ICEBERG):  # all of it goes through our own store
        open_destination(
            Projection("a", "select 1", target=Target("s3://bucket/shop", format_, options=options))
        )
