"""What dead writers staged and never published: files beside the lake's tables, half uploads.

They belong to no table, so a vacuum looks for them once a lake.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from singerlake.ops.vacuum.ages import check_store
from singerlake.ops.vacuum.garbage import DAY
from singerlake.ops.vacuum.items import Item
from singerlake.ops.vacuum.plan import VacuumOptions
from singerlake.storage.base import Store
from singerlake.storage.unfinished import Leftover


@dataclass(frozen=True)
class LeftoverPlan:
    """Leftovers of a lake.

    Attributes:
        going: To be removed.
        kept: Too young, and why that matters.
    """

    going: list[Leftover]
    kept: list[Item]

    @property
    def items(self) -> list[Item]:
        """Those to be removed, as people are told of them."""
        return [Item(one.name, one.bytes, "staged by a dead writer") for one in self.going]


def plan_leftovers(store: Store, options: VacuumOptions, now: float | None = None) -> LeftoverPlan:
    """Look for leftovers that are older than the retention.

    Where it is not certain that a writer is dead (an upload to S3 shows no liveness marker), a
    day must have passed, whatever the retention.

    Raises:
        SingerlakeError: The clock is far from the store's, so that it tells no age.
    """
    options.check()
    present = time.time() if now is None else now
    going, kept = [], []
    for one in store.leftovers():
        least = options.retain_seconds if one.certain else max(DAY, options.retain_seconds)
        if one.modified <= present - least:
            going.append(one)
        else:
            why = "younger than the retention" if one.certain else "its writer may be running"
            kept.append(Item(one.name, one.bytes, f"staged, but {why}"))
    if going and now is None:
        check_store(store)
    return LeftoverPlan(going, kept)


def remove_leftovers(store: Store, plan: LeftoverPlan) -> list[Item]:
    """Remove what was planned.

    Raises:
        StoreError: The store refused one; others may be gone.
    """
    for one in plan.going:
        store.remove_leftover(one)
    return plan.items
