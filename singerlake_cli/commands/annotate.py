"""singerlake annotate: say of a lake what its data does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from singerlake.annotations import changes, document, odcs, subjects, yaml_text
from singerlake.annotations.subjects import LAKE, Subject
from singerlake.errors import NotFoundError, UsageError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake_cli import output
from singerlake_cli.shared import Shared, complete_table

_OPTIONS = {
    "owner": ("--owner", "TEXT", "The person or team that is responsible."),
    "description": ("--description", "TEXT", "A description."),
    "documentation": ("--documentation", "URL", "A link to more documentation."),
    "job_url": ("--job", "URL", "The job that fills it."),
    "job_status": ("--job-status", "TEXT", "Notes about that job."),
    "classification": ("--classification", "TEXT", "The sensitivity, such as confidential."),
    "freshness": ("--freshness", "AGE", "The maximum age of the last sync: 30min, 24h, 7d."),
}


def _fields(command: Any) -> Any:
    for name, (option, metavar, text) in reversed(_OPTIONS.items()):
        command = click.option(option, name, metavar=metavar, help=text)(command)
    return command


@click.command("annotate")
@click.argument(
    "subject", metavar="[TAP|TABLE[.COLUMN]]", required=False, shell_complete=complete_table
)
@_fields
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Add a tag; may be repeated.")
@click.option(
    "--require",
    "requirements",
    multiple=True,
    metavar="CONDITION",
    help="Add a requirement that each snapshot must meet to be frozen; may be repeated.",
)
@click.option(
    "--deprecated",
    metavar="[WHY]",
    is_flag=False,
    flag_value="yes",
    help="Mark it as deprecated, with the reason and what to use instead.",
)
@click.option(
    "--from",
    "file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Set all annotations in a YAML file.",
)
@click.option("--export", "exported", is_flag=True, help="Print the annotations, as such a file.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "odcs"]),
    help="With --export: odcs for data contracts (Open Data Contract Standard 3.1).",
)
@click.option("--dry-run", is_flag=True, help="Only check, and print what would be done.")
@click.pass_obj
def command(
    shared: Shared,
    /,
    subject: str | None,
    tags: tuple[str, ...],
    requirements: tuple[str, ...],
    deprecated: str | None,
    file: Path | None,
    exported: bool,
    form: str | None,
    dry_run: bool,
    **fields: str | None,
) -> None:
    """Annotate the lake, taps, tables and columns.

    Records owners, descriptions, tags and other facts, which `show`, `ls`, `docs` and
    `tap-singerlake --discover` display. Without a name, it annotates the lake. An empty value
    removes an annotation; --tag "" and --require "" remove all of them. --from changes only what
    the file mentions.

    \b
    singerlake annotate --description "All that the shop knows"
    singerlake annotate tap-shop --owner data@example.com --freshness 24h
    singerlake annotate tap-shop.orders --tag finance --documentation https://example.com/orders
    singerlake annotate tap-shop.orders --require "rows > 0" --require "deleted < 5%"
    singerlake annotate tap-shop.orders.amount --description "In cents, taxes included"
    singerlake annotate tap-shop.carts --deprecated "use tap-shop.orders"
    singerlake annotate --export > annotations.yml
    singerlake annotate --from annotations.yml
    """
    values: dict[str, object] = {name: text for name, text in fields.items() if text is not None}
    if deprecated is not None:
        values["deprecated"] = deprecated
    lists = {"tags": tags, "requirements": requirements}
    asked = [bool(values or any(lists.values())), file is not None, exported]
    if sum(asked) != 1:
        raise UsageError(
            "use one of: annotations (--owner, --description, …), --from FILE, or --export"
            if any(asked)
            else (
                "there is nothing to annotate: use --owner, --description, …, --from FILE or "
                "--export"
            )
        )
    if form and not exported:
        raise UsageError("--format requires --export")
    if file and subject:
        raise UsageError("the file contains the names: leave out the name with --from")
    lake = shared.lake()
    about = LAKE if subject is None else subjects.find(lake, subject)
    if exported:
        _export(shared, lake, about, form)
        return
    if file is not None:
        wanted = yaml_text.read(file)
        subjects.check_known(lake, [change.subject for change in wanted])
    else:
        _check_deprecated(lake, subject, deprecated)
        values |= {name: [] for name, texts in lists.items() if "" in texts}
        more = {name: [text for text in texts if text] for name, texts in lists.items()}
        wanted = [changes.change_of(about, values, more)]
    _note(shared, lake, wanted, dry_run=dry_run)


def _check_deprecated(lake: Lake, subject: str | None, deprecated: str | None) -> None:
    """Make sure that the name behind ``--deprecated`` was not meant as what is deprecated."""
    if subject is None and deprecated:
        tap = deprecated.partition(".")[0]
        if tap in lake.taps():
            raise UsageError(
                f"--deprecated took {deprecated!r} for the reason: write the name first, "
                f"singerlake annotate {deprecated} --deprecated"
            )


def _note(shared: Shared, lake: Lake, wanted: list[changes.Change], *, dry_run: bool) -> None:
    about = list(dict.fromkeys(str(change.subject) for change in wanted))
    if dry_run:
        raw = msgspec.to_builtins(lake.annotations(strict=True))
        changed = changes.apply(raw, wanted)
    else:
        changed = changes.annotate(lake, wanted)
    what = about[0] if len(about) == 1 else output.count(len(about), "subject")
    done = f"{what}: {'would be annotated' if dry_run else 'annotated'}"
    if not changed:
        done = f"{what}: already annotated, nothing was changed"
    shared.output.result(
        lambda: {"subjects": about, "changed": changed, "dry_run": dry_run},
        lambda: output.say(done),
    )


def _export(shared: Shared, lake: Lake, about: Subject, form: str | None) -> None:
    if form == "odcs":
        contracts = _contracts(lake, about)
        text = "---\n".join(yaml_text.to_yaml(contract) for contract in contracts)
        shared.output.result(
            lambda: contracts[0] if len(contracts) == 1 else contracts,
            lambda: output.say_text(text),
        )
        return
    content = document.export(lake.annotations(strict=True), about)
    shared.output.result(
        lambda: content, lambda: output.say_text(yaml_text.to_yaml(content) if content else "{}\n")
    )


def _contracts(lake: Lake, about: Subject) -> list[dict[str, Any]]:
    if about.column:
        raise UsageError("a data contract describes a tap or a table: leave out the column")
    contracts = []
    for tap in lake.taps() if about.tap is None else [about.tap]:
        snapshots = []
        for table in lake.tables(tap) if about.stream is None else [TableName(tap, about.stream)]:
            try:
                snapshots.append(lake.table(table).snapshot())
            except NotFoundError:
                continue  # a folder in which nothing was committed yet
        contracts.append(
            odcs.contract(lake.store.uri, lake.annotations(strict=True), tap, snapshots)
        )
    if not contracts:
        raise NotFoundError(f"the lake at {lake.store.uri} has no taps yet: sync into it first")
    return contracts
