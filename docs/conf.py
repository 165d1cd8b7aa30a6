"""How Sphinx makes one site of the pages: ``make docs``.

The repository's root is the source folder, so that links between pages, to files beside them and to
CONTRIBUTING.md are the same here as where the repository is read.
"""

from __future__ import annotations

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]

from singerlake import __version__  # noqa: E402  # found by the path above

project = "Singerlake"
author = "The Singerlake developers"
copyright = author  # noqa: A001  # Sphinx's name
release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "command_help",
    "contents",
    "redirects",
]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "bench/*.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = [
    ".*",
    "build",
    "dist",
    "model",
    "singerlake*",
    "tap_singerlake",
    "target_singerlake",
    "tests",
    "docs/hub/*/**",
]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
nitpicky = False
suppress_warnings = ["misc.highlighting_failure"]  # blocks with … in them are meant to be read

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_class_signature = "separated"
autodoc_default_options = {
    "members": True,
    "inherited-members": True,
    "special-members": "__getitem__",
    "exclude-members": "__init__",
}
napoleon_google_docstring = True
napoleon_numpy_docstring = False

copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True

html_theme = "furo"
html_title = f"Singerlake {release}"
html_extra_path = ["root"]  # leads from the site's first address to this folder
html_static_path = ["static"]
html_css_files = ["scrolling.css"]
html_search_scorer = str(DOCS / "static" / "scorer.js")
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": True,
    "light_css_variables": {"color-brand-primary": "#1f5d8c", "color-brand-content": "#1f5d8c"},
    "dark_css_variables": {"color-brand-primary": "#7db8e8", "color-brand-content": "#7db8e8"},
}
