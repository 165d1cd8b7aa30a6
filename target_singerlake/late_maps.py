"""The SDK's mapper and sinks, which only runs with a map, flattening or added metadata need.

To import them takes a tenth of the target's start-up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from singer_sdk import Target

if TYPE_CHECKING:
    from singer_sdk.mapper import PluginMapper
    from singer_sdk.sinks import Sink

_SETTINGS = (
    "stream_maps",
    "stream_map_config",
    "faker_config",
    "flattening_enabled",
    "flattening_max_depth",
    "flattening_max_key_length",
    "flattening_separator",
)
"""What the mapper reads, and may find fault with."""


class LateMaps(Target):
    """A target whose mapper is made when it is asked for, unless settings speak of it."""

    def get_sink_class(self, stream_name: str) -> type[Sink]:  # noqa: ARG002
        """Return what adds the SDK's metadata."""
        from target_singerlake.metadata_sink import MetadataSink

        return MetadataSink

    def setup_mapper(self) -> None:
        """Make the mapper where something is wanted of it: what is wrong is said at once."""
        if any(self.config.get(name) is not None for name in _SETTINGS):
            super().setup_mapper()

    @property
    def mapper(self) -> PluginMapper:
        """The SDK's mapper."""
        if self._mapper is None:
            super().setup_mapper()
        assert self._mapper is not None, "just made"  # noqa: S101
        return self._mapper

    @mapper.setter
    def mapper(self, mapper: PluginMapper) -> None:
        self._mapper = mapper
