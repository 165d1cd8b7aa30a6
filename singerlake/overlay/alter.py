"""Altering: what a person says of a table's columns, key and rows, laid over what the tap says.

The lines stay as the tap wrote them, and so does its schema; what changes is how they are read from
now on, under every schema that the table has or gets. What can be said is in
``overlay_changes.py``; here it is planned and committed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import UNSET, structs

from singerlake.errors import ConflictError
from singerlake.format import sql_tokens
from singerlake.format.log import Block, Entry, FrozenVersion, Operation, SchemaEntry
from singerlake.format.overlaid import member_of
from singerlake.format.overlay import Constraint, Overlay
from singerlake.format.overlay_words import differences
from singerlake.format.type_list import declared_type
from singerlake.format.types import Kind, columns_of, exact, never_fails
from singerlake.log import conflicts
from singerlake.log.commit import (
    check_metadata,
    commit,
    current_user,
    draft_entry,
    new_writer_id,
)
from singerlake.log.staging import replace_block
from singerlake.log.table_state import TableState
from singerlake.log.writer import WriteOptions, update_catalogues, update_checkpoint
from singerlake.storage.base import Store

_NO_BOUND = {"exclusiveMaximum": math.inf}
OverlayChange = Callable[[TableState], Overlay]
"""Says what the overlay becomes; asked again on top of whatever was committed meanwhile."""


@dataclass(frozen=True)
class AlterOptions:
    """The options of an alteration.

    Attributes:
        comment: Why; kept with the transaction.
        metadata: What else the user says of it; kept too.
        if_transaction: The transaction that the table must still be at.
        dry_run: Only say what would be done.
        writing: How to treat other writers.
        allow_type_mismatches: Give a column its type even if values of it do not fit.
        new_version: Freeze the state that is left, in the same transaction.
    """

    comment: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    if_transaction: int | None = None
    dry_run: bool = False
    writing: WriteOptions = field(default_factory=WriteOptions)
    allow_type_mismatches: bool = False
    new_version: bool = False
    label: str | None = None


@dataclass(frozen=True)
class AlterPlan:
    """The plan of an alteration.

    Attributes:
        overlay: What people say of it from then on.
    """

    head: TableState
    overlay: Overlay

    @property
    def same(self) -> bool:
        """Whether nothing changes."""
        return self.overlay == self.head.overlay

    @property
    def after(self) -> TableState:
        """The table as it will be read."""
        return self.head.laid_over(self.overlay)

    @property
    def words(self) -> list[str]:
        """The changes, in words."""
        return differences(self.head.overlay, self.overlay)

    @property
    def same_key(self) -> bool:
        """Whether rows are told apart as before."""
        ours, theirs = self.head.overlay, self.overlay
        if ours.key == theirs.key:
            return True
        members = [
            [member_of(overlay, name) for name in one.schema.key_properties]
            for overlay, one in ((ours, self.head), (theirs, self.after))
        ]
        return members[0] == members[1]

    @property
    def new_constraints(self) -> dict[str, Constraint]:
        """The constraints that were not asked before, by their names."""
        before = self.head.overlay
        known = [_by_members(before, one) for one in before.constraints.values()]
        return {
            name: one
            for name, one in self.overlay.constraints.items()
            if _by_members(self.overlay, one) not in known
        }

    @property
    def rechecked(self) -> dict[str, Constraint]:
        """The constraints that rows may break because columns have another type, by name.

        01 and 1 are two texts and one number; what a condition says, its columns' types decide.
        """
        before = {member_of(self.head.overlay, n): type_ for n, type_ in self.head.columns}
        new = {n for n, t in self.after.columns if t != before.get(member_of(self.overlay, n))}
        return {
            name: one
            for name, one in self.overlay.constraints.items()
            if one.kind in ("check", "unique") and not new.isdisjoint(one.columns)
        }

    @property
    def checked_defaults(self) -> dict[str, Constraint]:
        """Conditions on columns that all have defaults, of which one is new, by their names.

        A row that says nothing of these columns would break such a condition, if its defaults do.
        """
        new = {
            name
            for name, _ in self.after.columns
            if _default(self.overlay, name) not in (None, _default(self.head.overlay, name))
        }
        return {
            name: one
            for name, one in self.overlay.constraints.items()
            if one.kind == "check"
            and not new.isdisjoint(one.columns)
            and all(_default(self.overlay, column) is not None for column in one.columns)
        }

    @property
    def retyped(self) -> set[str]:
        """The columns of a new type that values may not fit, by their names from then on."""
        return retyped_columns(self.head, self.after)

    @property
    def asks_sql(self) -> bool:
        """Whether only SQL can tell if rows keep what is said."""
        return bool(self.new_constraints or self.rechecked or self.checked_defaults)

    @property
    def asks_values(self) -> bool:
        """Whether the values of columns may not fit their new type."""
        return bool(self.retyped or self.digits)

    @property
    def digits(self) -> dict[str, tuple[str, int]]:
        """The bounds that decimals with new digits set for all rows, by their types in words.

        All decimals are read with 38 digits, so that a value with too many is no misfit.

        Returns:
            The column, and the least whole number that it may not hold.
        """
        overlay, before = self.head.overlay, _bounds(self.head)
        members = {member_of(overlay, name) for name, _ in self.head.columns}
        return {
            f"{name} decimal({spec['precision']},{spec['scale']})": (name, spec["exclusiveMaximum"])
            for member, (name, spec) in _bounds(self.after).items()
            if member in members  # an added column has no values
            and spec["exclusiveMaximum"]
            < before.get(member, (name, _NO_BOUND))[1]["exclusiveMaximum"]
        }


def _default(overlay: Overlay, name: str) -> Any:
    """Return the default that people gave a column; None if there is none, or null."""
    member = member_of(overlay, name)
    if (added := overlay.added.get(member)) is not None:
        return added.default
    column = overlay.columns.get(member)
    return None if column is None or column.default is UNSET else column.default


def retyped_columns(before: TableState, after: TableState) -> set[str]:
    """Find the columns whose values may not fit the type that they have by another overlay.

    Args:
        before: A state as it was read.
        after: The same state as it will be read, whose names are given.
    """
    types = dict(columns_of(before.tap_schema, before.rules))  # of columns that were dropped, too
    types.update((member_of(before.overlay, name), type_) for name, type_ in before.columns)
    return {
        name
        for name, type_ in after.columns
        if (old := types.get(member_of(after.overlay, name))) is not None
        and not never_fails(exact(old, is_key=False), exact(type_, is_key=False))
    }


@dataclass(frozen=True)
class Altered:
    """The result of an alteration, or of its dry run.

    Attributes:
        changes: In words; nothing where there was nothing to do.
        transaction: The one that says so; None where nothing was to be done, or only asked.
        rows: How many rows were written again; None where none had to be.
        version: The version of what it left, where one was asked for.
    """

    changes: Sequence[str]
    transaction: int | None = None
    rows: int | None = None
    version: FrozenVersion | None = None


@dataclass(frozen=True)
class Rewritten:
    """All rows of the state, written again for a new key.

    Attributes:
        blocks: In order, ACTIVATE_VERSION lines first.
        schemas: What they are under, by hash.
        writer_id: Who holds the locks.
        check: Raises if they are lost.
    """

    blocks: Sequence[Block]
    schemas: Mapping[str, SchemaEntry]
    writer_id: str
    check: Callable[[], None]


def looks_at_rows(wanted: AlterPlan, *, allow_type_mismatches: bool = False) -> bool:
    """Tell whether only rows can say if a table may be altered so.

    Args:
        allow_type_mismatches: Whether a column gets its type even if values of it do not fit.
    """
    of_values = wanted.asks_values and not allow_type_mismatches
    return wanted.asks_sql or of_values or not wanted.same_key


def _bounds(snapshot: TableState) -> dict[str, tuple[str, dict[str, Any]]]:
    """Find the columns of decimals that declare their digits: names and types, by members."""
    properties = snapshot.schema.schema.get("properties")
    return {
        member_of(snapshot.overlay, name): (name, spec)
        for name, spec in (properties.items() if isinstance(properties, dict) else ())
        if isinstance(spec, dict)
        and {"precision", "scale", "exclusiveMaximum"} <= spec.keys()
        and isinstance(spec["exclusiveMaximum"], int)
        and dict(snapshot.columns)[name].kind is Kind.DECIMAL
    }


def _by_members(overlay: Overlay, one: Constraint) -> Constraint:
    """A constraint by the names of the records' members, which no rename changes."""
    members = {name: member_of(overlay, name) for name in one.columns}
    columns = [members[name] for name in one.columns]
    return structs.replace(one, columns=columns, sql=sql_tokens.renamed(one.sql, members))


def plan(head: TableState, change: OverlayChange, options: AlterOptions) -> AlterPlan:
    """Check what can be checked before any row is read.

    Raises:
        NotFoundError: The table has no such column.
        UsageError: It cannot be said, or the table has lost its log.
        ConflictError: The table is not at the transaction that it should be at.
    """
    head.check_log()
    conflicts.check_transaction(head, options.if_transaction)
    check_metadata(options.metadata)
    return AlterPlan(head, change(head))


def alter(
    store: Store, head: TableState, change: OverlayChange, options: AlterOptions | None = None
) -> Altered:
    """Alter a table where no row needs a look.

    Raises:
        NotFoundError: The table has no such column.
        UsageError: It cannot be said, or the table has lost its log.
        ConflictError: Somebody changed the table too often meanwhile, or so that rows need a look.
    """
    options = options or AlterOptions()
    wanted = plan(head, change, options)
    if wanted.same or options.dry_run:
        return Altered(wanted.words)
    done = commit_alter(store, wanted, change, options)
    return Altered(wanted.words, done.number)


def commit_alter(
    store: Store,
    wanted: AlterPlan,
    change: OverlayChange,
    options: AlterOptions,
    *,
    by_rows: bool = False,
    rewritten: Rewritten | None = None,
) -> TableState:
    """Commit an alteration.

    Args:
        by_rows: Whether rows were looked at, so that none may have come since.
        rewritten: The rows that were written again.

    Raises:
        ConflictError: Somebody changed what it relied on; nothing was changed.
    """

    def draft(present: TableState) -> Entry:
        conflicts.check_transaction(present, options.if_transaction)
        if by_rows:
            conflicts.check_columns_unchanged(present, wanted.head)
            conflicts.check_rows_unchanged(present, wanted.head.number)
        overlay = change(present)
        if not looks_at_rows(wanted) and looks_at_rows(AlterPlan(present, overlay)):
            raise ConflictError(
                f"{present.table} was changed in the meantime, so its rows have to be checked: "
                "nothing was altered; run it again"
            )
        said = {} if options.comment is None else {"comment": options.comment}
        entry = draft_entry(
            present.table,
            Operation.ALTER,
            writer=new_writer_id() if rewritten is None else rewritten.writer_id,
            overlay=overlay,
            metadata={**options.metadata, "by": current_user(), **said},
        )
        return entry if rewritten is None else _with_rows(present, entry, rewritten)

    check: Callable[[], None] = (lambda: None) if rewritten is None else rewritten.check
    after = commit(store, wanted.head, draft, waiting=options.writing.waiting, check=check)
    update_checkpoint(store, after)
    update_catalogues(store, [after])
    return after


def _with_rows(present: TableState, entry: Entry, rewritten: Rewritten) -> Entry:
    used = {block.schema_hash for block in rewritten.blocks} - set(present.schemas)
    numbered = [
        replace_block(block, number=number)
        for number, block in enumerate(rewritten.blocks, start=present.last_block + 1)
    ]
    rows = sum(block.rows for block in rewritten.blocks)
    return structs.replace(
        entry,
        blocks=numbered,
        schemas={name: rewritten.schemas[name] for name in rewritten.schemas if name in used},
        metrics={"rewritten": rows},
    )


@dataclass(frozen=True)
class Retyped:
    """The result of a new type for a column.

    Attributes:
        column: Its name.
        before: Its type until now.
        after: Its type from now on.
        transaction: The one that says so; None where nothing was to be done, or only asked.
    """

    column: str
    before: str
    after: str
    transaction: int | None = None

    @property
    def same(self) -> bool:
        """Whether nothing changes."""
        return self.before == self.after


def retyped(head: TableState, column: str, overlay: Overlay, done: Altered) -> Retyped:
    """Say what became of a column's type."""
    before, after = (
        declared_type(
            one.schema.schema.get("properties", {}).get(column), dict(one.columns)[column]
        )
        for one in (head, head.laid_over(overlay))
    )
    return Retyped(column, before, after, done.transaction)
