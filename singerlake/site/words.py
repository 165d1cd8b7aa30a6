"""Numbers, times and texts as pages write them; the filters of the templates."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from markupsafe import Markup, escape

from singerlake.format import times
from singerlake.safe_text import visible

_MARKDOWN = re.compile(r"([\\`*_\[\]{}|~$!])")
_SPECIAL = re.compile("[&<>\"']")
_LINE_START = re.compile(r"^(\s*[0-9]*)(?:(?<![0-9])([#+=:-])|(?<=[0-9])([.)])(?=\s|$))")
"""What makes a line a heading or an item of a list; a number such as 51.1 does not."""


def number(value: int) -> str:
    """A number: ``1,234``."""
    return f"{value:,}"


@lru_cache(maxsize=4096)
def time(stamp: str | None) -> str:
    """A time to the minute; pages never say how long ago that was, for they stay."""
    instant = times.parse(stamp) if stamp else None
    return f"{instant:%Y-%m-%d %H:%M}" if instant else (stamp or "never")[:40]


@lru_cache(maxsize=4096)
def moment(stamp: str | None) -> Markup:
    """A time in HTML, to the minute for people and exact for programs."""
    if not stamp:
        return Markup('<span class="note">never</span>')
    return Markup('<time datetime="{}">{}</time>').format(inert(stamp), inert(time(stamp)))


def day(stamp: str) -> str:
    """The day of a time."""
    return time(stamp)[:10]


def clock(stamp: str) -> str:
    """The time of the day."""
    return time(stamp)[11:]


def cut(text: str, most: int) -> str:
    """A text, cut where it is too long for its place."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def proof(fingerprint: str) -> str:
    """Return the beginning of a fingerprint."""
    made, _, digits = fingerprint.rpartition(":")
    return f"{made}:{digits[:12]}…" if made else f"{digits[:12]}…"


def inert(value: Any) -> Any:
    """Make a text inert: no character that turns a line around, or that nobody sees."""
    if not isinstance(value, str) or isinstance(value, Markup) or value.isprintable():
        return value  # most is: looking is ten times as fast as going through each character
    return visible(value, spaces=True)


def html(value: Any) -> str:
    """Make a text inert and escape it for HTML; text with nothing to escape stays as it is."""
    kind = type(value)
    if kind is str and value.isprintable():
        return value if _SPECIAL.search(value) is None else escape(value)
    if kind is Markup:
        return str(value)
    return str(value) if kind is int else escape(inert(value))


def markdown(value: Any) -> Any:
    """Make a text plain in Markdown: nothing but text, on one line."""
    if isinstance(value, (Markup, int, float)):
        return value
    text = " ".join(visible(str(value), spaces=True).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _MARKDOWN.sub(r"\\\1", text)
    return Markup(_LINE_START.sub(r"\1\\\2\3", text))  # noqa: S704  # it was escaped just now


def code(text: str) -> Markup:
    """A text as Markdown's code."""
    shown = " ".join(visible(text, spaces=True).split()).replace("|", "¦")
    fence = "`" * (_longest(shown) + 1)
    return Markup(f"{fence} {shown} {fence}" if "`" in shown else f"`{shown}`")  # noqa: S704


def block(text: str) -> Markup:
    """A text as a block of Markdown's code."""
    fence = "`" * max(3, _longest(text) + 1)
    return Markup(f"{fence}text\n{visible(text, lines=True)}\n{fence}")  # noqa: S704


def outside(url: str) -> Markup:
    """A link in Markdown to a URL that was checked."""
    target = re.sub(r"[\s<>\\]", "", visible(url)).replace("(", "%28").replace(")", "%29")
    return Markup(f"<{target}>")  # noqa: S704


def _longest(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)
