"""What Meltano and its Hub are told of the three plugins, from the plugins' own ``--about``.

``python -m tests.meltano.definitions`` writes it into ``meltano.yml`` and ``docs/hub``.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml
from singer_sdk.plugin_base import PluginBase

from singerlake.plugins.settings import STORES
from tap_singerlake.tap import TapSingerlake
from target_singerlake.target import TargetSingerlake

ROOT = Path(__file__).parents[2]
MELTANO = ROOT / "meltano.yml"
HUB = ROOT / "docs" / "hub"
PLUGINS: dict[str, type[PluginBase]] = {"tap": TapSingerlake, "target": TargetSingerlake}
COMMANDS = {
    "ls": ("ls", "List the lake's tables."),
    "show": ("show", "Show the TABLE named behind it: its columns, sizes and versions."),
    "history": ("history", "List the transactions of the TABLE named behind it."),
    "freeze": ("freeze", "Freeze new versions of the TABLEs or taps named behind it."),
    "freeze-all": ("freeze --all", "Freeze every table of the lake, as one lake version."),
    "versions": ("versions", "List frozen versions, of the lake or of a table."),
    "query": ("query", "Ask the lake in the SQL that stands behind it."),
    "publish": ("publish", "Bring the projections up to date whose NAMEs stand behind it."),
    "publish-all": ("publish --all", "Bring every projection up to date."),
    "projections": ("projections", "List what is published, what is out of date, and why."),
    "copy": (
        "copy",
        "Copy the lake SRC to DST that are named behind it, or tables or versions of it.",
    ),
    "revert": ("revert", "Turn the TABLE named behind it back, --to an older state."),
    "verify": ("verify", "Hold log, files and versions of the TABLEs named behind it together."),
    "verify-all": ("verify --all", "Do so with every table of the lake."),
    "vacuum": ("vacuum", "Remove what nothing refers to any more, of the TABLEs named behind it."),
    "vacuum-all": ("vacuum --all", "Vacuum every table of the lake."),
    "metrics": ("metrics", "Print ages, sizes, versions and locks for Prometheus."),
    "doctor": ("doctor", "Say what is there, what is missing, and what to do."),
}
"""Commands of the utility: arguments and description of each.

``meltano run`` passes nothing on, so what is to run in a pipeline needs no more than these; more
is for ``meltano invoke``.
"""
OF_THE_PROJECT = {
    "freeze-orders": ("freeze tap-shop.orders", "Freeze the shop's orders."),
    "freeze-published": ("freeze tap-shop.orders --publish", "Freeze them, and publish that."),
}
"""More in this repository's project, for its jobs."""
PIP_URL = "${SINGERLAKE_PIP_URL}"
"""Where the package is, said by the project's ``.env`` for as long as no registry has it."""
UNKNOWN_TO_HUB = {"structured-logging"}
UNKNOWN_TO_MELTANO = {"validate-records"}
"""Capabilities of the target that one's schema for loaders has a word for and the other's not."""

_KINDS = {"number": "decimal"}


def _store_settings() -> list[dict[str, Any]]:
    """The utility's settings of stores: the plugins', passed on by variables."""
    found = []
    for prop in STORES:
        (name, schema), *_ = prop.to_dict().items()
        types = [kind for kind in schema["type"] if kind != "null"]
        one = {
            "name": name,
            "kind": _KINDS.get(types[0], types[0]),
            "label": schema["title"],
            "description": " ".join(schema["description"].split()),
            "env": f"SINGERLAKE_{name.upper()}",
        }
        found.append({**one, "sensitive": True} if schema.get("secret") else one)
    return found


_SINGERLAKE = [
    {
        "name": "lake",
        "kind": "string",
        "label": "Lake",
        "description": "Where the lake lies: a folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix.",
        "env": "SINGERLAKE_LAKE",
    },
    *_store_settings(),
    {
        "name": "projections",
        "kind": "object",
        "label": "Projections",
        "description": "What `singerlake publish` keeps up to date, as projections.yml has it: "
        "`projections`, a list of them, and `destinations`. Leave it out where there is that file.",
        "env": "SINGERLAKE_PROJECTIONS",
    },
]


def settings(plugin: type[PluginBase]) -> list[dict[str, Any]]:
    """A plugin's settings, as Meltano has them."""
    found = []
    for name, schema in plugin._get_about_info().settings["properties"].items():
        types = [kind for kind in schema["type"] if kind != "null"]
        one = {
            "name": name,
            "kind": _KINDS.get(types[0], types[0]),
            "label": schema["title"],
            "description": " ".join(schema["description"].split()),
        }
        if schema.get("secret"):
            one["sensitive"] = True
        if "default" in schema:
            one["value"] = schema["default"]
        found.append(one)
    return found


def capabilities(plugin: type[PluginBase], unknown: Collection[str] = ()) -> list[str]:
    """A plugin's capabilities, as Meltano spells them, without those it would not know."""
    own = {str(one.value) for one in plugin._get_about_info().capabilities}
    return sorted(own.difference(unknown))


def commands(wanted: dict[str, tuple[str, str]]) -> dict[str, dict[str, str]]:
    """The utility's commands, as Meltano has them."""
    return {name: {"args": args, "description": text} for name, (args, text) in wanted.items()}


def hub() -> dict[str, str]:
    """The Hub's definitions: path below ``docs/hub`` and text of each."""
    shared = {"variant": "singerlake", "label": "Singerlake", "pip_url": PIP_URL}
    more = {
        "maintenance_status": "beta",
        "keywords": ["data lake", "versioning", "spark", "s3"],
        "supported_python_versions": ["3.10", "3.11", "3.12", "3.13", "3.14"],
    }
    tap: dict[str, Any] = {
        "name": "tap-singerlake",
        "namespace": "tap_singerlake",
        **shared,
        "description": "Plays a lake of raw Singer messages back: all, a version, or what is new",
        "executable": "tap-singerlake",
        "capabilities": capabilities(TapSingerlake),
        "settings": settings(TapSingerlake),
        "settings_group_validation": [["lake"]],
        **more,
    }
    target = {
        "name": "target-singerlake",
        "namespace": "target_singerlake",
        **shared,
        "description": "Keeps every Singer message in a lake of versioned tables",
        "executable": "target-singerlake",
        "capabilities": capabilities(TargetSingerlake, UNKNOWN_TO_HUB),
        "settings": settings(TargetSingerlake),
        "settings_group_validation": [["lake"]],
        **more,
    }
    utility = {
        "name": "singerlake",
        "namespace": "singerlake",
        **shared,
        "pip_url": f"{PIP_URL}[sql,spark,java]",
        "description": "Freezes, queries, reverts and vacuums the tables of a lake",
        "executable": "singerlake",
        "commands": commands(COMMANDS),
        "settings": _SINGERLAKE,
        **more,
    }
    return {
        "extractors/tap-singerlake/singerlake.yml": _yaml(tap),
        "loaders/target-singerlake/singerlake.yml": _yaml(target),
        "utilities/singerlake/singerlake.yml": _yaml(utility),
    }


def filled(text: str) -> str:
    """``meltano.yml`` with its marked parts as they should be."""
    for name, plugin in PLUGINS.items():
        text = _replaced(text, "settings", name, settings(plugin))
        text = _replaced(text, "capabilities", name, capabilities(plugin, UNKNOWN_TO_MELTANO))
    text = _replaced(text, "settings", "singerlake", _SINGERLAKE)
    return _replaced(text, "commands", "singerlake", commands({**COMMANDS, **OF_THE_PROJECT}))


def _replaced(text: str, key: str, plugin: str, value: Any) -> str:
    body = "".join(f"    {line}\n" for line in _yaml({key: value}).splitlines())
    pattern = rf"(    # {key}: {plugin}\n).*?(    # end\n)"
    new, count = re.subn(pattern, lambda found: found[1] + body + found[2], text, flags=re.S)
    assert count == 1, (key, plugin)
    return new


def _yaml(value: Any) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=96)
    return text


if __name__ == "__main__":
    MELTANO.write_text(filled(MELTANO.read_text("utf-8")), encoding="utf-8")
    for path, text in hub().items():
        (HUB / path).parent.mkdir(parents=True, exist_ok=True)
        (HUB / path).write_text(text, encoding="utf-8")
