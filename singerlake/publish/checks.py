"""Whether there is anything to publish: found from metadata alone, so that Java need not start."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from singerlake.errors import SingerlakeError, UsageError
from singerlake.lake import Lake
from singerlake.publish import registry
from singerlake.publish.destinations.opening import open_destination
from singerlake.publish.projection import Projection
from singerlake.publish.publishing import Outcome, PublishOptions, Result
from singerlake.publish.status import status


def without_work(
    lake: Lake, projections: Sequence[Projection], options: PublishOptions
) -> list[Outcome] | None:
    """Say what becomes of projections, where no row has to be read for it.

    Args:
        lake: The lake.
        projections: Which, and all that make what they read.
        options: How they are to be published.

    Returns:
        None where there is something to do.

    Raises:
        UsageError: They cannot be as a whole, or one that is declared nowhere would replace the
            rows of another table.
        NotFoundError: One reads a table that is not there.
    """
    if options.full_refresh:
        return None
    for projection in projections:
        _refuse_other_table(lake, projection)
    if options.of_a_version:
        return None
    found = status(lake, projections)
    if any(one.reasons for one in found):
        return None
    outcomes = []
    for one in found:
        if one.error is not None:
            outcomes.append(Outcome(one.projection.name, Result.FAILED, error=one.error))
            continue
        if not options.dry_run:
            registry.note(lake, one.projection)
        outcomes.append(Outcome(one.projection.name, Result.UP_TO_DATE))
    return outcomes


def _refuse_other_table(lake: Lake, projection: Projection) -> None:
    """Make sure that a place is not taken by mistake, where its name is all that is said of it.

    Raises:
        UsageError: It was published there from other tables.
    """
    target = projection.target
    if target is None or projection.name != target.uri:
        return  # declared, and what is declared may change
    base = None
    with suppress(SingerlakeError):  # said by those that go on with it
        base = open_destination(projection).published()
    before = {state.table for state in base.position.sources} if base is not None else set()
    now = set(registry.publication_of(lake, projection).tables)
    if before and now and before.isdisjoint(now):
        raise UsageError(
            f"{target.uri} holds rows of {', '.join(sorted(before))}, not of "
            f"{', '.join(sorted(now))}: publish into another folder, or say --full-refresh to "
            "replace them"
        )
