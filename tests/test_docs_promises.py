"""docs/internals/promises.md names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "internals" / "promises.md").read_text(encoding="utf-8")


def check_named_tests(text: str) -> int:
    """Assert that each test which a page names exists; return how many it names."""
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    for file, test in named:
        path = ROOT / file
        assert path.is_file(), file
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert not test or test in names, f"{file}::{test}"
    return len(named)


def test_every_test_it_names_exists() -> None:
    assert check_named_tests(TEXT) > 30


def test_every_promise_names_its_test() -> None:
    sections = TEXT.split("\n## ")
    for section in sections[1:4]:
        tables = re.findall(r"^\|.*tests \|\n\| --- .*\n((?:\|.*\n)+)", section, re.M)
        assert tables
        for row in "".join(tables).splitlines():
            assert "`tests/" in row, row
        assert section.count("\n| ") == sum(2 + table.count("\n") for table in tables)


def test_the_make_targets_it_names_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    named = set(re.findall(r"`make (\w+)`", TEXT))
    assert {"faults", "soak"} <= named <= targets
