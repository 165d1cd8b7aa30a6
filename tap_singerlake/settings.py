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
            "Read only the streams of this tap. Required if several taps of the lake have a "
            "stream of the same name."
        ),
    ),
    th.Property(
        "streams",
        th.ArrayType(th.StringType),
        title="Streams",
        description=(
            "Read only these streams: names, or patterns with * and ?. `orders.2` is table "
            "version 2, and `orders@current` the version that this pointer names."
        ),
        examples=[["orders", "customers.2", "web_*"]],
    ),
    th.Property(
        "table_version",
        th.CustomType(_VERSION),
        title="Table version",
        description=(
            "Read each selected stream at its table version of this number or label. Default: "
            "all transactions."
        ),
    ),
    th.Property(
        "lake_version",
        th.CustomType(_VERSION),
        title="Lake version",
        description=(
            "Read each selected stream at its table version in the lake version of this number "
            "or label. Other streams are left out. It is an error if `streams` names one of "
            "them, or if a selected stream was dropped or its version deleted."
        ),
    ),
    th.Property(
        "mode",
        th.StringType(allowed_values=[LOG, ROWS]),
        default=LOG,
        title="Mode",
        description=(
            "`log` emits everything in order, with replaced rows, deletions and "
            "ACTIVATE_VERSION. `rows` emits only the rows of `table_version` or `lake_version`, "
            "each once, for targets that only append."
        ),
    ),
    th.Property(
        "file_inline_max_bytes",
        th.IntegerType(minimum=0),
        default=0,
        title="Files within records",
        description=(
            "Emit attached files of at most this size within their records, as `data:` URIs, "
            "and larger ones as `file://` or `s3://` URIs, which the next target must be able "
            "to read."
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
