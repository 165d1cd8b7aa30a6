"""Unfinished work of writers on a store, to be resumed or removed."""

from __future__ import annotations

from typing import NamedTuple

RESUMED_BYTES = 100 << 20
"""Files from which on another run may go on with an upload that broke off."""


class Leftover(NamedTuple):
    """The remains of a writer that died, which no key shows.

    Attributes:
        name: How the store finds it again, and a person may know it.
        bytes: Its size, as far as the store says.
        modified: Last change, in seconds since 1970.
        certain: Whether its writer is known to be dead; else only its age speaks for that.
    """

    name: str
    bytes: int
    modified: float
    certain: bool = True


class UnfinishedObject(NamedTuple):
    """An object that somebody began to publish, and whose publication has not ended.

    Attributes:
        key: The key that it is to have.
        since: When it was begun, in seconds since 1970, by the store's clock.
    """

    key: str
    since: float
