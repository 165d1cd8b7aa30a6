"""One stream: the blocks of a table, in the order of its log."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from singer_sdk import Stream
from singer_sdk.mapper import SameRecordTransform
from singer_sdk.singerlib.catalog import REPLICATION_FULL_TABLE, REPLICATION_LOG_BASED

from singerlake.errors import DamagedError
from singerlake.format.log import Block, SchemaEntry
from singerlake.lake import Table
from singerlake.transactions.lease import ReaderLease
from singerlake.transactions.log import refresh
from singerlake.transactions.snapshot import Snapshot
from tap_singerlake.messages import Emitter, MappedEmitter, RawEmitter
from tap_singerlake.output import EarlyEndError
from tap_singerlake.plan import Plan, make_plan
from tap_singerlake.prefetch import inflate_ahead
from tap_singerlake.schemas import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from singer_sdk.helpers.types import Context, Record
    from singer_sdk.metrics import Counter

    from tap_singerlake.tap import TapSingerlake


class LakeStream(Stream):
    """A table of the lake.

    Args:
        tap: The tap.
        table: What to read.
        version: Up to which table version; None reads all of it.
        schema: For the catalog. What goes out comes from the blocks.
        snapshot: The table's head, where it was read already.
    """

    def __init__(
        self,
        tap: TapSingerlake,
        table: Table,
        version: str | None,
        schema: SchemaEntry,
        snapshot: Snapshot | None = None,
    ) -> None:
        super().__init__(tap, name=table.name.stream)
        self._schema = plain(schema.schema)
        self.primary_keys = schema.key_properties
        # The log says what came since, and no column does: INCREMENTAL would make the SDK ask
        # for a replication key, FULL_TABLE would say that every run begins anew.
        self.forced_replication_method = REPLICATION_LOG_BASED
        self._lake_tap = tap
        self._table = table
        self._version = version
        self._snapshot = snapshot

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
        except DamagedError as error:
            self._lake_tap.give_up(self._table.name, error)

    def _sync_table(self) -> None:
        head, self._snapshot = self._snapshot, None  # a second sync sees what came since
        with ExitStack() as leases:

            def lease(start: Snapshot) -> Plan:
                held = leases.enter_context(ReaderLease(self._table.store, start))
                return self._plan(held.snapshot)

            if head is None:
                head = self._table.checkpoint()
                # Where the manifest tells already, the log's end is looked for once, not twice.
                if self._is_behind(head):
                    self._sync(lease(head))
                    return
                head = refresh(self._table.store, head)
            plan = self._plan(head)
            self._sync(lease(head) if plan.blocks() else plan)

    def _sync(self, plan: Plan) -> None:
        blocks = plan.blocks()
        if blocks:
            message = "Reading %s: transactions %d to %d, %d blocks"
            head = plan.snapshot.head
            self.log(message, self._table.name, plan.start + 1, head, len(blocks))
        else:
            self.log("Nothing new in %s since transaction %d", self._table.name, plan.start)
        emitter = self._emitter()
        where = f"the schema of {self._table.name}"
        # Written at the first record by the SDK; here a limit may strike before any state.
        self.state_manager.is_flushed = False
        with ExitStack() as metrics:
            metrics.enter_context(self.get_sync_timer())
            counter = metrics.enter_context(self.get_record_counter())
            try:
                if not blocks:
                    emitter.schema(plan.snapshot.schema, where)
                self._put_out(plan, emitter, counter)
            except EarlyEndError:
                metrics.pop_all()  # unlogged: a closed pipe is no failure
                raise
        self._lake_tap.streams_read += 1

    def _plan(self, head: Snapshot) -> Plan:
        return make_plan(head, self._version, self._bookmark(), self.logger)

    def _is_behind(self, table: Snapshot) -> bool:
        """Whether the table is known to have blocks behind the bookmark."""
        number = self._bookmark().get("transaction", 0)
        if not isinstance(number, int) or isinstance(number, bool):
            number = 0  # all is read again: see make_plan
        return 0 <= number < table.head and bool(table.blocks_after(number))

    def _bookmark(self) -> dict[str, Any]:
        full = self.replication_method == REPLICATION_FULL_TABLE  # the user's catalog says so
        bookmarks = self.tap_state.get("bookmarks", {})
        bookmark: dict[str, Any] = {} if full else bookmarks.get(self.name, {})
        return bookmark

    def _put_out(self, plan: Plan, emitter: Emitter, counter: Counter) -> None:
        schema_hash = ""
        with closing(inflate_ahead(self._table, plan.blocks())) as texts:
            for transaction, blocks in plan.steps():
                for block in blocks:
                    text, rows = plan.new_in(block, next(texts))
                    emitter.block(text, self._name(block))
                    schema_hash = block.schema_hash
                    counter.increment(rows)
                    self._lake_tap.records_read += rows
                if schema_hash and transaction.schema_hash != schema_hash:
                    # It changed with no rows behind it.
                    schema_hash = transaction.schema_hash
                    name = f"the schema of {self._table.name}"
                    emitter.schema(plan.snapshot.schema_of(schema_hash), name)
                if blocks or transaction.number == plan.snapshot.head:
                    self._move_bookmark(plan.bookmark(transaction))

    def _name(self, block: Block) -> str:
        return f"block {block.number} of {self._table.name} ({self._table.name.data(block.file)})"

    def _move_bookmark(self, bookmark: dict[str, Any]) -> None:
        """Only called once all that the bookmark stands for is out."""
        state = self.stream_state
        state.clear()
        state.update(bookmark)
        self._lake_tap.state_writer.write_state(self.tap_state)

    def _emitter(self) -> Emitter:
        if self.passes_bytes():
            return RawEmitter(self.name, self._lake_tap.output)
        return MappedEmitter(
            self.name,
            self._lake_tap.output,
            self._lake_tap.mapper,
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
        mapper = self._lake_tap.mapper
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
