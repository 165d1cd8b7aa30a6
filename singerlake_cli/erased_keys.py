"""The keys that `singerlake erase` keeps of erased rows: blocks and notices."""

from __future__ import annotations

from collections.abc import Sequence

from singerlake.errors import SingerlakeError, UsageError
from singerlake.lake import Table
from singerlake.ops.vacuum.plan import VacuumOptions
from singerlake_cli import output
from singerlake_cli.erasing import ids_of
from singerlake_cli.shared import Shared
from singerlake_cli.working import working


def unblock(
    shared: Shared, table: str | None, keys: Sequence[str], file: str | None, *, every: bool
) -> None:
    """Allow rows again whose keys are blocked.

    Raises:
        SingerlakeError: It cannot be done as asked, or not now.
    """
    if table is None:
        raise UsageError("name the TABLE whose keys are to be unblocked")
    if sum((bool(keys), file is not None, every)) != 1:
        raise UsageError("select the keys to unblock with one of --key, --from and --all")
    from singerlake.ops.suppression import unblock as let_in

    found, ref = shared.lake().find(table)
    if ref.version is not None:
        raise UsageError(f"{ref} is a version: keys are blocked in a table, so name that alone")
    ids = None if every else [*keys, *(ids_of(file) if file is not None else [])]
    with working(f"unblocking keys of {found.name} in again"):
        after, count = let_in(found.store, found.snapshot(dropped=True), ids, VacuumOptions())
    left = after.blocked.keys if after.blocked is not None else 0
    shared.output.result(
        lambda: {
            "table": str(found.name),
            "transaction": after.number,
            "keys_let_in": count,
            "keys_blocked": left,
        },
        lambda: output.say(
            f"{output.count(count, 'key')} of {found.name} unblocked (transaction {after.number}); "
            f"{output.count(left, 'key')} blocked"
        ),
    )


def revoke_notices(shared: Shared, table: str | None) -> None:
    """Delete the deletion notices of erased rows, before their time.

    Raises:
        SingerlakeError: It cannot be done as asked, or not now.
    """
    if table is None:
        raise UsageError("name the TABLE whose deletion notices are to be revoked")
    from singerlake.ops.suppression import revoke_notices as revoke

    found, _ = shared.lake().find(table)
    count = revoke(found.store, found.snapshot(dropped=True), VacuumOptions())
    shared.output.result(
        lambda: {"table": str(found.name), "notices_deleted": count},
        lambda: output.say(
            f"{output.count(count, 'notice')} of rows erased from {found.name} deleted: taps "
            "emit no more deletions of these rows"
        ),
    )


def blocked_notes(table: Table, ids: Sequence[str]) -> list[str]:
    """Describe which of some keys are blocked, in the order in which they were given."""
    head = table.snapshot(dropped=True)
    if head.blocked is None or head.dropped_at:
        return []
    from singerlake.ops.suppression import are_blocked

    try:
        found = are_blocked(table.store, head, ids)
    except SingerlakeError as error:
        return [f"whether these keys of {table.name} are blocked cannot be determined: {error}"]
    return [
        f"key {number} is blocked in {table.name}: a keyed hash of it is stored, with which anyone "
        "who can read the lake can confirm a guess"
        for number, is_blocked in enumerate(found, 1)
        if is_blocked
    ]
