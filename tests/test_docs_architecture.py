"""The map, the index of decisions and the pages for contributors say what is there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import decisions_index

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
MAP = ROOT / "docs" / "internals" / "architecture.md"
PAGES = [MAP, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", decisions_index.INDEX]
PACKAGES = (
    "singerlake",
    "singerlake_cli",
    "tap_singerlake",
    "target_singerlake",
    "pyspark_singerlake",
)


def layers(container: str) -> list[set[str]]:
    """The rooms of a package by the import contracts, from the top down."""
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract.get("containers") == [container]:
            return [set(layer.split(" | ")) for layer in contract["layers"]]
    raise AssertionError(f"no import contract has the rooms of {container}")


def rows(name: str, package: str) -> list[set[str]]:
    """The rooms of a package by the map's table of this name, from the top down."""
    text = MAP.read_text(encoding="utf-8")
    (table,) = re.findall(rf"<!-- {name} -->\n(.*?)<!-- end -->", text, re.S)
    cells = re.findall(r"^\| (`.*?) \|", table, re.M)
    named = [re.findall(r"`([^`]+)`", cell) for cell in cells]
    inside = [{one.removeprefix(f"{package}/") for one in row} for row in named]
    return [{one.removesuffix(".py") for one in row} for row in inside]


def test_the_rooms_are_those_of_the_import_contracts() -> None:
    faces, *core = rows("rooms", "singerlake")
    assert faces == set(PACKAGES) - {"singerlake"}
    assert core == layers("singerlake")


@pytest.mark.parametrize(
    ("table", "package"),
    [
        ("rooms of operations", "singerlake/ops"),
        ("rooms of the engine", "singerlake/engine"),
        ("rooms of rows", "singerlake/rows"),
        ("rooms of input files", "singerlake/rows/input"),
    ],
)
def test_the_inner_rooms_are_those_of_the_import_contracts(table: str, package: str) -> None:
    assert rows(table, package) == layers(package.replace("/", "."))


def test_every_room_is_on_the_map() -> None:
    text = MAP.read_text(encoding="utf-8")
    folders = {path.parent for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    rooms = {str(folder.relative_to(ROOT)) for folder in folders}
    assert len(rooms) > 15
    missing = {room for room in rooms if not re.search(rf"`{room}[`/]", text)}
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_and_link_of_a_page_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:singerlake|\w+_singerlake|tests|bench)\w*/[\w/.*-]*)`", text))
    named |= {one for one in re.findall(r"`([\w/]+)`", text) if one in PACKAGES}
    for path in named:
        assert list(ROOT.glob(path.rstrip("/"))), f"{page.name} names {path}"
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert "://" in link or (page.parent / link).exists(), f"{page.name} links {link}"


def test_every_library_for_one_room_is_on_the_map() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    kept = {name for one in contracts for name in one.get("forbidden_modules", [])}
    text = MAP.read_text(encoding="utf-8")
    assert {name for name in kept if f"`{name}`" not in text} == set()


def test_the_index_of_decisions_is_complete() -> None:
    text = decisions_index.INDEX.read_text(encoding="utf-8")
    assert text == decisions_index.filled(text), "run: python -m tests.decisions_index"
    names = [path.name[:3] for path in decisions_index.FOLDER.glob("*-*.md")]
    assert len(set(names)) == len(names), "two decisions have one number"
