"""The output of a vacuum's plan and its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from singerlake.format import times
from singerlake.ops.vacuum.garbage import protected
from singerlake.ops.vacuum.items import Item
from singerlake.ops.vacuum.plan import Vacuumed, VacuumPlan
from singerlake_cli import output

SHOWN = 20


def summary(done: Vacuumed) -> str:
    """Return one line about one table."""
    parts = []
    if done.rows_dropped:
        # Lines that are kept say where they were, which few rows may not make up for.
        saved = f" ({output.size(done.bytes_dropped)})" if done.bytes_dropped > 0 else ""
        parts.append(f"expired {output.count(done.rows_dropped, 'old row version')}{saved}")
    if done.files_in:
        parts.append(
            f"compacted {output.count(done.files_in, 'file')} into {done.files_out:,} "
            f"({output.size(done.bytes_copied)})"
        )
    if done.files_deleted:
        files = output.count(done.files_deleted, "file")
        parts.append(f"deleted {files} ({output.size(done.bytes_deleted)})")
    if done.kept:
        kept = output.size(sum(item.bytes for item in done.kept))
        parts.append(f"{output.count(len(done.kept), 'file')} ({kept}) left for a later run")
    return f"{done.table}: " + (", ".join(parts) if parts else "nothing to do")


@dataclass
class Total:
    """The total of a vacuum of many tables, or of a plan.

    Attributes:
        dry_run: Whether it is only said what would be done.
        vacuumed: Tables with something to do.
        failed: Tables that failed.
        files_deleted: Objects deleted, those included that were no table's.
        bytes_written: Size of what new files took instead.
    """

    dry_run: bool
    vacuumed: int = 0
    nothing_to_do: int = 0
    failed: list[str] = field(default_factory=list)
    files_deleted: int = 0
    bytes_deleted: int = 0
    bytes_written: int = 0

    def add(self, done: Vacuumed) -> None:
        """Count a table that was vacuumed."""
        self._count(worked=bool(done.transaction))
        self.files_deleted += done.files_deleted
        self.bytes_deleted += done.bytes_deleted
        self.bytes_written += done.bytes_written

    def add_plan(self, plan: VacuumPlan) -> None:
        """Count a table that would be vacuumed."""
        self._count(worked=not plan.empty)
        self.add_items(plan.garbage.everything)

    def add_items(self, items: Sequence[Item]) -> None:
        """Count objects that were deleted, or would be."""
        self.files_deleted += len(items)
        self.bytes_deleted += sum(item.bytes for item in items)

    def _count(self, *, worked: bool) -> None:
        self.vacuumed += worked
        self.nothing_to_do += not worked

    @property
    def tables(self) -> int:
        """The number of tables that were looked at."""
        return self.vacuumed + self.nothing_to_do + len(self.failed)

    def as_json(self) -> dict[str, Any]:
        """Return it for scripts."""
        return {"summary": {"tables": self.tables, **asdict(self)}}

    def as_text(self) -> str:
        """Return the last line."""
        verb, deleted = ("to vacuum", "to delete") if self.dry_run else ("vacuumed", "deleted")
        line = (
            f"{output.count(self.tables, 'table')}: {self.vacuumed:,} {verb}, "
            f"{self.nothing_to_do:,} with nothing to do; "
            f"{output.count(self.files_deleted, 'file')} "
            f"({output.size(self.bytes_deleted)}) {deleted}"
        )
        if self.bytes_written:
            # Files replaced in this run wait for their retention, next to their replacements.
            freed = self.bytes_deleted - self.bytes_written
            line += f", {output.size(abs(freed))} {'freed' if freed >= 0 else 'more for now'}"
        if self.failed:
            line += f"; {len(self.failed):,} failed: {', '.join(self.failed)}"
        return line


def plan_as_json(plan: VacuumPlan) -> dict[str, Any]:
    """Return a plan for scripts."""
    history = plan.drop_history
    return {
        "table": str(plan.snapshot.table),
        "transaction": plan.snapshot.number,
        "cutoff": _time(plan.cutoff),
        "combine": [
            {"files": group.files, "blocks": len(group.blocks), "bytes": group.bytes}
            for group in plan.combine
        ],
        "drop_history": None
        if history is None
        else {
            "floor": history.floor,
            "blocks": len(history.blocks),
            "rows": sum(block.rows for block in history.blocks),
            "bytes": sum(block.length for block in history.blocks),
            "protected": {str(number): by for number, by in history.protected.items()},
        },
        "delete": [asdict(item) for item in plan.garbage.everything],
        "kept": [asdict(item) for item in plan.garbage.kept],
        "leases": [asdict(lease) for lease in plan.leases],
    }


def print_plan(plan: VacuumPlan) -> None:
    """Print a plan for people."""
    table, garbage = plan.snapshot.table, plan.garbage
    output.say(f"{table} at transaction {plan.snapshot.number}; cutoff {_time(plan.cutoff)}")
    if plan.empty:
        output.say("  nothing to do")
    if plan.combine:
        files = sum(group.files for group in plan.combine)
        size = output.size(sum(group.bytes for group in plan.combine))
        output.say(f"  compact: {output.count(files, 'file')} into {len(plan.combine):,} ({size})")
    if plan.drop_history is not None:
        blocks = plan.drop_history.blocks
        rows = sum(block.rows for block in blocks)
        size = output.size(sum(block.length for block in blocks))
        output.say(
            f"  expire history before transaction {plan.drop_history.floor}: looks through "
            f"{output.count(rows, 'record')} in {output.count(len(blocks), 'block')} ({size})"
        )
        for number, by in sorted(plan.drop_history.protected.items()):
            output.say(f"    transaction {number} stays readable: {by}")
    _print_items("delete", garbage.everything, plan)
    _print_items("keep", garbage.kept, plan)
    for lease in plan.leases:
        output.say(f"  reader: {lease.reader_id} at transaction {lease.transaction}")


def _print_items(verb: str, items: Sequence[Item], plan: VacuumPlan) -> None:
    if not items:
        return
    size = output.size(sum(item.bytes for item in items))
    output.say(f"  {verb}: {output.count(len(items), 'file')} ({size})")
    for item in items[:SHOWN]:
        by = protected(item, plan.leases)
        held = f"; the reader {by.reader_id} may need it" if by is not None else ""
        output.say(f"    {item.key} ({output.size(item.bytes)}): {item.reason}{held}")
    if len(items) > SHOWN:
        reasons = Counter(item.reason.partition(" by transaction")[0] for item in items[SHOWN:])
        more = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common(3))
        output.say(f"    and {len(items) - SHOWN:,} more: {more}")


def print_leftovers(items: Sequence[Item], *, dry_run: bool) -> None:
    """Print the objects that belong to no table and are deleted; nothing if there are none."""
    if not items:
        return
    verb = "would be removed" if dry_run else "removed"
    size = output.size(sum(item.bytes for item in items))
    many = output.count(len(items), "orphan file of a dead writer", "orphan files of dead writers")
    output.say(f"staging: {many} {verb} ({size})")


def _time(seconds: float) -> str:
    return f"{times.iso(times.from_micros(int(seconds) * 1_000_000))[:19]}Z"
