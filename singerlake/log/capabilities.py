"""Opening a store for writing: what it can be relied on for is found once, and recorded.

Readers need not know. A writer opens the store before its first write; what a probe finds is kept
in the lake's file, so that all writers treat the lake alike. Where that file is lost, or the lake
was copied elsewhere, the next writer probes again. Two who probe at once find the same, each with
objects of its own names.

A store that was not opened so has no capabilities, and refuses to name any: nobody takes one
protocol for another in silence.
"""

from __future__ import annotations

import logging
import threading

from singerlake.errors import DamagedError
from singerlake.log import lake_file
from singerlake.storage.base import Capabilities, Store
from singerlake.storage.probe import ignored_conditions

logger = logging.getLogger(__name__)
_one_at_a_time = threading.Lock()


def open_for_writing(store: Store) -> None:
    """Make sure that a store's capabilities are known, once and for all.

    Raises:
        StoreError: The store refused what the probe asked of it.
        NewerFormatError: A newer release wrote the lake's file.
    """
    if store.is_open_for_writing:
        return
    with _one_at_a_time:  # the tables of one run are committed in threads
        if store.is_open_for_writing:
            return
        capabilities = store.recorded_capabilities or _recorded_or_probed(store)
        store.fix_capabilities(capabilities)
    if not capabilities.supports_conditional_writes:
        from singerlake.log.locks.lock import SURE_SETTLES  # late: readers need no locks

        logger.warning(
            "the store of %s accepts conditional writes and ignores them: writers take turns by "
            "locks, and a commit waits about %g s; see docs/about/guarantees.md",
            store.uri,
            # The lock of a schema, the table's, and the entry, each before it is read back.
            (1 + SURE_SETTLES + 1) * capabilities.settle_seconds,
        )


def _recorded_or_probed(store: Store) -> Capabilities:
    file = lake_file.read_if_readable(store)
    if (known := lake_file.recorded_capabilities(store, file)) is not None:
        return known
    probed = lake_file.capabilities_of(
        store, file, supports_conditional_writes=not ignored_conditions(store)
    )
    try:
        file = lake_file.record_capabilities(store, probed)
    except DamagedError as error:  # only annotations need the file: data is committed without it
        logger.warning("the capabilities of the store could not be recorded: %s", error)
        return probed
    return lake_file.recorded_capabilities(store, file) or probed
