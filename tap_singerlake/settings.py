"""The tap's settings, as ``--about`` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from singer_sdk import typing as th

from singerlake.plugins.settings import AWS, LAKE

# "number" and not "integer": the SDK would take an environment variable for an integer and
# fail where it holds a label.
_VERSION: dict[str, Any] = {"type": ["string", "number", "null"]}

LOG, ROWS = "log", "rows"
"""What the setting ``mode`` may be."""

SETTINGS: dict[str, Any] = th.PropertiesList(
    LAKE,
    th.Property(
        "tap_id",
        th.StringType,
        title="Tap",
        description=(
            "Read the streams that this tap wrote. Needed where several taps of the lake have a "
            "stream of the same name."
        ),
    ),
    th.Property(
        "streams",
        th.ArrayType(th.StringType),
        title="Streams",
        description=(
            "Read only these streams: names, or patterns with * and ?. A number behind a name "
            "reads the table version of that number: orders.2"
        ),
        examples=[["orders", "customers.2", "web_*"]],
    ),
    th.Property(
        "table_version",
        th.CustomType(_VERSION),
        title="Table version",
        description=(
            "Read every selected stream as of its table version of this number or label. "
            "Without it all transactions are read."
        ),
    ),
    th.Property(
        "mode",
        th.StringType(allowed_values=[LOG, ROWS]),
        default=LOG,
        title="Mode",
        description=(
            "`log` plays back all that was written, in order: replaced rows, deletions and "
            "ACTIVATE_VERSION too. `rows` gives only the rows of the state that `table_version` "
            "means, each once, for targets that only append."
        ),
    ),
    *AWS,
).to_dict()


def table_version(config: Mapping[str, Any]) -> str | None:
    """Return the version that all streams are read at, by number or label."""
    value = config.get("table_version")
    return None if value is None or value == "" else str(value)
