"""Whether a lake's store keeps conditions: found once, by the first writer, and recorded.

Readers need not know. A writer asks before its first write; what a probe found stands in the
lake's file, so that all writers treat the lake alike. Where that file is lost, or the lake was
copied to another place, the next writer probes again. Two who probe at once find the same,
each with objects of its own names.
"""

from __future__ import annotations

import logging
import threading

from singerlake.format.metadata import LakeFile
from singerlake.storage.base import Store
from singerlake.storage.probe import ignored_conditions
from singerlake.transactions.derived import seen_lake_file, update_lake_facts

logger = logging.getLogger(__name__)
_one_at_a_time = threading.Lock()


def settle(store: Store) -> None:
    """Make sure that ``store.keeps_conditions`` is known.

    Raises:
        StoreError: The store refused what the probe asked of it.
        NewerFormatError: A newer release wrote the lake's file.
    """
    if store.keeps_conditions is not None:
        return
    with _one_at_a_time:  # the tables of one run are committed in threads
        if store.keeps_conditions is not None:
            return
        try:
            lake = _recorded_or_found(store)
        except BaseException:
            store.keeps_conditions = None
            raise
        store.keeps_conditions = lake.conditional_writes is not False
    if not store.keeps_conditions:
        logger.warning(
            "the store of %s accepts conditional writes and ignores them: writers take turns by "
            "locks, and wait %g s at each; what that can promise is in docs/safety.md",
            store.uri,
            store.settle_seconds,
        )


def _recorded_or_found(store: Store) -> LakeFile:
    lake = seen_lake_file(store)
    if lake is not None and lake.lock_settle_seconds is not None:
        store.settle_seconds = max(0.0, lake.lock_settle_seconds)
    if lake is not None and lake.conditional_writes is not None and lake.probed == store.uri:
        return lake
    store.keeps_conditions = not ignored_conditions(store)
    return update_lake_facts(store, conditional_writes=store.keeps_conditions)
