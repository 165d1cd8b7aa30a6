"""Random histories of a table with files, without Spark: what is needed is there, whatever comes.

Syncs that name files new and old, some of them held up between storing and commit while others are
at work; history that is dropped; vacuums, one of which may wake up late; versions, readers, drops.
The yardstick is ``tests/faults/plain.py``, which shares no line with the project.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from singerlake.errors import ConflictError
from singerlake.files.sources import SourceOptions, Sources
from singerlake.files.storing import FileStorer
from singerlake.format import block as format_block
from singerlake.format.content import place_in
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.schema_hash import schema_hash
from singerlake.lake import Lake, Table
from singerlake.log.lease import ReaderLease
from singerlake.log.staging import StagedTable
from singerlake.log.writer import TableWriter, WriteOptions
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.vacuum import plan as vacuum
from singerlake.overlay.alter import AlterOptions
from singerlake.storage.local.store import LocalStore
from tests.build import EXTRACTED, record_line, schema_line
from tests.faults import plain
from tests.faults.cases import fast_folder
from tests.files.photos import AT_ONCE, NAME, PHOTOS, clean, finish, forget, listed, lists, stored
from tests.ops.vacuum.plain_table import freeze

SCHEMA = SchemaEntry({"type": "object", "properties": PHOTOS}, ["id"])
HASH = schema_hash(SCHEMA.schema, ["id"])
PLACE = place_in(SCHEMA.schema)
ROWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcde")), min_size=1, max_size=3)


class Held:
    """A sync that has stored its files and not committed."""

    def __init__(self, table: Table, rows: list[tuple[int, str]]) -> None:
        self._writer = TableWriter(table.store, NAME, WriteOptions(lock_wait_seconds=1))
        storer = FileStorer(table.store, NAME, self._writer.begin, Sources(SourceOptions()))
        photos = ({"id": id_, "photo": {"uri": f"data:,{text}"}} for id_, text in rows)
        assert PLACE is not None
        lines = storer.take(b"".join(record_line("photos", row) for row in photos), PLACE)
        storer.close()
        self._staged = StagedTable(table.store, NAME)
        self._staged.set_schema(HASH, SCHEMA)
        text = schema_line("photos", PHOTOS, ["id"]) + lines
        block = Block(0, "", 0, 0, len(rows), len(text), EXTRACTED, EXTRACTED, [])
        self._staged.add(HASH, format_block.encode(text, len(rows), 1), block)

    def commit(self) -> bool:
        """Go on; whether it was committed."""
        try:
            return self._writer.commit(self._staged) is not None
        except ConflictError:
            return False
        finally:
            self._staged.discard()


class Files(RuleBasedStateMachine):
    """One table, and those at work on it."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = fast_folder()
        self.root = self._folder.__enter__()
        self.table = Lake(LocalStore(self.root)).table(NAME)
        self.held: list[Held] = []
        self.asleep: list[Any] = []
        self.leases: list[ReaderLease] = []
        Held(self.table, [(0, "a"), (1, "b")]).commit()

    def teardown(self) -> None:
        for lease in self.leases:
            lease.release()
        self._folder.__exit__(None, None, None)

    @property
    def there(self) -> bool:
        return not self.table.snapshot(dropped=True).dropped_at

    @rule(rows=ROWS)
    def sync(self, rows: list[tuple[int, str]]) -> None:
        assert Held(self.table, rows).commit()

    @rule(rows=ROWS)
    def hold(self, rows: list[tuple[int, str]]) -> None:
        self.held.append(Held(self.table, rows))

    @precondition(lambda self: self.held)
    @rule()
    def go_on(self) -> None:
        self.held.pop(0).commit()

    @precondition(lambda self: self.there)
    @rule()
    def forget(self) -> None:
        with suppress(AssertionError):  # nothing to forget
            forget(self.table)

    @precondition(lambda self: self.there)
    @rule()
    def freeze(self) -> None:
        freeze(self.table, at=self.table.snapshot().number)

    @rule()
    def vacuum(self) -> None:
        clean(self.table)

    @precondition(lambda self: not (self.held or self.asleep or self.leases))
    @rule()
    def vacuum_until_nothing_is_left(self) -> None:
        clean(self.table)
        clean(self.table)  # lists of what the first deleted
        needed = plain.tables(plain.dump_folder(Path(self.root)))[str(NAME)]
        assert stored(self.table.store) == needed.files().keys()
        assert lists(self.table.store) == needed.lists()

    @rule()
    def fall_asleep(self) -> None:
        head = self.table.snapshot(dropped=True)
        plan = vacuum.plan_vacuum(self.table.store, head, AT_ONCE)
        self.asleep.append(vacuum.announce(self.table.store, plan, AT_ONCE, "sleeper"))

    @precondition(lambda self: self.asleep)
    @rule()
    def wake_up(self) -> None:
        finish(self.table, *self.asleep.pop(0))

    @precondition(lambda self: self.there)
    @rule()
    def read(self) -> None:
        self.leases.append(ReaderLease(self.table.store, self.table.snapshot()))
        self.leases[-1].acquire()

    @precondition(lambda self: self.leases)
    @rule()
    def stop_reading(self) -> None:
        self.leases.pop().release()

    @rule()
    def drop_or_bring_back(self) -> None:
        head = self.table.snapshot(dropped=True)
        if not head.dropped_at:
            drop_table(self.table.store, head, AlterOptions(), with_versions=True)
        elif head.restorable is not None:
            undrop_table(self.table.store, head, AlterOptions())

    @invariant()
    def what_is_needed_is_there(self) -> None:
        dump = plain.dump_folder(Path(self.root))
        needed = plain.tables(dump)[str(NAME)].files()  # holds each against its hash
        assert needed.keys() <= stored(self.table.store)
        if self.there:
            assert listed(self.table) == needed.keys()

    @invariant()
    def readers_keep_what_they_read(self) -> None:
        there = stored(self.table.store)
        for lease in self.leases:
            assert lease.snapshot is not None
            assert files_of(self.table, lease) <= there

    @invariant()
    def the_log_is_sound(self) -> None:
        fresh = Lake(LocalStore(self.root)).table(NAME).snapshot(dropped=True)
        assert fresh.blocks == self.table.snapshot(dropped=True).blocks


def files_of(table: Table, lease: ReaderLease) -> set[str]:
    """What a reader's snapshot names, as far as its lists are there to tell."""
    found: set[str] = set()
    for block in lease.snapshot.blocks:
        data = table.store.get_range(NAME.data(block.file), block.offset, block.length)
        text = format_block.decode(data, block.bytes, "it")
        found |= {path.decode() for path in plain._PATH.findall(text)}
    return found


TestFiles = Files.TestCase
TestFiles.settings = settings(
    max_examples=12,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
