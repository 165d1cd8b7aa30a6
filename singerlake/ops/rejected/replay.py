"""Replay: rejected records that the table takes today become its rows, as one transaction.

Two tables have two logs, so the transaction in the table itself says which lines it replays, and is
the only word on it. The dead-letter table follows (``settle.py``): where a process died in between,
the next replay finds the lines in the log, and only takes them off the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec import UNSET, Raw, UnsetType

from singerlake.engine.base import Engine
from singerlake.engine.choice import EngineChoice
from singerlake.engine.work import Work
from singerlake.errors import ConflictError, UsageError
from singerlake.format import messages, times
from singerlake.format.log import Block, Entry, Operation, SchemaEntry
from singerlake.format.nesting import MAX_LEVELS, too_deep
from singerlake.format.refused_lines import FORMATS_UNCHECKED
from singerlake.format.types import identity
from singerlake.lake import Table
from singerlake.log import blocked, conflicts, erasures, log
from singerlake.log.commit import commit, current_user, draft_entry, new_writer_id
from singerlake.log.deletion_schema import hash_of
from singerlake.log.staging import publish_blocks
from singerlake.log.table_state import TableState
from singerlake.log.writer import WriteOptions, clean_up, hold_locks, update_checkpoint
from singerlake.ops.rejected import kept
from singerlake.ops.rejected.kept import KeptLine, ReasonCount
from singerlake.ops.rejected.listing import Selection, lock
from singerlake.ops.rejected.newest import NewestLine, keys_of, newest_lines
from singerlake.ops.rejected.rules import Rules
from singerlake.ops.rejected.settle import (
    Settlement,
    SettleOptions,
    blocks_of,
    numbered,
    settle,
    withdraw,
)
from singerlake.quantities import count
from singerlake.rows.state.blocked_keys import BlockedRows
from singerlake.rows.state.shape import shape_of
from singerlake.snapshot.from_blocks import needed_blocks

WHAT = "replaying rejected records"
ATTEMPTS = 20
"""Times that a replay is planned again, because others changed rows of the same keys."""
MOST = 100_000
"""Lines that one transaction replays at most: its entry has a digest of each."""
OLDER = "the table has a row of its key that is as new or newer; --overwrite replaces it"
BLOCKED = "its key is on the suppression list of the table"


@dataclass(frozen=True)
class ReplayOptions:
    """The options of a replay.

    Attributes:
        selection: Which lines are replayed; all by default.
        overwrite: Replace rows that are newer than the replayed record.
        dry_run: Only say what would be done.
        comment: Why; kept with the transaction.
        writing: How to treat other writers.
    """

    selection: Selection = field(default_factory=Selection)
    overwrite: bool = False
    dry_run: bool = False
    comment: str | None = None
    writing: WriteOptions = field(default_factory=WriteOptions)


@dataclass(frozen=True)
class Replayed:
    """The result of a replay, or of its dry run.

    Attributes:
        transaction: The one that it made; None where it made none.
        replayed: Records that became rows.
        present: Records that the table had already, as the newest row of their key.
        kept: Selected records that stay rejected.
        reasons: Why they stay.
    """

    transaction: int | None
    replayed: int
    present: int
    kept: int
    reasons: list[ReasonCount]


@dataclass(frozen=True)
class _Candidate:
    """A kept line as a line of the table.

    Attributes:
        text: With its time and its newline.
        time: When the tap read the record, or when it was rejected if the tap does not say.
        under: The schema that it is written under.
    """

    line: KeptLine
    text: bytes
    record: bytes
    time: datetime
    version: int | None
    under: SchemaEntry = field(default_factory=lambda: SchemaEntry({}))

    @property
    def written(self) -> tuple[SchemaEntry, bytes]:
        return self.under, self.text


@dataclass(frozen=True)
class _Plan:
    """What a replay would do to the table as it is.

    Attributes:
        taken: The records that become rows, oldest first.
        keys: The keys of these; None if nothing depends on other rows.
        present: Lines whose record the table has.
        stay: Lines that stay, each with its reason of today.
    """

    head: TableState
    rejected: TableState
    taken: list[_Candidate]
    keys: pa.Table | None
    present: list[KeptLine]
    stay: list[tuple[KeptLine, str]]


class _OvertakenError(ConflictError):
    """Others changed what the plan went by: it is made again."""


def replay(
    table: Table, options: ReplayOptions | None = None, choice: EngineChoice | None = None
) -> Replayed:
    """Make rows of the rejected records of a table that it takes today.

    Args:
        table: The table itself, not its dead-letter table.
        choice: What may look for newer rows.

    Raises:
        NotFoundError: No record of the stream was rejected, or the table is not there.
        UsageError: Records of the table cannot be replayed, or too many are selected.
        ConflictError: Others keep changing the same rows, or a vacuum, an erasure or another
            replay is running; nothing was changed.
    """
    options, choice = options or ReplayOptions(), choice or EngineChoice()
    if not table.name.stream:
        raise UsageError(
            "these lines name no known stream, so they belong to no table: write them with "
            "--export, correct them, and pipe them into target-singerlake"
        )
    rejected = Table(table.store, kept.dead_letters(table.name))
    head = table.snapshot()
    _check(head, kept.state_of(rejected))
    # Java starts before a lock is asked for, and not for what is refused.
    engine = _engine_for(choice, head, options)
    meant = options.selection.resolved(rejected, choice)
    with ExitStack() as stack:
        check: Callable[[], None] = lambda: None  # noqa: E731
        if not options.dry_run:
            check = stack.enter_context(lock(rejected, options.writing)).check
        lease = stack.enter_context(table.lease())
        stack.enter_context(rejected.lease())
        job = _Replay(table, rejected, options, choice, engine, meant, check)
        return job.run(lease.snapshot)


def _check(head: TableState, rejected: TableState) -> None:
    for state in (head, rejected):
        if not state.from_log:
            raise UsageError(
                f"{state.table} has lost its log: rebuild it with: singerlake rebuild {state.table}"
            )
    Rules(head, formats=False)


def _engine_for(
    choice: EngineChoice,
    head: TableState,
    options: ReplayOptions,
    started: Engine[Any] | None = None,
) -> Engine[Any]:
    shape = shape_of(head)
    read = () if options.overwrite or not shape.keys else needed_blocks(head)
    return choice.engine_for(Work.of(read, len(shape.keys)), WHAT, started=started)


class _Replay:
    """One replay.

    Args:
        meant: Tells whether a line is to be replayed.
        check: Raises if the lock of the dead-letter table was lost.
    """

    def __init__(
        self,
        table: Table,
        rejected: Table,
        options: ReplayOptions,
        choice: EngineChoice,
        engine: Engine[Any],
        meant: Callable[[KeptLine], bool],
        check: Callable[[], None],
    ) -> None:
        self._table = table
        self._rejected = rejected
        self._options = options
        self._choice = choice
        self._engine = engine
        self._meant = meant
        self._check = check

    def run(self, head: TableState) -> Replayed:
        first = head
        for _ in range(ATTEMPTS):
            self._engine = _engine_for(self._choice, head, self._options, self._engine)
            plan = self._plan(head)
            if self._options.dry_run:
                return _result(plan, None)
            try:
                number = self._commit(plan) if plan.taken else None
            except _OvertakenError:
                head = log.refresh(self._table.store, head)
                conflicts.check_not_dropped(head, first)
            else:
                self._settle(plan, number)
                return _result(plan, number)
        raise ConflictError(
            f"other processes keep changing the same rows of {self._table.name}: nothing was "
            "changed; run it again"
        )

    def _plan(self, head: TableState) -> _Plan:
        state = self._rejected.snapshot()
        done = kept.replayed_lines(self._table, head, state)
        lines = [*kept.not_replayed(kept.kept_lines(self._rejected, state), done)]
        selected = [*filter(self._meant, lines)]
        # Whoever refused records for their formats would refuse them for these again.
        formats = any(line.reason.endswith(FORMATS_UNCHECKED) for line in selected)
        rules = Rules(head, formats=formats)
        candidates, stay = list[_Candidate](), list[tuple[KeptLine, str]]()
        for line in selected:
            found = _candidate(line, head.table.stream)
            under = found if isinstance(found, str) else rules.under(found.record)
            if isinstance(found, str) or isinstance(under, str):
                stay.append((line, str(under)))
            else:
                candidates.append(replace(found, under=under))
        candidates.sort(key=lambda one: one.time)
        return self._among_rows(_Plan(head, state, candidates, None, [], stay))

    def _among_rows(self, plan: _Plan) -> _Plan:
        """Take out what the rows that there are leave no place for."""
        head, shape = plan.head, shape_of(plan.head)
        if not plan.taken:
            return plan
        wanted = keys_of(head, [one.written for one in plan.taken]) if shape.keys else None
        left_out = [False] * len(plan.taken)
        if wanted is not None and head.blocked is not None:
            hashes = blocked.read(self._table.store, head)
            members = erasures.key_members(head.tap_schema, head.overlay)
            rows = BlockedRows.of(hashes, identity(shape.key_columns), members)
            left_out = rows.mask(wanted.columns).tolist()
        newest, active = {}, None
        if not self._options.overwrite:
            last = shape.survival.last
            active = None if last is None else last.version
            if wanted is not None:
                newest = newest_lines(self._engine, self._table, head, wanted, past_reverts=True)
        taken, present, stay = list[int](), [*plan.present], [*plan.stay]
        for at, one in enumerate(plan.taken):
            there = newest.get(at)
            if left_out[at]:
                stay.append((one.line, BLOCKED))
            elif there is not None and there.digest == sha256(one.record).hexdigest():
                present.append(one.line)
            elif reason := _superseded(one, there, active):
                stay.append((one.line, reason))
            else:
                taken.append(at)
        _check_number(len(taken))
        keys = None
        if wanted is not None and not self._options.overwrite:
            keys = wanted.take(pa.array(taken, pa.int64()))
        chosen = [plan.taken[at] for at in taken]
        return replace(plan, taken=chosen, keys=keys, present=present, stay=stay)

    def _commit(self, plan: _Plan) -> int:
        head, writing = plan.head, self._options.writing
        writer_id, store = new_writer_id(), self._table.store
        schemas = {hash_of(one.under): one.under for one in plan.taken}
        with hold_locks(store, head.table, schemas, writer_id, writing) as locks:
            blocks: list[Block] = []

            def check() -> None:
                locks.check()
                self._check()

            try:
                made = blocks_of(head.table.stream, [one.written for one in plan.taken])
                blocks += publish_blocks(store, head.table, made)
                draft = partial(self._draft, plan, [head], blocks, schemas, writer_id)
                after = commit(store, head, draft, waiting=writing.waiting, check=check)
            except BaseException as error:
                clean_up(error, locks, lambda: withdraw(self._table, blocks))
                raise
        return update_checkpoint(store, after).number

    def _draft(
        self,
        plan: _Plan,
        checked: list[TableState],
        blocks: Sequence[Block],
        schemas: Mapping[str, SchemaEntry],
        writer_id: str,
        present: TableState,
    ) -> Entry:
        head = plan.head
        if (present.schema_hash, present.overlay) != (head.schema_hash, head.overlay):
            raise _OvertakenError(f"the columns of {head.table} were changed in the meantime")
        if present is not checked[-1]:
            self._check_apart(plan, checked[-1], present)
            checked.append(present)
        comment = {} if self._options.comment is None else {"comment": self._options.comment}
        lines = [one.line for one in plan.taken]
        return draft_entry(
            head.table,
            Operation.REPLAY,
            writer=writer_id,
            schema_hash=head.schema_hash,
            schemas={name: one for name, one in schemas.items() if name not in present.schemas},
            blocks=numbered(blocks, present),
            metadata={
                "rejected": kept.as_metadata(plan.rejected, lines),
                "by": current_user(),
                **comment,
            },
            metrics={"replayed": len(lines)},
        )

    def _check_apart(self, plan: _Plan, before: TableState, present: TableState) -> None:
        """Make sure that what came in since replayed nothing, and has no row of the same keys.

        Raises:
            _OvertakenError: It has.
        """
        since = present.transactions[before.number :]
        error = _OvertakenError(f"{present.table} was changed in the meantime")
        if any(one.operation == Operation.REPLAY for one in since):
            raise error
        if plan.keys is None or not conflicts.rows_changed_since(present, before.number):
            return
        blocks = present.blocks_after(before.number)
        if any(block.activations for block in blocks) or newest_lines(
            self._engine, self._table, present, plan.keys, blocks
        ):
            raise error

    def _settle(self, plan: _Plan, number: int | None) -> None:
        """Bring the dead-letter table up to date."""
        done = kept.replayed_lines(self._table, self._table.snapshot(), self._rejected.snapshot())
        present = {(line.digest, line.block) for line in plan.present}
        reasons = {(line.digest, line.block): reason for line, reason in plan.stay}

        def settling(_state: TableState, lines: Any) -> Settlement:
            gone, changed = list[KeptLine](), list[tuple[KeptLine, str]]()
            for line in lines:
                at = (line.digest, line.block)
                if at in present or any(one.has(line) for one in done):
                    gone.append(line)
                elif at in reasons and reasons[at] != line.reason:
                    changed.append((line, reasons[at]))
            return Settlement(gone, changed)

        into = {"table": str(self._table.name), "transaction": number}
        options = SettleOptions(
            self._options.comment, {"replayed": into}, self._check, self._options.writing
        )
        settle(self._rejected, settling, options)


def _check_number(taken: int) -> None:
    if taken > MOST:
        raise UsageError(
            f"{count(taken, 'record')} can be replayed, and one transaction takes {MOST:,}: select "
            "fewer with --reason"
        )


def _superseded(one: _Candidate, there: NewestLine | None, active: int | None) -> str | None:
    """Say why the table has something newer than a record; None if it has not.

    Args:
        there: The newest line of its key.
        active: The version of the last ACTIVATE_VERSION.
    """
    if there is not None and (there.time is None or one.time <= there.time):
        return OLDER
    if one.version is not None and active is not None and one.version < active:
        return (
            f"it belongs to version {one.version} of the stream, and the table has version "
            f"{active} (ACTIVATE_VERSION); --overwrite replays it"
        )
    return None


def _result(plan: _Plan, number: int | None) -> Replayed:
    stay = [replace(line, reason=reason) for line, reason in plan.stay]
    reasons = kept.counted(stay)
    return Replayed(number, len(plan.taken), len(plan.present), len(stay), reasons)


# From kept lines to lines of the table.

_Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Message(msgspec.Struct):
    type: str
    stream: str
    record: Raw
    time_extracted: str | UnsetType | None = UNSET
    version: _Int64 | None = None


class _Extracted(msgspec.Struct):
    _sdc_extracted_at: Any = None


_MESSAGE = msgspec.json.Decoder(_Message)
_EXTRACTED = msgspec.json.Decoder(_Extracted)


def _candidate(line: KeptLine, stream: str) -> _Candidate | str:
    """Make a line of the table of a kept line, or say why it is none."""
    if line.file is not None:  # of a BATCH, the record alone
        record = line.text.strip()
        if too_deep(record, 1):
            return f"the line is nested more than {MAX_LEVELS} levels deep"
        stamp = _own_time(record) or line.time
        text = messages.record_line(stream, record, stamp)
        return _Candidate(line, text, record, _instant(stamp, line), None)
    try:
        line.text.decode("utf-8")
        message = _MESSAGE.decode(line.text)
    except UnicodeDecodeError:
        return "the line is not UTF-8 text"
    except (msgspec.DecodeError, RecursionError):
        return "the line is not a RECORD message"
    if too_deep(line.text):
        return f"the line is nested more than {MAX_LEVELS} levels deep"
    if message.type != "RECORD":
        return f"the line is not a RECORD message, but one of type {message.type[:40]!r}"
    if message.stream != stream:
        return f"the line names another stream than {stream!r}"
    record, text = bytes(message.record), line.text + b"\n"
    said = message.time_extracted
    if said is UNSET:
        said = _own_time(record) or line.time
        text = messages.with_time(text, said)
    return _Candidate(line, text, record, _instant(said, line), message.version)


def _own_time(record: bytes) -> str | None:
    """Return the time at which a record says that it was read."""
    try:
        own = _EXTRACTED.decode(record)._sdc_extracted_at
    except (msgspec.DecodeError, RecursionError):
        return None
    instant = times.parse(own) if isinstance(own, str) else None
    return None if instant is None else times.iso(instant)


def _instant(said: str | UnsetType | None, line: KeptLine) -> datetime:
    found = times.parse(said) if isinstance(said, str) else None
    return found or times.parse(line.time) or times.from_micros(0)
