"""The common parts of commands that publish: their output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from singerlake.engine.choice import EngineChoice
from singerlake.errors import UsageError
from singerlake.lake import Lake
from singerlake.nearest import SHOWN
from singerlake.ops.publish.outcome import Outcome, PublishOptions, Result
from singerlake.publish.declaration import declared
from singerlake.publish.graph import graph
from singerlake.publish.projection import Projection
from singerlake_cli import output
from singerlake_cli.shared import Shared
from singerlake_cli.working import working


def outcomes(
    lake: Lake,
    projections: Sequence[Projection],
    options: PublishOptions,
    choice: EngineChoice,
) -> Iterator[Outcome]:
    """Publish projections, one after the other as outcomes are taken.

    Raises:
        UsageError: They cannot be as a whole.
        NotFoundError: One reads a table that is not there.
    """
    from singerlake.ops.publish.publish import publish

    job = publish(lake, projections, options, choice)
    for one in graph(lake, projections).projections:
        with working(f"publishing {one.name}"):
            outcome = next(job)
        yield outcome


def chosen(
    lake: Lake, names: Sequence[str], *, every: bool, file: Path | None
) -> Sequence[Projection]:
    """Find the projections that are declared and named, and those that make what they read.

    Raises:
        UsageError: None is named, or one that is not declared.
        NotFoundError: None are declared.
    """
    projections = declared(file)
    if every == bool(names):
        known = ", ".join(one.name for one in projections[:SHOWN])
        raise UsageError(
            "name projections or use --all, not both"
            if every
            else f"name projections: {known}{' …' if projections[SHOWN:] else ''}, or --all"
        )
    return projections if every else graph(lake, projections).with_makers(names)


def say(outcome: Outcome) -> None:
    """Report the result of a projection to people; an error is printed as such."""
    if outcome.result is not Result.FAILED:
        for line in outcome.words():
            output.say(line)


def end(shared: Shared, done: Iterable[Outcome]) -> None:
    """Print the errors, and exit with the code for them, if there are any."""
    code = 0
    for outcome in done:
        if outcome.error is not None:
            shared.output.error(outcome.error, outcome.projection)
            code = max(code, outcome.error.exit_code)
    if code:
        click.get_current_context().exit(code)


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return the result of a projection, for scripts."""
    error = outcome.error
    return {
        "projection": outcome.projection,
        "result": str(outcome.result),
        "reason": outcome.reason or None,
        "staged": None if outcome.staged is None else asdict(outcome.staged),
        "published": None if outcome.published is None else asdict(outcome.published),
        "error": None if error is None else {"kind": error.kind, "message": str(error)},
    }
