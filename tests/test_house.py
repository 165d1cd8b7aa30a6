"""The house keeps its measures: no module over 800 lines, no function over 50."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "singerlake",
    "tap_singerlake",
    "target_singerlake",
    "singerlake_cli",
    "pyspark_singerlake",
    "packages",
)
MODULES = sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
MAX_MODULE, MAX_FUNCTION = 800, 50


def too_long(source: str) -> Iterator[tuple[str, int]]:
    """The functions of a module that are too long, by the lines from their first statement on."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0  # type: ignore[operator]
            if lines > MAX_FUNCTION:
                yield node.name, lines


def test_all_packages_are_looked_at() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == {*PACKAGES}


@pytest.mark.parametrize(("lines", "found"), [(50, []), (51, [("f", 51)])])
def test_a_function_that_is_too_long_is_found(lines: int, found: list[tuple[str, int]]) -> None:
    source = 'def f(\n    x,\n):\n    """Do."""\n' + "    x()\n" * lines
    assert [*too_long(source)] == found


def test_no_module_is_too_long() -> None:
    sizes = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: size for name, size in sizes.items() if size > MAX_MODULE} == {}


def test_no_function_is_too_long() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{name}": lines
        for path in MODULES
        for name, lines in too_long(path.read_text())
    }
    assert found == {}
