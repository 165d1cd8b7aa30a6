"""singerlake unpublish: end a publication, and delete the published files on request."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click
from msgspec import to_builtins

from singerlake.errors import NotFoundError, UsageError
from singerlake.format.annotations import Publication
from singerlake.lake import Lake
from singerlake.publish.projection import Format, Projection, Target
from singerlake_cli import output
from singerlake_cli.projection_names import complete_published
from singerlake_cli.shared import Shared, confirm


@click.command("unpublish")
@click.argument("name", shell_complete=complete_published)
@click.option("--delete", is_flag=True, help="Also delete the published files.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--projections",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file that declares it, for credentials and catalogs.  [default: projections.yml]",
)
@click.pass_obj
def command(shared: Shared, name: str, delete: bool, yes: bool, file: Path | None) -> None:
    """Stop publishing a projection, by its NAME.

    Published files stay for their readers, unless you add --delete. For a publication without a
    declaration, name its destination. The staging table stays, too: drop it with `singerlake drop`.

    \b
    singerlake unpublish orders
    singerlake unpublish orders --delete --yes
    """
    from singerlake.publish import registry
    from singerlake.publish.destinations.opening import open_destination

    lake = shared.lake()
    declaration = _declaration(name, file)
    if declaration is None:
        name = _registered(lake, name)
    entry = _entry(lake, name, declaration)
    where = f"{entry.to} ({entry.format})"
    foreign = None
    if delete:
        if shared.json and not yes:
            raise UsageError(f"cannot ask without a terminal whether to delete {where}: add --yes")
        destination = open_destination(declaration or _as_registered(name, entry))
        there = destination.published()
        if there is not None and not yes:
            held = f"{output.count(there.rows, 'row')}, {output.count(len(there.files), 'file')}"
            confirm(f"Delete the files published at {where} ({held})?")
        destination.remove()  # before the lake forgets where it was: interrupted, it is run again
        foreign = destination.store.first_key()
    registry.leave(lake, name)
    shared.output.result(
        lambda: {"projection": name, **to_builtins(entry), "deleted": delete},
        lambda: output.say(_ended(name, where, deleted=delete, foreign=foreign)),
    )
    if declaration is not None:
        shared.output.note(
            f"{name} is still declared ({declaration.where}): the next publish --all "
            "publishes it again"
        )


def _ended(name: str, where: str, *, deleted: bool, foreign: str | None) -> str:
    """Describe the end of a publication, and whether the published files are deleted."""
    if not deleted:
        return f"{name} is no longer published; {where} stays as it is, and is no longer updated"
    if foreign is None:
        return f"{name} is no longer published: {where} is deleted"
    return (
        f"{name} is no longer published: the files at {where} are deleted; files that Singerlake "
        f"did not write stay ({foreign})"
    )


def _declaration(name: str, file: Path | None) -> Projection | None:
    """Return the projection as it is declared; None if it is not."""
    from singerlake.publish.declaration import declared

    found: list[Projection] = []
    with suppress(NotFoundError):
        found = declared(file)
    return next((one for one in found if one.name == name and one.target is not None), None)


def _registered(lake: Lake, name: str) -> str:
    """Return the name of a projection; a place that names one may be written in any way."""
    from singerlake.publish.named_destinations import location

    published = lake.annotations().published
    if name not in published:
        with suppress(UsageError):  # it is no place
            place = location(name, Path.cwd())
            return place if place in published else name
    return name


def _entry(lake: Lake, name: str, declaration: Projection | None) -> Publication:
    """Return its entry in the lake's file, or the declaration if that was lost."""
    from singerlake.publish import registry
    from singerlake.publish.destinations.opening import open_destination

    try:
        return registry.find(lake, name)
    except NotFoundError:
        if declaration is None or open_destination(declaration).published() is None:
            raise
        return registry.publication_of(lake, declaration)


def _as_registered(name: str, entry: Publication) -> Projection:
    """Return as much of a projection as is needed to open its destination."""
    try:
        form = Format(entry.format)
    except ValueError:
        raise UsageError(
            f"{name} is published as {entry.format}, which this release does not know: upgrade"
        ) from None
    return Projection(name=name, sql="", target=Target(entry.to, form))
