"""One table of all types that a lake has, published once in each format."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import singerlake
from singerlake.lake import Lake
from singerlake.publish.projection import Format
from tests.build import commit_rows
from tests.frozen import freeze_on_spark as freeze

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "tap-shop.everything"
_TEXT = {"type": ["null", "string"]}
PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer"},
    "whole": {"type": ["null", "integer"]},
    "large": {"type": ["null", "integer"], "maximum": 2**64 - 1},
    "number": {"type": ["null", "number"]},
    "money": {"type": ["null", "number"], "multipleOf": 0.01},
    "exact": {"type": ["null", "string"], "format": "singer.decimal"},
    "text": _TEXT,
    "day": {"type": ["null", "string"], "format": "date"},
    "at": {"type": ["null", "string"], "format": "date-time"},
    "yes": {"type": ["null", "boolean"]},
    "who": {
        "type": ["null", "object"],
        "properties": {"first": _TEXT, "born": {"type": ["null", "string"], "format": "date"}},
    },
    "tags": {"type": ["null", "array"], "items": _TEXT},
    "lines": {
        "type": ["null", "array"],
        "items": {"type": "object", "properties": {"sku": _TEXT, "n": {"type": "integer"}}},
    },
    "json": {},
}
RECORDS: list[Any] = [
    {
        "id": 1, "whole": -(2**63), "large": 2**64 - 1, "number": 1.7976931348623157e308,
        "money": 12345678901234.56, "exact": "-12345678901234567890.123456789012345678",
        "text": 'a "quoted", comma;\ttab\nnew line\r\n\\ 😀 é', "day": "1582-10-04",
        "at": "1500-02-28T23:59:59.999999-05:30", "yes": True,
        "who": {"first": "Ada", "born": "1815-12-10"}, "tags": ["x", "", "y,z"],
        "lines": [{"sku": "a", "n": 1}, {"sku": None, "n": 2}], "json": {"a": [1, 1.5, None]},
    },
    {
        "id": 2, "whole": 2**63 - 1, "large": 0, "number": -0.0, "money": -0.01, "exact": "0",
        "text": "", "day": "0001-01-01", "at": "0001-01-01T00:00:00Z", "yes": False,
        "who": {"first": None, "born": None}, "tags": [], "lines": [], "json": "plain",
    },
    {"id": 3},
    {
        "id": 4, "whole": 0, "large": 1, "number": 5e-324, "money": 0.1, "exact": "1.5",
        "text": "null", "day": "9999-12-31", "at": "9999-12-31T23:59:59.999999Z", "yes": True,
        "who": {"first": "a\u0001b\u007f"}, "tags": ["null"], "lines": None, "json": [1, "2"],
    },
]  # fmt: skip


def _at(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.timezone.utc)  # type: ignore[arg-type,misc]


ROWS: list[dict[str, Any]] = [
    {
        "id": 1, "whole": -(2**63), "large": Decimal(2**64 - 1), "number": 1.7976931348623157e308,
        "money": Decimal("12345678901234.56"),
        "exact": Decimal("-12345678901234567890.123456789012345678"),
        "text": 'a "quoted", comma;\ttab\nnew line\r\n\\ 😀 é', "day": dt.date(1582, 10, 4),
        "at": _at(1500, 3, 1, 5, 29, 59, 999999), "yes": True,
        "who": {"first": "Ada", "born": dt.date(1815, 12, 10)}, "tags": ["x", "", "y,z"],
        "lines": [{"sku": "a", "n": 1}, {"sku": None, "n": 2}], "json": '{"a": [1, 1.5, null]}',
    },
    {
        "id": 2, "whole": 2**63 - 1, "large": Decimal(0), "number": -0.0,
        "money": Decimal("-0.01"), "exact": Decimal(0), "text": "", "day": dt.date(1, 1, 1),
        "at": _at(1, 1, 1), "yes": False, "who": {"first": None, "born": None}, "tags": [],
        "lines": [], "json": "plain",
    },
    {"id": 3, **dict.fromkeys(list(PROPERTIES)[1:])},
    {
        "id": 4, "whole": 0, "large": Decimal(1), "number": 5e-324, "money": Decimal("0.10"),
        "exact": Decimal("1.5"), "text": "null", "day": dt.date(9999, 12, 31),
        "at": _at(9999, 12, 31, 23, 59, 59, 999999), "yes": True,
        "who": {"first": "a\u0001b\u007f", "born": None}, "tags": ["null"], "lines": None,
        "json": '[1, "2"]',
    },
]  # fmt: skip
"""What every reader finds whose format has all these types."""


@dataclass(frozen=True)
class Shelf:
    """Where the table lies.

    Attributes:
        root: A folder for each format, by its name.
        fingerprint: Of the version that is published.
    """

    root: Path
    fingerprint: str

    def place(self, format_: Format) -> Path:
        """The folder of a format."""
        return self.root / str(format_)

    def files(self, format_: Format) -> list[Path]:
        """The files of a plain format, in order, as its pointer names them."""
        said = json.loads((self.place(format_) / "_latest.json").read_text())
        return [self.place(format_) / said["folder"] / one["path"] for one in said["files"]]

    def file(self, format_: Format) -> str:
        """The only one."""
        (found,) = self.files(format_)
        return str(found)


def publish_all(root: Path, spark: SparkSession) -> Shelf:
    """Fill a lake, freeze the table, and publish it in every format."""
    lake = singerlake.open(root / "lake", create=True)
    inner = Lake.open(str(root / "lake"), create=True)
    commit_rows(inner, TABLE, PROPERTIES, ["id"], RECORDS, block_rows=2)
    version = freeze(spark, inner.table(TABLE))
    for form in Format:
        lake.table(TABLE).publish(
            root / str(form),
            format=str(form),
            order_by="id",
            versions=form.is_table_format,
            spark=spark,
        )
    return Shelf(root, version.fingerprint)
