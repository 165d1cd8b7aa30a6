"""docs/internals/odd-values.md is what the target and a query do with odd values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.odd_inputs import PAGE, PLACE, filled, outcomes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_page_says_what_becomes_of_odd_inputs(spark: SparkSession, tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    assert PLACE.search(page)
    rows = outcomes(spark, tmp_path)
    assert filled(page, rows) == page, "write it anew with: python -m tests.odd_inputs"
    for spec, value, by_default, strictly, read in rows:
        # Taken and readable, or refused in words; and who asks for it, refused at the door.
        assert (by_default == "rejected") == (read == "–"), (spec, value)
        assert (by_default == "accepted, with a warning") == (read == "an error that names it")
        assert (strictly == "rejected") == (by_default != "accepted"), (spec, value)
