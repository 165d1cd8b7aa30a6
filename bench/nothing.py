"""A Singer SDK target that does nothing with its records: what the SDK itself costs."""

from __future__ import annotations

from typing import Any, ClassVar

from singer_sdk import Target
from singer_sdk.sinks import RecordSink


class NothingSink(RecordSink):
    """Takes each record, validated as the SDK does by default."""

    def process_record(self, record: dict[str, Any], context: dict[str, Any]) -> None:
        """Nothing."""


class TargetNothing(Target):
    """Does nothing."""

    name = "target-nothing"
    config_jsonschema: ClassVar[dict[str, Any]] = {"properties": {}}
    default_sink_class = NothingSink


if __name__ == "__main__":
    TargetNothing.cli()
