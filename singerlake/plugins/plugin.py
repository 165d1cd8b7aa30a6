"""The common part of tap and target where the SDK's plugins read their settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import singer_sdk
from singer_sdk.plugin_base import PluginBase

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
        if filled(self._config, known["properties"]):
            return []
        return super()._validate_config(raise_errors=raise_errors)


# Settings that are plainly as their JSON Schema says: seen without a library for all of it.
#
# Such a library takes a sixth of a plugin's start-up to import. Whatever is not plain, or wrong, is
# left to the SDK, which has the words for it.

_TYPES: dict[type, frozenset[str]] = {
    str: frozenset({"string"}),
    bool: frozenset({"boolean"}),
    int: frozenset({"integer", "number"}),
    float: frozenset({"number"}),
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
    type(None): frozenset({"null"}),
}
_NOTES = {"title", "description", "default", "examples", "secret", "writeOnly"}
"""What says nothing of a value."""
_CHECKS = {"type", "enum", "minimum", "maximum", "items", "properties", "additionalProperties"}
"""What is checked here."""


def filled(settings: dict[str, Any], properties: Mapping[str, Any]) -> bool:
    """Fill in what settings leave out, as the SDK does.

    Args:
        settings: By name.
        properties: What they may be, by name.

    Returns:
        Whether all are plainly what they may be; if not, that is for a library to decide.
    """
    for name, schema in properties.items():
        if "default" in schema:
            settings.setdefault(name, schema["default"])
    return all(_plain(settings[name], properties[name]) for name in settings.keys() & properties)


def _plain(value: Any, schema: Any) -> bool:
    if not isinstance(schema, dict) or not schema.keys() <= _CHECKS | _NOTES:
        return schema is True
    known = schema.get("type", ())
    types = _TYPES.get(type(value), frozenset())
    if types.isdisjoint([known] if isinstance(known, str) else known):
        return False
    if "enum" in schema and not (isinstance(value, str) and value in schema["enum"]):
        return False
    if isinstance(value, int | float) and not isinstance(value, bool):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    if isinstance(value, list):
        return all(_plain(one, schema.get("items", True)) for one in value)
    if isinstance(value, dict):
        others = schema.get("additionalProperties", True)
        # Settings within settings may have defaults of their own.
        return not schema.get("properties") and all(_plain(one, others) for one in value.values())
    return True
