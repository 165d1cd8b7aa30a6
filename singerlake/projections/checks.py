"""Whether there is anything to publish: found from metadata alone, so that Java need not start."""

from __future__ import annotations

from collections.abc import Sequence

from singerlake.lake import Lake
from singerlake.projections import registry
from singerlake.projections.projection import Projection
from singerlake.projections.publishing import Outcome, PublishOptions, Result
from singerlake.projections.status import status


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
        UsageError: They cannot be as a whole.
        NotFoundError: One reads a table that is not there.
    """
    if options.full_refresh or options.at is not None:
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
