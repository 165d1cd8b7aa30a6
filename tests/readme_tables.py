"""The tables of docs/reference/settings.md, from the plugins' own ``--about``.

``python -m tests.readme_tables`` writes them into the page.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from singer_sdk.plugin_base import PluginBase

from tap_singerlake.tap import TapSingerlake
from target_singerlake.target import TargetSingerlake

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "settings.md"
PLUGINS: dict[str, type[PluginBase]] = {"target": TargetSingerlake, "tap": TapSingerlake}


STORES = ("aws_", "gcs_", "azure_")
"""How the names of settings begin that say how a store is reached."""
BOTH = ("lake", "batch_s3")
"""Other settings that tap and target have."""
MAPS = ("stream_map", "faker_", "flattening_", "batch_config", "add_record_metadata")
"""How the names of the SDK's own settings begin."""


def tables() -> dict[str, str]:
    """The settings as Markdown tables, each setting once; of nested ones only the first level."""
    of_plugins = {name: _settings(plugin) for name, plugin in PLUGINS.items()}
    every = {name: row for rows in of_plugins.values() for name, row in rows.items()}
    groups = {
        "stores": {
            name: row for name, row in every.items() if name.startswith(STORES) or name in BOTH
        },
        "sdk": {name: row for name, row in every.items() if name.startswith(MAPS)},
    }
    shared = {name for rows in groups.values() for name in rows}
    for plugin, rows in of_plugins.items():
        groups[plugin] = {name: row for name, row in rows.items() if name not in shared}
    found = {group: _table(rows) for group, rows in groups.items()}
    # The SDK documents its own settings.
    return found | {"sdk": ", ".join(f"`{name}`" for name in groups["sdk"])}


def _settings(plugin: type[PluginBase]) -> dict[str, dict[str, Any]]:
    settings: dict[str, dict[str, Any]] = plugin._get_about_info().settings["properties"]
    return settings


def _table(settings: dict[str, dict[str, Any]]) -> str:
    defaults = any("default" in schema for schema in settings.values())
    columns = ["setting", "default", "effect"] if defaults else ["setting", "effect"]
    lines = [columns, ["---"] * len(columns)]
    for name, schema in settings.items():
        default = [f"`{json.dumps(schema['default'])}`" if "default" in schema else ""] * defaults
        text = " ".join(str(schema.get("description", "")).split()).replace("|", "\\|")
        lines.append([f"`{name}`", *default, text])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def filled(text: str) -> str:
    """The page with its tables as they should be."""
    for name, new in tables().items():
        pattern = rf"(<!-- settings: {name} -->\n).*?(<!-- end -->)"
        assert re.search(pattern, text, re.S), name
        text = re.sub(
            pattern,
            lambda match, new=new: f"{match[1]}\n{new}\n\n{match[2]}",  # type: ignore[misc]
            text,
            flags=re.S,
        )
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
