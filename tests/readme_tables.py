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


def table(plugin: type[PluginBase]) -> str:
    """A plugin's settings as a Markdown table; of the SDK's nested ones only the first level."""
    settings: dict[str, Any] = plugin._get_about_info().settings["properties"]
    lines = ["| setting | default | what it does |", "| --- | --- | --- |"]
    for name, schema in settings.items():
        default = f"`{json.dumps(schema['default'])}`" if "default" in schema else ""
        text = " ".join(str(schema.get("description", "")).split()).replace("|", "\\|")
        lines.append(f"| `{name}` | {default} | {text} |")
    return "\n".join(lines)


def filled(text: str) -> str:
    """The page with its tables as they should be."""
    for name, plugin in PLUGINS.items():
        pattern = rf"(<!-- settings: {name} -->\n).*?(<!-- end -->)"
        new = table(plugin)
        text = re.sub(
            pattern,
            lambda match, new=new: f"{match[1]}\n{new}\n\n{match[2]}",  # type: ignore[misc]
            text,
            flags=re.S,
        )
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
