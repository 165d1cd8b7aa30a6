"""One stream: the blocks of a table, in the order of its log."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from singer_sdk import Stream, Tap
from singer_sdk.mapper import SameRecordTransform
from singer_sdk.singerlib.catalog import REPLICATION_FULL_TABLE, REPLICATION_LOG_BASED

from singerlake.errors import DataError, DroppedError
from singerlake.format import content
from singerlake.format.annotations import TableEntry, TapEntry
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.metadata import LakeFile, TransactionSummary
from singerlake.lake import Table
from singerlake.log.lease import ReaderLease
from singerlake.log.log import refresh
from singerlake.log.outgoing import outgoing_overlay
from singerlake.log.table_state import TableState
from tap_singerlake.batches import BatchOutput
from tap_singerlake.emitters import Emitter, Lines, MappedEmitter, RawEmitter
from tap_singerlake.output import EarlyEndError
from tap_singerlake.plan import Plan, make_plan
from tap_singerlake.prefetch import inflate_ahead
from tap_singerlake.run import Run
from tap_singerlake.schemas import plain
from tap_singerlake.settings import inline_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from singer_sdk.helpers.types import Context, Record
    from singer_sdk.metrics import Counter

    from singerlake.rows.lines.laid_lines import LaidLines
    from tap_singerlake.erased import Erased


class LakeStream(Stream):
    """A table of the lake.

    Args:
        tap: The tap.
        run: Its run.
        table: What to read.
        version: Up to which table version; None reads all of it.
        schema: For the catalog. What goes out comes from the blocks.
        snapshot: The table's head, where it was read already.
        rows: Whether to put out the rows of the version alone.
        lake_file: What people say of the lake.
    """

    def __init__(
        self,
        tap: Tap,
        run: Run,
        table: Table,
        version: str | None,
        schema: SchemaEntry,
        snapshot: TableState | None = None,
        *,
        rows: bool = False,
        lake_file: LakeFile | None = None,
    ) -> None:
        super().__init__(tap, name=table.name.stream)
        self._lake_file = lake_file or LakeFile()
        self._schema = plain(schema.schema)
        self.primary_keys = schema.key_properties
        # The log says what came since, and no column does: INCREMENTAL would make the SDK ask
        # for a replication key, FULL_TABLE would say that every run begins anew.
        self.forced_replication_method = REPLICATION_LOG_BASED
        self._run = run
        self._table = table
        self._version = version
        self._snapshot = snapshot
        self._rows = rows
        self._laid: LaidLines | None = None
        self._batches: BatchOutput | None = None

    def annotations(self) -> tuple[TapEntry, TableEntry]:
        """What people say of the tap whose table it is, and of the table."""
        name = self._table.name
        return self._lake_file.tap(name.tap), self._lake_file.table(name)

    def sync(self, context: Context | None = None) -> None:  # type: ignore[misc]  # noqa: ARG002
        """Put out what came since the bookmark.

        Final in the SDK, whose own would put out the catalog's schema first, then go through
        the records one by one as dicts and make up versions and states. ``Tap.sync_all`` and
        the dry run call only this.

        A stream with nothing new puts out its SCHEMA nevertheless: targets make the table of
        an empty source from it, and take no harm from one they know.
        """
        try:
            self._sync_table()
        except DroppedError as error:
            self.logger.warning("%s; there is nothing to read", error)
        except DataError as error:
            self._run.give_up(self._table.name, error, self.logger)

    def _sync_table(self) -> None:
        head, self._snapshot = self._snapshot, None  # a second sync sees what came since
        with ExitStack() as leases:

            def lease(start: TableState) -> Plan:
                held = leases.enter_context(ReaderLease(self._table.store, start))
                return self._plan(held.snapshot)

            if head is None:
                head = self._table.checkpoint()
                # Where the manifest tells already, the log's end is looked for once, not twice.
                if self._is_behind(head):
                    self._sync(lease(head))
                    return
                head = refresh(self._table.store, head)
                head.check_there()
            plan = self._plan(head)
            self._sync(lease(head) if plan.blocks() else plan)

    def _sync(self, plan: Plan) -> None:
        if plan.doubt:
            self.logger.warning("%s", plan.doubt)
        blocks = plan.blocks()
        if blocks:
            message = "Reading %s: transactions %d to %d, %d blocks"
            head = plan.snapshot.number
            self.log(message, self._table.name, plan.start + 1, head, len(blocks))
        else:
            self.log("Nothing new in %s since transaction %d", self._table.name, plan.start)
        emitter = self._emitter()
        self._laid = _laid_lines(plan.snapshot)
        where = f"the schema of {self._table.name}"
        # Written at the first record by the SDK; here a limit may strike before any state.
        self.state_manager.is_flushed = False
        before = self._run.records
        with ExitStack() as metrics:
            metrics.enter_context(self.get_sync_timer())
            counter = metrics.enter_context(self.get_record_counter())
            try:
                if plan.begins_anew:
                    emitter.block(plan.clearing(), where)
                if not blocks:
                    emitter.schema(plan.snapshot.schema, where)
                if blocks and self._rows:
                    self._put_out_rows(plan, emitter, counter)
                else:
                    self._put_out(plan, emitter, counter)
            except EarlyEndError:
                metrics.pop_all()  # unlogged: a closed pipe is no failure
                raise
        self._run.streams += 1
        if self._run.lineage is not None:
            self._run.lineage.read(plan.snapshot, rows=self._run.records - before)

    def _plan(self, head: TableState) -> Plan:
        return make_plan(head, self._version, self._bookmark())

    def _is_behind(self, table: TableState) -> bool:
        """Whether the table is known to have blocks behind the bookmark."""
        number = self._bookmark().get("transaction", 0)
        if not isinstance(number, int) or isinstance(number, bool):
            number = 0  # all is read again: see make_plan
        return 0 <= number < table.number and bool(table.blocks_after(number))

    def _bookmark(self) -> dict[str, Any]:
        full = self.replication_method == REPLICATION_FULL_TABLE  # the user's catalog says so
        bookmarks = self.tap_state.get("bookmarks", {})
        bookmark: dict[str, Any] = {} if full else bookmarks.get(self.name, {})
        return bookmark

    def _put_out(self, plan: Plan, emitter: Emitter, counter: Counter) -> None:
        schema_hash, told = "", plan.start
        erased = self._erased(plan)
        with closing(inflate_ahead(self._table, plan.blocks())) as texts:
            for transaction, blocks in plan.steps():
                if erased is not None:  # before the blocks, which may bring such a row again
                    for text, rows in erased.between(told, transaction.number):
                        emitter.block(text, f"the deletion notice of {self._table.name}")
                        name = f"the schema of {self._table.name}"
                        emitter.schema(self._schema_at(plan.snapshot, transaction), name)
                        self._count(rows, counter)
                    told = transaction.number
                for block in blocks:
                    text, rows = plan.new_in(block, next(texts))
                    self._emit(emitter, block, text)
                    schema_hash = block.schema_hash
                    self._count(rows, counter)
                altered = schema_hash and transaction.number in plan.snapshot.overlays
                if (schema_hash and transaction.schema_hash != schema_hash) or altered:
                    # It changed with no rows behind it.
                    schema_hash = transaction.schema_hash
                    name = f"the schema of {self._table.name}"
                    emitter.schema(self._schema_at(plan.snapshot, transaction), name)
                last = transaction.number == plan.snapshot.number
                waiting = self._batches is not None and self._batches.waiting
                if last or (blocks and not waiting):
                    self._move_bookmark(plan.bookmark(transaction))

    def _erased(self, plan: Plan) -> Erased | None:
        """What tells a target of rows that were erased since; None where there is nothing to tell.

        One that has nothing yet, or appends the rows of versions, has nothing to delete.
        """
        if self._rows or not plan.known or plan.snapshot.erased_at <= plan.start:
            return None
        from tap_singerlake.erased import Erased  # late: few runs come by an erasure

        return Erased(self._table, plan.snapshot, self._laid, self.logger)

    def _count(self, rows: int, counter: Counter) -> None:
        counter.increment(rows)
        self._run.records += rows

    def _put_out_rows(self, plan: Plan, emitter: Emitter, counter: Counter) -> None:
        """Put the rows of the state out; STATE only behind the last, for it stands for them all."""
        from tap_singerlake import state_rows  # late: it takes longer to import than a log to read

        snapshot, schema_hash = plan.snapshot, ""
        version = snapshot.version(self._version or "")
        state = state_rows.rows_of(self._table, snapshot, version)
        blocks = [block for block in plan.blocks() if state.holds_any(block)]
        with closing(inflate_ahead(self._table, blocks)) as texts:
            for block, text in zip(blocks, texts, strict=True):
                lines, rows = state.lines(block, text, plan.seen)
                if rows:
                    self._emit(emitter, block, lines)
                    schema_hash = block.schema_hash
                    self._count(rows, counter)
        if schema_hash != snapshot.schema_hash:
            emitter.schema(snapshot.schema, f"the schema of {self._table.name}")
        self._move_bookmark(plan.bookmark(snapshot.summary(snapshot.number)))

    def _emit(self, emitter: Emitter, block: Block, text: bytes) -> None:
        """Put a block out as people see the table, its files by URIs that others can read."""
        name, text = self._name(block), self._shown(block, text)
        place = content.place_in_line(text[: text.find(b"\n") + 1])
        if place is None:
            emitter.block(text, name)
            return
        from singerlake.files.handed_on import HandedOn  # late: few tables have files

        handed_on = HandedOn(self._table.store, self._table.name, inline_bytes(self.config))
        for part in handed_on.parts(text, place):
            emitter.block(part, name)

    def _shown(self, block: Block, text: bytes) -> bytes:
        """Return a block's lines as people see the table."""
        return text if self._laid is None else self._laid.block(block, text)

    def _schema_at(self, snapshot: TableState, transaction: TransactionSummary) -> SchemaEntry:
        """Return the schema that goes out behind a transaction."""
        if self._laid is None:
            return snapshot.schema_of(transaction.schema_hash)
        return self._laid.entry(transaction.schema_hash, transaction.number)

    def _name(self, block: Block) -> str:
        return f"block {block.number} of {self._table.name} ({self._table.name.data(block.file)})"

    def _move_bookmark(self, bookmark: dict[str, Any]) -> None:
        """Only called once all that the bookmark stands for is out."""
        if self._batches is not None:
            self._batches.flush()
        state = self.stream_state
        state.clear()
        state.update(bookmark)
        self._run.state_writer.write_state(self.tap_state)

    def _emitter(self) -> Emitter:
        output: Lines = self._run.output
        self._batches = None
        if self._run.batches is not None:
            name = str(self._table.name.tap)
            output = self._batches = BatchOutput(name, self._run.batches, self._run.output)
        if self.passes_bytes():
            return RawEmitter(self.name, output)
        return MappedEmitter(
            self.name,
            output,
            self._tap.mapper,
            self.mask,
            self._check_max_record_limit,
        )

    def passes_bytes(self) -> bool:
        """Whether blocks may go out as they are: nothing deselected, mapped or limited.

        The maps themselves are looked at rather than the setting, for the SDK takes
        ``__else__`` out of it.
        """
        if self.ABORT_AT_RECORD_COUNT is not None:
            return False
        keys = {("properties", key) for key in self.primary_keys}
        if not all(on for breadcrumb, on in self.mask.items() if breadcrumb not in keys):
            return False
        mapper = self._tap.mapper
        if self.name not in mapper.stream_maps:  # a catalog of the user's without this stream
            mapper.register_raw_stream_schema(self.name, self.schema, self.primary_keys)
        maps = mapper.stream_maps[self.name]
        return (
            len(maps) == 1
            and type(maps[0]) is SameRecordTransform
            and not maps[0].flattening_enabled
        )

    def get_records(self, context: Context | None) -> Iterable[Record]:
        """Never called: see :meth:`sync`.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError


def _laid_lines(snapshot: TableState) -> LaidLines | None:
    """Make what lays over the lines what people said of the table; None where that is nothing."""
    overlay = outgoing_overlay(snapshot)
    if overlay.only_texts:
        return None
    from singerlake.rows.lines.laid_lines import LaidLines  # late: few tables need it, or Arrow

    return LaidLines(snapshot, overlay)
