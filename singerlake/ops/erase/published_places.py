"""The places outside a lake where something is published of it, as far as they can be reached."""

from __future__ import annotations

from pathlib import Path

from singerlake.errors import NotFoundError, SingerlakeError
from singerlake.lake import Lake
from singerlake.ops.erase.check import PublishedPlace
from singerlake.publish.declaration import declared
from singerlake.publish.projection import Target
from singerlake.storage.opening import open_store
from singerlake.storage.options import from_environment


def published_places(lake: Lake, file: Path | None) -> list[PublishedPlace]:
    """Find the lake's publications, with the declarations needed to reach them.

    Args:
        file: The file of declarations; ``projections.yml`` by default.

    Raises:
        SingerlakeError: The file that is named cannot be read.
        DamagedError: The lake's own file cannot be.
    """
    published = lake.annotations(strict=True).published
    if not published:
        return []
    targets: dict[str, Target] = {}
    try:
        targets = {one.name: one.target for one in declared(file) if one.target is not None}
    except NotFoundError:
        if file is not None:
            raise
    places = []
    for name, one in sorted(published.items()):
        target, store, why = targets.get(name), None, ""
        try:
            if target is None or target.uri != one.to:
                store = open_store(one.to, from_environment())
            else:
                target.check_set()
                store = open_store(one.to, target.options)
            store.first_key()
        except SingerlakeError as error:
            store, why = None, str(error)
        places.append(PublishedPlace(name, one.tables, one.to, one.format, store, why))
    return places
