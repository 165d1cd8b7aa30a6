"""How a vacuum's plan and its results are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from singerlake.format import times
from singerlake.maintenance.garbage import protected
from singerlake.maintenance.items import Item
from singerlake.maintenance.vacuum import Vacuumed, VacuumPlan
from singerlake_cli import output

SHOWN = 20


def summary(done: Vacuumed) -> str:
    """Return one line about one table."""
    parts = []
    if done.rows_dropped:
        # Lines that are kept say where they were, which few rows may not make up for.
        saved = f" ({output.size(done.bytes_dropped)})" if done.bytes_dropped > 0 else ""
        parts.append(f"dropped {output.count(done.rows_dropped, 'old row version')}{saved}")
    if done.files_in:
        parts.append(
            f"combined {output.count(done.files_in, 'file')} into {done.files_out:,} "
            f"({output.size(done.bytes_copied)})"
        )
    if done.files_deleted:
        files = output.count(done.files_deleted, "file")
        parts.append(f"deleted {files} ({output.size(done.bytes_deleted)})")
    if done.kept:
        kept = output.size(sum(item.bytes for item in done.kept))
        parts.append(f"{output.count(len(done.kept), 'file')} ({kept}) left for a later run")
    return f"{done.table}: " + (", ".join(parts) if parts else "nothing to do")


def total(done: Sequence[Vacuumed], failed: Sequence[str]) -> str:
    """Return the last line about all tables."""
    worked = sum(1 for one in done if one.transaction)
    freed = sum(one.bytes_deleted - one.bytes_written for one in done)
    line = f"{output.count(len(done), 'table')} vacuumed, {worked:,} with work to do, "
    # What was replaced in this run waits for its retention, beside what took its place.
    line += f"{output.size(freed)} freed" if freed >= 0 else f"{output.size(-freed)} more for now"
    return line + (f"; failed: {', '.join(failed)}" if failed else "")


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
    """A plan for people."""
    table, garbage = plan.snapshot.table, plan.garbage
    output.say(f"{table} at transaction {plan.snapshot.number}; cutoff {_time(plan.cutoff)}")
    if plan.empty:
        output.say("  nothing to do")
    if plan.combine:
        files = sum(group.files for group in plan.combine)
        size = output.size(sum(group.bytes for group in plan.combine))
        output.say(f"  combine: {output.count(files, 'file')} into {len(plan.combine):,} ({size})")
    if plan.drop_history is not None:
        blocks = plan.drop_history.blocks
        rows = sum(block.rows for block in blocks)
        size = output.size(sum(block.length for block in blocks))
        output.say(
            f"  drop history before transaction {plan.drop_history.floor}: looks through "
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
    """What is left in no table, and goes; nothing where there is none."""
    if not items:
        return
    verb = "would be removed" if dry_run else "removed"
    size = output.size(sum(item.bytes for item in items))
    many = output.count(len(items), "leftover of a dead writer", "leftovers of dead writers")
    output.say(f"staging: {many} {verb} ({size})")


def _time(seconds: float) -> str:
    return f"{times.iso(times.from_micros(int(seconds) * 1_000_000))[:19]}Z"
