"""From pages as data to files: Jinja2, everything escaped, the same bytes for the same page."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import Any
from urllib.parse import quote

import jinja2
from jinja2.compiler import CodeGenerator
from markupsafe import Markup

from singerlake import quantities
from singerlake.site import charts, paths, words

SUFFIXES = {"html": ".html", "markdown": ".md"}
ASSETS = ("site.css", "search.js", "icon.svg")
SELF = "'self'"


@dataclass(frozen=True)
class Rendered:
    """A file of the site."""

    path: str
    data: bytes


def assets() -> list[Rendered]:
    """The style sheet, the search and the icon."""
    folder = resources.files("singerlake.site") / "assets"
    return [Rendered(paths.ASSETS + name, (folder / name).read_bytes()) for name in ASSETS]


def _source(form: str, name: str) -> str | None:
    """A template's text; those of one form lie in a folder of its name."""
    file = resources.files("singerlake.site") / "templates" / form / name
    return file.read_text(encoding="utf-8") if file.is_file() else None


class _Escaping(CodeGenerator):
    """Writes each expression by ``words.html``, which escapes: one call instead of three."""

    def _output_child_pre(self, node: Any, frame: Any, finalize: Any) -> None:
        del node, frame
        self.write(finalize.src)

    def _output_child_post(self, node: Any, frame: Any, finalize: Any) -> None:
        del node, frame, finalize
        self.write(")")


class _HtmlEnvironment(jinja2.Environment):
    code_generator_class = _Escaping


class Renderer:
    """Lays pages out.

    Args:
        form: ``html`` or ``markdown``.
        to_lake: The way from the site to the lake, as a relative URI that ends in ``/``; empty
            where there is none.
    """

    def __init__(self, form: str, title: str, to_lake: str = "") -> None:
        self.suffix = SUFFIXES[form]
        self._form = form
        self._title = title
        self._to_lake = to_lake
        html = form == "html"
        self._environment = (_HtmlEnvironment if html else jinja2.Environment)(
            loader=jinja2.FunctionLoader(partial(_source, form)),
            autoescape=html,  # Markdown is escaped by words.markdown
            finalize=words.html if html else words.markdown,
            undefined=jinja2.StrictUndefined,
            trim_blocks=False,
            keep_trailing_newline=True,
        )
        for name in ("number", "time", "day", "clock", "cut", "proof", "moment"):
            self._environment.filters[name] = getattr(words, name)
        self._environment.filters["size"] = quantities.size
        self._environment.filters["count"] = quantities.count
        self._environment.filters["bars"] = charts.bars
        self._environment.filters["read_at"] = charts.read_at
        if not html:
            for name in ("code", "block", "outside"):
                self._environment.filters[name] = getattr(words, name)

    def page(self, template: str, path: str, **values: Any) -> Rendered:
        """One page.

        Args:
            template: Its template's name, without the suffix.
            path: Where it lies, without the suffix.
        """
        layout = self._environment.get_template(f"{template}{self.suffix}")
        text = layout.render(
            link=partial(self._link, path),
            stored=partial(self._stored, path),
            root=paths.root(path),
            site_title=self._title,
            script_src=SELF,
            **values,
        )
        if self._form == "markdown":
            text = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
        # A half of a character that a name may hold is no text that a file can.
        return Rendered(path + self.suffix, text.encode("utf-8", errors="replace"))

    def alone(self, template: str, **values: Any) -> bytes:
        """Render a page that contains its style sheet, and asks for nothing from anywhere."""
        sheet = resources.files("singerlake.site") / "assets" / "site.css"
        style = Markup(sheet.read_text(encoding="utf-8"))  # noqa: S704  # our own
        return self.page(template, template, style=style, **values).data

    def _link(self, here: str, path: str) -> str:
        return self._address(paths.link(path, here, self.suffix))

    def _stored(self, here: str, key: str) -> str:
        """Return how a page names a file of the lake; empty if it cannot be reached from there."""
        if not key or not self._to_lake:
            return ""
        return self._address(f"{paths.root(here)}{self._to_lake}{quote(key)}")

    def _address(self, address: str) -> str:
        return address if self._form == "html" else Markup(address)  # noqa: S704  # encoded

    def chart(self, chart: charts.Chart, path: str) -> Rendered:
        """A chart as a file of its own, for Markdown."""
        # Not with what escapes Markdown: a backslash in a number breaks a drawing.
        drawings = jinja2.Environment(
            loader=jinja2.FunctionLoader(partial(_source, self._form)),
            autoescape=True,
            finalize=words.inert,
            undefined=jinja2.StrictUndefined,
        )
        text = drawings.get_template("chart.svg").render(chart=chart)
        return Rendered(path, text.encode())


def templates_digest() -> str:
    """Changes whenever a template, or what lays it out, does."""
    digest = hashlib.sha256()
    for folder in ("templates", "templates/html", "templates/markdown"):
        entries = sorted(
            (resources.files("singerlake.site") / folder).iterdir(), key=lambda one: one.name
        )
        for entry in entries:
            if entry.is_file():
                digest.update(entry.name.encode() + b"\0" + entry.read_bytes())
    for module in (words, charts, paths, quantities):
        package, _, name = module.__name__.rpartition(".")
        digest.update((resources.files(package) / f"{name}.py").read_bytes())
    return digest.hexdigest()
