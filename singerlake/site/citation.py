"""The citation of a version."""

from __future__ import annotations

import re
from dataclasses import dataclass

from singerlake.site import words
from singerlake.site.pages import TableSummary, Version


@dataclass(frozen=True)
class Citation:
    """A version's citation, as a sentence and as an entry of BibTeX."""

    text: str
    bibtex: str


def citation(title: str, table: TableSummary, version: Version) -> Citation:
    """Cite a version by what finds it and what proves it."""
    owner = f"{words.cut(table.said.owner, 200)}. " if table.said.owner else ""
    label = f" ({words.cut(version.label, 200)})" if version.label else ""
    frozen = f", frozen {words.time(version.time)} UTC" if version.time else ""
    name = words.cut(table.name, 200)
    text = (
        f"{owner}{name}, version {version.number}{label}. In: {title}. "
        f"{version.rows:,} rows{frozen}. Fingerprint {version.fingerprint}."
    )
    key = re.sub(r"[^A-Za-z0-9]+", "-", f"{name}-{version.number}").strip("-")
    fields = {
        "title": f"{name}, version {version.number}{label}",
        "author": words.cut(table.said.owner, 200) if table.said.owner else "",
        "publisher": title,
        "year": words.day(version.time)[:4] if version.time else "",
        "version": str(version.number),
        "note": f"{version.rows:,} rows, fingerprint {version.fingerprint}",
    }
    lines = [f"  {field} = {{{_bibtex(value)}}}," for field, value in fields.items() if value]
    return Citation(text, "\n".join([f"@dataset{{{key},", *lines, "}"]))


def _bibtex(text: str) -> str:
    return re.sub(r"([&%$#_])", r"\\\1", re.sub(r"[{}\\~^]", "", " ".join(text.split())))
