"""What is published of a lake, as its own file says it: for people and for `unpublish`.

Nothing goes by it: whether a projection is up to date its destination tells, and a file that was
lost is filled again by the next `publish`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from singerlake.errors import NotFoundError, SingerlakeError
from singerlake.format.annotations import Publication
from singerlake.format.sql_tables import find as find_table
from singerlake.format.sql_tables import reference
from singerlake.lake import Lake
from singerlake.log import lake_file
from singerlake.log.capabilities import open_for_writing
from singerlake.nearest import offer
from singerlake.publish.projection import Projection

logger = logging.getLogger(__name__)


def find(lake: Lake, name: str) -> Publication:
    """What is published under a name.

    Raises:
        NotFoundError: Nothing is.
    """
    published = lake.annotations().published
    if name not in published:
        nothing = "nothing is published from this lake"
        raise NotFoundError(f"no {name!r} is published: {offer(name, list(published), nothing)}")
    return published[name]


def enter(lake: Lake, name: str, publication: Publication) -> bool:
    """Note that something is published.

    Returns:
        Whether the lake's file said otherwise before; else nothing was written.

    Raises:
        StoreError: The lake's store refused.
    """
    before = lake.annotations().published.get(name)
    if before is not None and before.same_place(publication):
        return False
    return _change(lake, name, msgspec.to_builtins(publication))


def note_versions(lake: Lake, name: str, again: Sequence[int]) -> None:
    """Note which frozen versions are to be published again, before they are deleted there."""
    _change(lake, name, {"again": [*again]})


def note_renewed(lake: Lake, name: str, erased: Mapping[str, int]) -> None:
    """Note that nothing from before some erasures is left of what is published."""
    _change(lake, name, {"erased": {**erased}, "again": []})


def publication_of(lake: Lake, projection: Projection) -> Publication:
    """Put into the form of the lake's file what a projection publishes."""
    assert projection.target is not None  # noqa: S101  # else it is published nowhere
    if projection.stage is not None:
        tables = [str(projection.stage)]
    else:
        known = lake.tables()
        named = (reference(source).parts for source in projection.sources)
        tables = sorted({str(find_table(parts, known)[0]) for parts in named})
    target = projection.target
    return Publication(tables=tables, to=target.uri, format=str(target.format))


def note(lake: Lake, projection: Projection) -> None:
    """Enter a projection that is published; where the lake cannot be written to, say so only."""
    if projection.target is None:
        return
    try:
        enter(lake, projection.name, publication_of(lake, projection))
    except SingerlakeError as error:
        logger.warning(
            "%s is published, but the lake's file cannot record it: %s", projection.name, error
        )


def leave(lake: Lake, name: str) -> bool:
    """Note that something is not published any more.

    Returns:
        Whether the lake's file said that it was.
    """
    return _change(lake, name, None)


def _change(lake: Lake, name: str, members: dict[str, Any] | None) -> bool:
    open_for_writing(lake.store)
    changed = False

    def edit(file: dict[str, Any]) -> bool:
        nonlocal changed
        published = file.get("published") or {}
        before = published.get(name)
        if before is None and members is not None and "to" not in members:
            return False  # somebody ended it meanwhile: there is nothing to say of it
        # Members of a newer release stay, as long as it is the same that they are about.
        after = None if members is None else {**(before or {}), **members}
        changed = after != before
        if after is None:
            published.pop(name, None)
        else:
            published[name] = after
        file["published"] = published
        return changed

    lake_file.change(lake.store, edit)
    if changed:
        lake.file = lake_file.read_if_readable(lake.store)  # who asks this object next sees it
    return changed
