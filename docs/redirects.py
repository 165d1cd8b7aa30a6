"""Sphinx extension that redirects old addresses: HTML pages made from ``redirects.txt``."""

from __future__ import annotations

import html
import json
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

TABLE = Path(__file__).with_name("redirects.txt")
# Browsers do not send the anchor to the server, so only a script can go by it.
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>This page has moved</title>
<link rel="canonical" href="{url}">
<script>
const moved = {anchors};
location.replace(moved[location.hash] || {default} + location.hash);
</script>
<noscript><meta http-equiv="refresh" content="0; url={url}"></noscript>
</head>
<body><p>This page has moved to <a href="{url}">{url}</a>.</p></body>
</html>
"""


def read(text: str) -> dict[str, dict[str, str]]:
    """Return the new addresses by old page and anchor ("" for the page itself)."""
    moved: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            old, new = line.split()
            page, _, anchor = old.partition("#")
            moved.setdefault(page, {})[anchor] = new
    return moved


def page(old: str, anchors: dict[str, str]) -> str:
    """Return the HTML page that redirects from an old page."""
    urls = {anchor: _url(old, new) for anchor, new in anchors.items()}
    default = urls.pop("")
    by_anchor = {f"#{anchor}": url for anchor, url in urls.items()}
    return _PAGE.format(
        url=html.escape(default), anchors=json.dumps(by_anchor), default=json.dumps(default)
    )


def _url(old: str, new: str) -> str:
    path, mark, anchor = new.partition("#")
    relative = posixpath.relpath(path, posixpath.dirname(old) or ".")
    return f"{relative.removesuffix('.md')}.html{mark}{anchor}"


def _write(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        for old, anchors in read(TABLE.read_text(encoding="utf-8")).items():
            target = Path(app.outdir, "docs", old).with_suffix(".html")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(page(old, anchors), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the redirects once the site is built."""
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
