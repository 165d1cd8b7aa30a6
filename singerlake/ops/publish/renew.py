"""Renew: what is published of tables whose rows were erased is published anew.

All rows are written into new files, and readers see these as after any refresh. Then whatever lay
there before is deleted, frozen versions too, and these are published again as they are now. A run
that dies leaves a note of what is still to be done in the lake's file, or leaves the one that all
is to be done: the next one begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator

from singerlake.engine.choice import EngineChoice
from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from singerlake.ops.publish.outcome import Outcome, PublishOptions, Result
from singerlake.ops.publish.publish import publish
from singerlake.publish import registry
from singerlake.publish.destinations.opening import open_destination
from singerlake.publish.projection import Projection
from singerlake.publish.renewals import Renewals, erasures, is_due
from singerlake.publish.versions import versioned_table


def renew(lake: Lake, wanted: Renewals, choice: EngineChoice) -> Iterator[Outcome]:
    """Publish projections anew, so that nothing is left there from before rows were erased.

    One that fails stops none but those that read what it stages.

    Args:
        lake: The lake, from which the rows are gone.
        wanted: Which; none of them is stuck.
    """
    due = {
        name: erased
        for name in wanted.names
        if is_due(lake, name, erased := erasures(lake, wanted.tables_of(name)))
    }
    if wanted.known is None or not due:
        return
    to_run = wanted.known.with_makers(due)
    done = publish(lake, to_run, PublishOptions(full_refresh=True), choice)
    for projection in to_run:
        if projection.name not in due:
            yield next(done)
            continue
        try:
            place = open_destination(projection)
            base = place.published()
            again = _again(lake, projection, set() if base is None else {*base.versions})
            registry.note_versions(lake, projection.name, again)
            held = place.held()
            outcome = next(done)
            if outcome.result is not Result.DONE:
                yield outcome
                continue
            place.forget(held)
            for version in again:
                _publish_version(lake, projection, version, choice)
            registry.note_renewed(lake, projection.name, due[projection.name])
        except SingerlakeError as error:
            outcome = Outcome(projection.name, Result.FAILED, error=error)
        yield outcome


def _again(lake: Lake, projection: Projection, there: set[int]) -> list[int]:
    """The frozen versions to publish again: those that are there, or were, and that there are."""
    said = lake.annotations(strict=True).published.get(projection.name)
    there |= set() if said is None else {*said.again}
    if not there:
        return []
    frozen = versioned_table(lake, projection).snapshot().frozen
    return sorted(there & {version.number for version in frozen})


def _publish_version(
    lake: Lake, projection: Projection, version: int, choice: EngineChoice
) -> None:
    for outcome in publish(lake, [projection], PublishOptions(at=str(version)), choice):
        if outcome.error is not None:
            raise outcome.error
