"""singerlake cite: how to cite a version."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from singerlake.format.names import TableRef
from singerlake_cli import output, results
from singerlake_cli.shared import Shared, complete_table

if TYPE_CHECKING:
    from singerlake.site.citation import Cited


@click.command("cite")
@click.argument("version", metavar="TABLE.VERSION", shell_complete=complete_table)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "bibtex", "datacite"]),
    default="text",
    show_default=True,
    help="A sentence, an entry of BibTeX, or DataCite's metadata as JSON.",
)
@click.pass_obj
def command(shared: Shared, version: str, form: str) -> None:
    """Print how to cite a frozen version.

    A citation names what finds the version (lake, table and number) and what proves it: the number
    of its rows and the fingerprint of their values, which anybody who holds the rows can compute
    again. The creator is the owner of the table, its tap or the lake (`singerlake annotate`).

    Heads and transactions cannot be cited, because they move or expire: freeze them first. A
    pointer is cited as the version that it names now.

    \b
    singerlake cite tap-shop.orders.2
    singerlake cite tap-shop.orders@current --format bibtex
    """
    from singerlake.ops.cite import cite_version

    lake = shared.lake()
    table, ref = lake.find(version)
    cited, notes = cite_version(lake, table, ref)
    for note in notes:
        shared.output.note(note)
    document: dict[str, Any] = {
        "version": str(TableRef(ref.table, str(cited.version))),
        "text": cited.text,
        "bibtex": cited.bibtex,
        "datacite": cited.datacite,
    }
    shared.output.result(lambda: document, lambda: _print(cited, form))


def _print(cited: Cited, form: str) -> None:
    if form == "text":
        output.say(cited.text)
    elif form == "bibtex":
        results.write_text(f"{cited.bibtex}\n", None)
    else:
        results.write_text(json.dumps(cited.datacite, indent=2, ensure_ascii=False) + "\n", None)
