"""singerlake projections: staging tables and publications, and which of them are out of date."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from singerlake.publish.declaration import SCHEMA, declared
from singerlake.publish.graph import Graph, graph
from singerlake.safe_text import redacted
from singerlake_cli import output, projection_graph
from singerlake_cli.projection_names import complete_projection
from singerlake_cli.shared import Shared

if TYPE_CHECKING:
    from singerlake.publish.status import Status

DROPPED_FIRST = ("overlap", "rows", "reads")
"""Columns that a narrow terminal leaves out, those that matter least first."""
OUTDATED = 1
"""The exit code with --exit-code if something is out of date."""


@click.command("projections")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_projection)
@click.option(
    "--projections",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file that declares them.  [default: projections.yml, or Meltano's setting]",
)
@click.option(
    "--graph",
    "drawing",
    type=click.Choice(["tree", "dot", "mermaid"]),
    is_flag=False,
    flag_value="tree",
    help="Print the dependencies: as a tree, or for Graphviz or Mermaid.",
)
@click.option("--exit-code", is_flag=True, help="Exit with code 1 if something is out of date.")
@click.option("--json-schema", is_flag=True, help="Print the JSON Schema of the file, for editors.")
@click.pass_obj
def command(
    shared: Shared,
    names: tuple[str, ...],
    file: Path | None,
    drawing: str | None,
    exit_code: bool,
    json_schema: bool,
) -> None:
    """List projections, whether they are out of date, and why.

    Compares the logs of tables with the metadata of destinations. It reads no rows, writes nothing
    and starts no Java. "overlap" is the share of rows in files with overlapping ranges: none after
    a full build, some after refreshes. NAMEs select projections, and those that they read.

    \b
    singerlake projections
    singerlake projections --graph
    singerlake projections --exit-code || singerlake publish --all
    singerlake projections --json-schema > projections.schema.json
    """
    if json_schema:
        # As it is in either form: it is JSON.
        output.say_text(SCHEMA.read_text(encoding="utf-8"))
        return
    lake = shared.lake()
    known = graph(lake, declared(file))
    if names:
        known = Graph(known.with_makers(names), known.readings)
    if drawing is not None:
        _draw(shared, known, drawing)
        return
    from singerlake.publish.status import status_of  # which brings pyarrow

    found = status_of(lake, known)
    shared.output.result(
        lambda: [_as_json(one, known) for one in found], lambda: _print(found, known, file)
    )
    code = OUTDATED if exit_code and any(one.reasons for one in found) else 0
    for one in found:
        if one.error is not None:
            shared.output.error(one.error, one.projection.name)
            code = max(code, one.error.exit_code)
    if code:
        click.get_current_context().exit(code)


def _as_json(one: Status, known: Graph) -> dict[str, Any]:
    projection, target, error = one.projection, one.projection.target, one.error
    return {
        "name": projection.name,
        "reads": [
            {
                "table": str(reading.table),
                "version": reading.version,
                "timestamp": reading.timestamp,
                "projection": reading.maker,
            }
            for reading in known.readings[projection.name]
        ],
        "stage": None if projection.stage is None else str(projection.stage),
        "to": None if target is None else target.uri,
        "format": None if target is None else str(target.format),
        "up_to_date": None if error is not None else one.up_to_date,
        "reasons": [
            {
                "reason": str(reason.why),
                "message": reason.text,
                "table": reason.table,
                "transactions": reason.behind,
            }
            for reason in one.reasons
        ],
        "rows": one.rows,
        "overlap": one.overlap,
        "error": None
        if one.error is None
        else {"kind": one.error.kind, "message": redacted(str(one.error))},
        "declared": projection.where,
    }


def _print(found: list[Status], known: Graph, file: Path | None) -> None:
    rows: list[tuple[object, ...]] = []
    for one in found:
        projection = one.projection
        places = [] if projection.stage is None else [str(projection.stage)]
        if projection.target is not None:
            places.append(projection_graph.place(projection.target))
        rows.append(
            (
                projection.name,
                ", ".join(map(str, known.readings[projection.name])),
                ", ".join(places),
                None if one.rows is None else f"{one.rows:,}",
                None if one.overlap is None else f"{one.overlap:.0%}",
                _state(one),
            )
        )
    columns = ("projection", "reads~", "to~", "rows>", "overlap>", "state~")
    outdated = any(one.reasons for one in found)
    publish = "singerlake publish --all" + (f" --projections {file}" if file is not None else "")
    hint = f"bring them up to date with: {publish}" if outdated else ""
    output.print_table(None, columns, rows, hint, drop=DROPPED_FIRST)


def _state(one: Status) -> str:
    if one.error is not None:
        return "unknown"
    return "; ".join(reason.text for reason in one.reasons) or "up to date"


def _draw(shared: Shared, known: Graph, drawing: str) -> None:
    def document() -> Any:
        return {
            "nodes": [
                {"name": one.name, "kind": one.kind} for one in projection_graph.nodes(known)
            ],
            "edges": [
                {"from": one.name, "to": other.name} for one, other in projection_graph.edges(known)
            ],
        }

    def text() -> None:
        if drawing == "tree":
            for line in projection_graph.tree(known):
                output.say(line.branch + line.text, hang=len(line.below) + 2)
        else:
            output.say_text(getattr(projection_graph, drawing)(known))

    shared.output.result(document, text)
