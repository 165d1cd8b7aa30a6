"""What tap and target do alike where the SDK's plugins read their settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import singer_sdk
from singer_sdk.plugin_base import PluginBase

from singerlake.plugins import plain_settings
from singerlake.plugins.arguments import FROM_ENVIRONMENT, check_secrets, read_settings
from singerlake.version import __version__


class LakePlugin(PluginBase):
    """Reads ``--config`` itself and hides secrets. It stands before the SDK's class."""

    @classmethod
    def cb_config(cls, ctx: Any, param: Any, value: tuple[str, ...]) -> Any:
        """Read ``--config`` here, once, as a file, a pipe or text; the SDK reads files."""
        environment = tuple(v for v in value if v == FROM_ENVIRONMENT)
        parsed = super().cb_config(ctx, param, environment)
        known = {"properties": dict(cls.config_jsonschema["properties"])}
        cls.append_builtin_config(known)  # the SDK's own, which one of ours may be almost called
        parsed.config.update(read_settings(value, known["properties"]))
        return parsed

    @classmethod
    def get_plugin_version(cls) -> str:
        """Return the release, which the SDK would find in the package's metadata.

        To read these, Python imports what reads mail: it takes as long as the lake's own code.
        """
        return __version__

    @classmethod
    def get_sdk_version(cls) -> str:
        """Return the SDK's release, as the name of the folder says that has its metadata."""
        [package] = singer_sdk.__path__
        found = [*Path(package).parent.glob("singer_sdk-*.dist-info")]
        if len(found) == 1:
            return found[0].name.removesuffix(".dist-info").partition("-")[2]
        return super().get_sdk_version()

    def _validate_config(self, *, raise_errors: bool = True) -> list[str]:
        check_secrets(self._config)
        known = self.config_jsonschema
        self.append_builtin_config(known)
        if plain_settings.filled(self._config, known["properties"]):
            return []
        return super()._validate_config(raise_errors=raise_errors)
