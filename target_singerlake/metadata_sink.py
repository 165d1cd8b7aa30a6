"""A sink that adds the SDK's metadata to mapped streams, which alone need the SDK's sinks."""

from __future__ import annotations

from typing import Any

from singer_sdk.sinks import RecordSink


class MetadataSink(RecordSink):
    """Adds the SDK's metadata to a schema and to records; writes nothing."""

    def get_validator(self) -> None:
        """None: records are validated by ``target_singerlake.validation``, as elsewhere."""

    def process_record(self, record: dict[str, Any], context: dict[str, Any]) -> None:  # noqa: ARG002
        """Never called: the lines are written by ``target_singerlake.mapped_streams``."""
        raise AssertionError("the SDK's own loop is not used")

    def _remove_sdc_metadata_from_schema(self) -> None:
        """Keep what the tap sent."""

    def metadata_added(self, record: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
        """Add the metadata to a record, if the settings ask for it."""
        if self.include_sdc_metadata_properties:
            self._add_sdc_metadata_to_record(record, message, {})
        return record
