"""One site of all pages, with all that is made from the code in it.

All pages are read, and a few written; ``make docs``, which CI runs as well, writes all of them and
takes every warning for an error. That all are in the contents, and where links lead, is in
tests/test_docs_links.py.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

import singerlake
from singerlake_cli.main import COMMANDS, cli
from tests.pages.steps import ROOT
from tests.pages.test_redirects import MOVED, redirects

WRITTEN = ("index", "tutorial", "reference/commands", "reference/api")
EXPECTED = "search index couldn't be loaded, but not all documents will be built"
"""What Sphinx warns of where only a few pages are written."""


@pytest.fixture(scope="module")
def site(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, made as ``make docs`` makes it."""
    made = tmp_path_factory.mktemp("site")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (rule,) = re.findall(r"sphinx-build (.*) build/site$", makefile, re.M)
    pages = [f"docs/{name}.md" for name in WRITTEN]
    options = rule.replace("auto", "1").replace("--fail-on-warning", "").split()
    sphinx = [sys.executable, "-m", "sphinx", *options, str(made), *pages]
    done = subprocess.run(sphinx, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if line and EXPECTED not in line] == []
    return made


def text(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))


def test_it_begins_at_its_root(site: Path) -> None:
    assert "url=docs/index.html" in (site / "index.html").read_text(encoding="utf-8")
    home = (site / "docs" / "index.html").read_text(encoding="utf-8")
    assert {"tutorial.html", "guides/index.html", "about/index.html"} <= set(
        re.findall(r'href="([\w/-]+\.html)"', home)
    )


def test_every_moved_page_has_a_redirect(site: Path) -> None:
    for old, anchors in MOVED.items():
        page = (site / "docs" / old).with_suffix(".html")
        assert page.read_text(encoding="utf-8") == redirects.page(old, anchors)


def test_every_command_is_there_with_its_options(site: Path) -> None:
    page = site / "docs" / "reference" / "commands.html"
    raw, said = page.read_text(encoding="utf-8"), text(page)
    for name in COMMANDS:
        assert f'id="singerlake-{name}"' in raw
        command = cli.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        for parameter in command.params:
            assert all(option in said for option in parameter.opts if option.startswith("--"))
    for plugin in ("target-singerlake", "tap-singerlake", "singerlake-alter-TABLE-add-column"):
        assert f'id="{plugin}"' in raw


def test_every_public_name_is_there(site: Path) -> None:
    said = text(site / "docs" / "reference" / "api.html")
    numbers = {"FORMAT", "__version__"}
    assert [one for one in singerlake.__all__ if one not in said and one not in numbers] == []


def test_it_asks_no_other_place_for_anything(site: Path) -> None:
    raw = (site / "docs" / "tutorial.html").read_text(encoding="utf-8")
    assert re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//[^"]+"', raw) == []
