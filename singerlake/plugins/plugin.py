"""What tap and target do alike where the SDK's plugins read their settings."""

from __future__ import annotations

from typing import Any

from singer_sdk.plugin_base import PluginBase

from singerlake.plugins.arguments import FROM_ENVIRONMENT, check_secrets, read_settings


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

    def _validate_config(self, *, raise_errors: bool = True) -> list[str]:
        check_secrets(self._config)
        return super()._validate_config(raise_errors=raise_errors)
