"""The page of results: generated whole, one section for each topic."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

PAGE = Path(__file__).with_name("RESULTS.md")
HEAD = """\
# Benchmark results

`python -m bench --write` generates this page; do not edit it. A run replaces the sections of its topics and keeps the
others, so each section has its own date, commit and size. Times are medians, except under headings that name another
statistic. [Performance](../docs/about/performance.md) summarizes them, [README.md](README.md) lists what each topic
measures, and [NOTES.md](NOTES.md) explains the figures.
"""
_SECTION = re.compile(r"^<!-- (\w+) -->\n(.*?)\n<!-- /\1 -->$", re.DOTALL | re.MULTILINE)


def read(text: str) -> dict[str, str]:
    """Return the sections of a page by topic."""
    return dict(_SECTION.findall(text))


def render(sections: Mapping[str, str], topics: Sequence[str]) -> str:
    """Return the page; topics without a section are left out."""
    parts = [
        f"## {topic}\n\n<!-- {topic} -->\n{sections[topic]}\n<!-- /{topic} -->\n"
        for topic in topics
        if topic in sections
    ]
    return "\n".join([HEAD, *parts])


def measured(rows: int, rounds: int) -> str:
    """Return the line that names when, at which commit and at which size a section was measured."""
    describe = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(describe, cwd=PAGE.parent, capture_output=True, text=True, check=False)
    commit = done.stdout.strip() or "unknown"
    return f"Measured on {date.today()}, commit {commit}: `--rows {rows} --rounds {rounds}`."


def put(topic: str, found: str, line: str, topics: Sequence[str]) -> None:
    """Replace the section of one topic in the page; the others stay."""
    sections = read(PAGE.read_text("utf-8"))
    sections[topic] = f"{line}\n\n{found}"
    PAGE.write_text(render(sections, topics), "utf-8")
