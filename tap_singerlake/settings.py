"""The tap's settings, as ``--about`` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from singer_sdk import typing as th

from singerlake.errors import UsageError
from singerlake.plugins.settings import BATCH_S3, LAKE, STORES

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
        "lake_version",
        th.CustomType(_VERSION),
        title="Lake version",
        description=(
            "Read every selected stream as of its table version in the lake version of this "
            "number or label. Streams that it does not have are left out, unless `streams` names "
            "them: that is an error. So is one that was dropped since, or whose version was "
            "deleted, until `streams` names only others."
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
            "or `lake_version` means, each once, for targets that only append."
        ),
    ),
    th.Property(
        "file_inline_max_bytes",
        th.IntegerType(minimum=0),
        default=0,
        title="Files within records",
        description=(
            "Files that rows name and that have at most so many bytes go out within their "
            "records, as `data:` URIs; larger ones as `file://` or `s3://` URIs, which the next "
            "target must be allowed to read."
        ),
    ),
    BATCH_S3,
    *STORES,
).to_dict()


def table_version(config: Mapping[str, Any]) -> str | None:
    """Return the version that all streams are read at, by number or label.

    Raises:
        UsageError: It is an empty text.
    """
    return _named(config, "table_version")


def lake_version(config: Mapping[str, Any]) -> str | None:
    """Return the lake version whose table versions are read, by number or label.

    Raises:
        UsageError: It is an empty text.
    """
    return _named(config, "lake_version")


def _named(config: Mapping[str, Any], setting: str) -> str | None:
    value = config.get(setting)
    if value is None:
        return None
    if not str(value).strip():  # a variable that nobody set must not mean all of today
        raise UsageError(f"{setting} is empty: give a number or a label, or leave it out")
    return str(value)


def inline_bytes(config: Mapping[str, Any]) -> int:
    """Return up to which size files go out within their records."""
    return int(config.get("file_inline_max_bytes") or 0)
