"""A Singer SDK target that takes batches and does nothing with their records."""

from __future__ import annotations

from typing import Any, ClassVar

from singer_sdk import BatchSink, Target


class NothingSink(BatchSink):
    """Takes the records of each file, which the SDK has read and does not validate."""

    def process_batch(self, context: dict[str, Any]) -> None:
        """Nothing."""


class TargetNothing(Target):
    """Does nothing."""

    name = "target-nothing"
    config_jsonschema: ClassVar[dict[str, Any]] = {"properties": {}}
    default_sink_class = NothingSink


if __name__ == "__main__":
    TargetNothing.cli()
