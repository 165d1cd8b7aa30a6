"""What a page shows is what its commands print, from top to bottom, in one folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.pages import running
from tests.pages.steps import ROOT, begins_with

PAGES = running.pages()
GIVEN = {"shop", "s3"}


@pytest.mark.usefixtures("processes")
@pytest.mark.usefixtures("spark", "programs")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_from_top_to_bottom(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    begun = begins_with(page)
    assert begun <= GIVEN
    work = tmp_path / "work"
    if "shop" in begun:
        shutil.copytree(request.getfixturevalue("shop"), work)
    else:
        work.mkdir()
    if "s3" in begun:
        request.getfixturevalue("bucket")
    if "~/project" in page.read_text(encoding="utf-8"):
        request.getfixturevalue("repository")
    monkeypatch.chdir(work)
    monkeypatch.delenv("SINGERLAKE_LAKE", raising=False)
    running.run_page(page, monkeypatch)
    if page.name == "README.md":
        lines = (work / "everything.jsonl").read_text().splitlines()
        assert [json.loads(line)["type"] for line in lines].count("RECORD") == 106 + 1164


@pytest.mark.usefixtures("processes", "each_operation", "programs")
def test_readme_prints_the_same_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fingerprints and counts are one, whichever engine freezes, reverts, verifies and vacuums."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SINGERLAKE_LAKE", raising=False)
    monkeypatch.delenv("SINGERLAKE_PAGES", raising=False)
    monkeypatch.setenv("SINGERLAKE_ENGINE", "spark")
    running.run_page(ROOT / "README.md", monkeypatch)
    vacuumed = running.run("singerlake vacuum tap-shop.orders --expire-history", {})
    assert "tap-shop.orders: " in vacuumed
    verified = running.run("singerlake verify tap-shop.orders", {})
    assert "1 version: no problems found" in verified


def test_the_first_pages_are_among_them() -> None:
    names = {page.name for page in PAGES}
    assert {"README.md", "tutorial.md", "undo-a-bad-sync.md", "correct-rows.md"} <= names
