"""The citation of a version, or of a query's result: its place, and its proof."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from singerlake.format.log import FrozenVersion
from singerlake.quantities import count
from singerlake.site import words
from singerlake.site.pages import TableSummary, Version

_LONGEST = 200
"""Characters of a name; a citation is a sentence."""


@dataclass(frozen=True)
class Cited:
    """The data that is cited.

    Attributes:
        title: Its description in words.
        creator: Who answers for it; empty if nobody is named.
        publisher: The lake's name.
        rows: The number of its rows.
        time: When it was frozen or computed, ISO 8601 in UTC; empty if that is not known.
        fingerprint: Over the values of its rows.
        key: Its key in BibTeX.
        version: The version's number; None for the result of a query.
        sources: The versions that the query reads.
    """

    title: str
    creator: str
    publisher: str
    rows: int
    time: str
    fingerprint: str
    key: str
    version: int | None = None
    sql: str = ""
    sources: Sequence[str] = ()

    @property
    def text(self) -> str:
        """A sentence."""
        creator = f"{self.creator}. " if self.creator else ""
        done = "frozen" if self.version is not None else "computed"
        when = f", {done} {words.time(self.time)} UTC" if self.time else ""
        read = f" Read {', '.join(self.sources)}." if self.sources else ""
        return (
            f"{creator}{self.title}. In: {self.publisher}.{read} {count(self.rows, 'row')}{when}. "
            f"Fingerprint {self.fingerprint}."
        )

    @property
    def bibtex(self) -> str:
        """An entry of BibTeX."""
        read = f", of {', '.join(self.sources)}" if self.sources else ""
        fields = {
            "title": self.title,
            "author": self.creator,
            "publisher": self.publisher,
            "year": words.day(self.time)[:4] if self.time else "",
            "version": "" if self.version is None else str(self.version),
            "note": f"{count(self.rows, 'row')}, fingerprint {self.fingerprint}{read}",
        }
        lines = [f"  {field} = {{{_bibtex(value)}}}," for field, value in fields.items() if value]
        return "\n".join([f"@dataset{{{self.key},", *lines, "}"])

    @property
    def datacite(self) -> dict[str, Any]:
        """Metadata of DataCite, kernel 4, without the identifier that a registration assigns."""
        document: dict[str, Any] = {
            "schemaVersion": "http://datacite.org/schema/kernel-4",
            "types": {"resourceTypeGeneral": "Dataset"},
            "titles": [{"title": self.title}],
            "creators": [{"name": self.creator or self.publisher}],
            "publisher": {"name": self.publisher},
            "sizes": [f"{self.rows} row{'' if self.rows == 1 else 's'}"],
            "alternateIdentifiers": [
                {
                    "alternateIdentifier": self.fingerprint,
                    "alternateIdentifierType": "Singerlake fingerprint",
                }
            ],
        }
        if self.time:
            kind = "Created" if self.version is not None else "Collected"
            document["publicationYear"] = int(self.time[:4])
            document["dates"] = [{"date": self.time, "dateType": kind}]
        if self.version is not None:
            document["version"] = str(self.version)
        if self.sql:
            described = {"description": self.sql, "descriptionType": "Methods"}
            document["descriptions"] = [described]
            document["relatedItems"] = [
                {
                    "titles": [{"title": source}],
                    "relatedItemType": "Dataset",
                    "relationType": "IsDerivedFrom",
                }
                for source in self.sources
            ]
        return document


def cited_version(
    publisher: str, table: str, owner: str | None, version: Version | FrozenVersion
) -> Cited:
    """Return a version as cited data.

    Args:
        publisher: The lake's name.
    """
    label = f" ({words.cut(version.label, _LONGEST)})" if version.label else ""
    name = words.cut(table, _LONGEST)
    return Cited(
        title=f"{name}, version {version.number}{label}",
        creator=words.cut(owner, _LONGEST) if owner else "",
        publisher=publisher,
        rows=version.rows,
        time=version.time,
        fingerprint=version.fingerprint,
        key=bibtex_key(f"{name}-{version.number}"),
        version=version.number,
    )


def citation(title: str, table: TableSummary, version: Version) -> Cited:
    """Cite a version on the site."""
    return cited_version(title, table.name, table.said.owner, version)


def bibtex_key(text: str) -> str:
    """Return a key of BibTeX."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


def _bibtex(text: str) -> str:
    return re.sub(r"([&%$#_])", r"\\\1", re.sub(r"[{}\\~^]", "", " ".join(text.split())))
