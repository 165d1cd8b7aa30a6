"""singerlake cite: how to cite a version, or a query over versions."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click

from singerlake.format.names import TableRef
from singerlake_cli import output, results
from singerlake_cli.shared import Shared, complete_table, engine_options
from singerlake_cli.working import working

if TYPE_CHECKING:
    from singerlake.engine.choice import EngineChoice
    from singerlake.site.citation import Cited

_SELECT = re.compile(r"[\s(]*(select|with)\s", re.IGNORECASE)
"""How a statement begins; a table's name has no space there."""


@click.command("cite")
@click.argument("cited", metavar="TABLE.VERSION|SELECT", shell_complete=complete_table)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "bibtex", "datacite"]),
    default="text",
    show_default=True,
    help="A sentence, an entry of BibTeX, or DataCite's metadata as JSON.",
)
@engine_options
@click.pass_obj
def command(shared: Shared, cited: str, form: str, choice: EngineChoice) -> None:
    """Print how to cite a frozen version, or a query over versions.

    A citation names what finds the version (lake, table and number) and what proves it: the number
    of its rows and the fingerprint of their values, which anybody who holds the rows can compute
    again. The creator is the owner of the table, its tap or the lake (`singerlake annotate`).

    A SELECT is run, and cited by its text, the versions that it reads, the number of its rows and
    their fingerprint. Anybody who runs it on the same versions gets the same fingerprint, on any
    engine and in any order of the rows.

    Heads and transactions cannot be cited, because they move or expire: freeze them first. A
    pointer is cited as the version that it names now, but a SELECT must name versions itself.

    \b
    singerlake cite tap-shop.orders.2
    singerlake cite tap-shop.orders@current --format bibtex
    singerlake cite "select sum(total) as sum from tap_shop.orders.2"
    """
    lake = shared.lake()
    if _SELECT.match(cited):
        from singerlake.ops.cite_query import cite_query

        with working("asking"):
            found, read = cite_query(lake, cited, choice)
        about: dict[str, Any] = {"sql": found.sql, "versions": [str(ref) for ref in read]}
    else:
        from singerlake.ops.cite import cite_version

        table, ref = lake.find(cited)
        found, notes = cite_version(lake, table, ref)
        for note in notes:
            shared.output.note(note)
        about = {"version": str(TableRef(ref.table, str(found.version)))}
    document = {
        **about,
        "text": found.text,
        "bibtex": found.bibtex,
        "datacite": found.datacite,
    }
    shared.output.result(lambda: document, lambda: _print(found, form))


def _print(cited: Cited, form: str) -> None:
    if form == "text":
        output.say(cited.text)
    elif form == "bibtex":
        results.write_text(f"{cited.bibtex}\n", None)
    else:
        results.write_text(json.dumps(cited.datacite, indent=2, ensure_ascii=False) + "\n", None)
