"""All texts in the code, with … where a value is put in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.pages.steps import ROOT

PACKAGES = (
    "singerlake",
    "singerlake_cli",
    "tap_singerlake",
    "target_singerlake",
    "pyspark_singerlake",
)


def texts() -> list[str]:
    """Each string of the packages, neighbours that Python joins as one."""
    modules = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
    return [text for path in modules for text in _texts(path)]


def _texts(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                part.value if isinstance(part, ast.Constant) else "…" for part in node.values
            )
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner
        ):
            yield node.value
