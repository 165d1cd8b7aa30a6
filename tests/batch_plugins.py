"""A tap and a target made with the Singer SDK alone, which send and take records in files."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, ClassVar

from singer_sdk import BatchSink, Stream, Tap, Target
from singer_sdk import typing as th

ROWS: list[dict[str, Any]] = [
    {"id": n, "name": None if n % 3 else f"n{n} é", "x": n / 4, "on": n % 2 == 0} for n in range(25)
]


class SdkStream(Stream):
    """Rows that say nothing of versions: the SDK sends ACTIVATE_VERSION and leaves them out."""

    name = "rows"
    primary_keys: ClassVar[list[str]] = ["id"]
    schema: ClassVar[dict[str, Any]] = th.PropertiesList(
        th.Property("id", th.IntegerType, required=True),
        th.Property("name", th.StringType),
        th.Property("x", th.NumberType),
        th.Property("on", th.BooleanType),
    ).to_dict()

    def get_records(self, context: Any) -> Iterable[dict[str, Any]]:
        return iter(dict(row) for row in ROWS)


class SdkTap(Tap):
    name = "tap-sdk"
    config_jsonschema: ClassVar[dict[str, Any]] = th.PropertiesList().to_dict()

    def discover_streams(self) -> list[Stream]:
        return [SdkStream(self)]


class SdkSink(BatchSink):
    max_size = 1000

    def process_batch(self, context: dict[str, Any]) -> None:
        SdkTarget.rows.setdefault(self.stream_name, []).extend(context["records"])


class SdkTarget(Target):
    name = "target-sdk"
    config_jsonschema: ClassVar[dict[str, Any]] = th.PropertiesList().to_dict()
    default_sink_class = SdkSink
    rows: ClassVar[dict[str, list[dict[str, Any]]]] = {}


def tap_output(config: dict[str, Any]) -> bytes:
    """What the tap puts out."""
    out = io.StringIO()
    with redirect_stdout(out):
        SdkTap(config=config).sync_all()
    return out.getvalue().encode()


def config(folder: Path | str, form: str, **more: Any) -> dict[str, Any]:
    """A ``batch_config``."""
    root = folder if isinstance(folder, str) else folder.as_uri()
    encoding = {"format": form, "compression": "gzip"}
    return {
        "batch_config": {"encoding": encoding, "storage": {"root": root, "prefix": "b-"}, **more}
    }


def taken(data: bytes) -> dict[str, list[dict[str, Any]]]:
    """The rows that the target makes of some messages."""
    SdkTarget.rows = {}
    with redirect_stdout(io.StringIO()):
        SdkTarget(config={}).listen(io.StringIO(data.decode()))
    return json.loads(json.dumps(SdkTarget.rows, default=float))  # type: ignore[no-any-return]
