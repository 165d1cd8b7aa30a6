"""Names of projections, for a shell that completes them."""

from __future__ import annotations

import click

from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from singerlake.safe_text import visible
from singerlake_cli.shared import lake_named


def complete_projection(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[str]:
    """Return the declared projections that begin with the typed text."""
    from singerlake.publish.declaration import declared

    try:
        names = [one.name for one in declared(ctx.params.get("file"))]
    except SingerlakeError:
        return []  # a shell has no place for errors
    return [name for name in names if name.startswith(incomplete) and visible(name) == name]


def complete_published(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[str]:
    """Return the publications in the lake's list that begin with the typed text."""
    try:
        names = Lake.open(lake_named(ctx)).annotations().published
    except SingerlakeError:
        return []
    return [name for name in names if name.startswith(incomplete) and visible(name) == name]
