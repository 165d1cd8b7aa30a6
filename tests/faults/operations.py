"""What is put to the test: each operation with a lake to begin from and what may come of it."""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from singerlake.engine.choice import EngineChoice
from singerlake.errors import DroppedError, NotFoundError, UsageError
from singerlake.format.names import TableName
from singerlake.format.overlay import Overlay
from singerlake.lake import Lake
from singerlake.log.table_state import TableState
from singerlake.log.writer import WriteOptions
from singerlake.ops import freeze as freezing
from singerlake.ops import freeze_lake_plan as freeze_lake
from singerlake.ops.change.plan import ChangeOptions
from singerlake.ops.delete_version import delete_version
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.point import point
from singerlake.ops.rebuild import rebuild_table
from singerlake.ops.rows_back.undo_plan import OnConflict
from singerlake.ops.sign.sign import sign
from singerlake.ops.vacuum.plan import VacuumOptions
from singerlake.overlay.alter import AlterOptions
from singerlake.overlay.overlay_changes import with_key
from singerlake.storage.base import Store
from tests.build import commit_rows
from tests.faults import plain
from tests.faults.plain import Dump, Row, folded
from tests.sshsig import Key
from tests.target.harness import record, schema, state, text

TAP = "tap-test"
ID = {"id": {"type": "integer"}}
WIDE = {"id": {"type": "integer"}, "name": {"type": "string"}}
ADA = Key(Ed25519PrivateKey.from_private_bytes(bytes(32)))
STALE_SECONDS = 0.05
"""A rerun takes over what a killed process left after this."""


class Operation(ABC):
    """One operation.

    Attributes:
        name: What the table in docs/internals/promises.md calls it.
        spark: Whether it is a Spark job.
        loses_log: Whether the lake has lost its log before.
        forks: Whether a fork of the process can do it, which is then killed.
    """

    name: str
    spark = False
    loses_log = False
    forks = True

    @abstractmethod
    def prepare(self, lake: Lake) -> None:
        """Make the lake as it is before."""

    def fresh(self) -> None:  # noqa: B027  # most have nothing there
        """Put back what lies beside the lake as it was before."""

    @abstractmethod
    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        """Do it.

        Args:
            store: The lake's.
            acknowledged: Where the target's STATEs go.
            again: Whether it is run again after a fault, when stale locks are taken over.
        """

    @abstractmethod
    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        """Look at the lake.

        Args:
            dump: All of it.
            acknowledged: The STATEs that came out.
            done: Whether the operation said that it succeeded.
        """


def write_options(*, again: bool) -> WriteOptions:
    """How a run writes; one again waits for locks, and takes over stale ones."""
    if again:
        return WriteOptions(lock_wait_seconds=20, lock_stale_seconds=STALE_SECONDS)
    # No refresh comes in between, and a lock that could not be given up ends the run soon.
    return WriteOptions(lock_wait_seconds=0.1, lock_stale_seconds=600)


class Target(Operation):
    """Two tables, one of which exists; two commits with STATE; a schema that changes."""

    name = "target"
    parts = (
        [
            schema("keyed", ID, ["id"]),
            schema("plain", ID),
            record("keyed", {"id": 1}),
            record("keyed", {"id": 2}),
            record("plain", {"id": 1}),
            state(1),
        ],
        [
            record("plain", {"id": 2}),
            schema("keyed", WIDE, ["id"]),
            record("keyed", {"id": 2, "name": "b"}),
            record("keyed", {"id": 1, "_sdc_deleted_at": "2026-01-02T03:04:05Z"}),
            state(2),
        ],
    )
    keys: ClassVar[dict[str, list[str]]] = {"keyed": ["id"], "plain": []}
    config: ClassVar[dict[str, Any]] = {}

    def prepare(self, lake: Lake) -> None:
        commit_rows(lake, f"{TAP}.keyed", ID, ["id"], [{"id": 1}, {"id": 9}])

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        from target_singerlake.target import TargetSingerlake

        lines = self.lines(self.last(store, acknowledged))
        config = {"lake": "given", "tap_id": TAP, "commit_minutes": 0, **self.config}
        out = self.out(store, acknowledged)
        with (
            out,
            mock.patch("singerlake.lake.open_store", lambda *_: store),
            # The setting takes whole seconds.
            mock.patch(
                "target_singerlake.settings.WriteOptions", lambda **_: write_options(again=again)
            ),
            # One table after the other, so that the k-th operation is always the same.
            mock.patch("target_singerlake.committing.HERE", 1),
            mock.patch("target_singerlake.committing.FAR", 1),
            redirect_stdout(out),
        ):
            TargetSingerlake(config=config).listen(io.BytesIO(text(lines)))  # type: ignore[arg-type]

    def last(self, store: Store, acknowledged: Path) -> int:
        """The STATE that the tap begins with: what was acknowledged is not sent again."""
        return max(read_states(acknowledged), default=0)

    def out(self, store: Store, acknowledged: Path) -> io.TextIOWrapper:
        """What takes the target's STATEs."""
        return io.TextIOWrapper(acknowledged.open("ab"), write_through=True)

    def lines(self, last: int) -> list[bytes]:
        """What the tap sends after the STATE that came out last; 0 for none."""
        first, second = self.parts
        return [*first, *second] if last == 0 else [*first[:2], *second]

    def states(self, stream: str) -> list[list[Row]]:
        """What the table may hold: before, after the first commit, after the second."""
        before = [{"id": 1}, {"id": 9}] if stream == "keyed" else []
        messages = [{"type": "RECORD", "record": row} for row in before]
        found = [folded(messages, self.keys[stream])]
        for part in self.parts:
            lines = [json.loads(line) for line in part]
            messages += [m for m in lines if m["type"] == "RECORD" and m["stream"] == stream]
            found.append(folded(messages, self.keys[stream]))
        return found

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        assert acknowledged == sorted(acknowledged)
        last = max(acknowledged, default=0)
        if done:
            assert last == 2
        found = plain.tables(dump)
        for stream, keys in self.keys.items():
            name = f"{TAP}.{stream}"
            rows = found[name].state() if name in found else []
            allowed = self.states(stream)[last:]
            if keys:
                assert rows in allowed, (stream, rows, last)
            else:
                # Without a key a row may come twice where the STATE behind it was lost.
                ids = {row["id"] for row in rows}
                assert ids in [{row["id"] for row in one} for one in allowed], (stream, rows)
                assert len(rows) <= 2 * len(ids)


class TargetLongLog(Target):
    """The same where each manifest is too large to be read for a commit."""

    name = "target, long log"

    def prepare(self, lake: Lake) -> None:
        with mock.patch("singerlake.log.head_file.SMALL_BYTES", 0):
            super().prepare(lake)
        assert lake.store.exists(TableName(TAP, "keyed").head_file)

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        with mock.patch("singerlake.log.head_file.SMALL_BYTES", 0):
            super().run(store, acknowledged, again=again)


class Freeze(Operation):
    """The head of a table of two transactions, which has an index of the first."""

    name = "freeze"
    spark = True
    table = f"{TAP}.t"
    rows: ClassVar[list[Row]] = [{"id": 1, "name": "x"}, {"id": 3}]

    def prepare(self, lake: Lake) -> None:
        commit_rows(lake, self.table, WIDE, ["id"], [{"id": 1}, {"id": 2}])
        gone = {"id": 2, "_sdc_deleted_at": "2026-01-02T03:04:05Z"}
        commit_rows(lake, self.table, WIDE, ["id"], [{"id": 1, "name": "x"}, {"id": 3}, gone])

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        from singerlake.engine.spark.jvm.session import session
        from tests.frozen import freeze_on_spark as freeze

        label = None if again else "first"
        freeze(session("local[2]"), Lake(store).find(self.table)[0], label=label)

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        assert table.state() == self.rows
        assert len({v["fingerprint"] for v in table.versions}) == len(table.versions[:1])
        # Run again it may freeze the transaction of the first version: the same rows.
        assert all(table.state(v["transaction"]) == self.rows for v in table.versions)
        assert all(v["rows"] == 2 for v in table.versions)
        assert len(table.versions) in ((1, 2) if done else (0, 1))


class Revert(Operation):
    """Back to the first of two transactions: one row changed, one came, one went."""

    name = "revert"
    spark = True
    table = f"{TAP}.t"
    keys: ClassVar[list[str]] = ["id"]

    def prepare(self, lake: Lake) -> None:
        commit_rows(lake, self.table, ID, self.keys, [{"id": 1}, {"id": 2}])
        gone = {"id": 2, "_sdc_deleted_at": "2026-01-02T03:04:05Z"}
        rows: list[Any] = [{"id": 1, "name": "x"}, {"id": 3}, gone]
        commit_rows(lake, self.table, WIDE, self.keys, rows if self.keys else rows[:2])

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        from singerlake.engine.spark.jvm.session import session
        from tests.frozen import revert_on_spark as revert

        table = Lake(store).find(self.table)[0]
        revert(session("local[2]"), table, 1, options=write_options(again=again))

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        before, after = table.state(2), table.state(1)
        assert after == [{"id": 1}, {"id": 2}]
        assert table.state() in ([after] if done else [before, after])


class RevertKeyless(Revert):
    """The same of a table without a key, which is written whole behind an ACTIVATE_VERSION."""

    name = "revert, no key"
    keys: ClassVar[list[str]] = []


class Undo(Operation):
    """The second of three transactions taken back; the third touched one of its rows again."""

    name = "undo"
    spark = True
    table = f"{TAP}.t"
    after: ClassVar[list[Row]] = [{"id": 1}, {"id": 2}, {"id": 3, "name": "y"}]

    def prepare(self, lake: Lake) -> None:
        commit_rows(lake, self.table, WIDE, ["id"], [{"id": 1}, {"id": 2}])
        gone = {"id": 2, "_sdc_deleted_at": "2026-01-02T03:04:05Z"}
        rows: list[Any] = [{"id": 1, "name": "x"}, gone, {"id": 3}, {"id": 4}]
        commit_rows(lake, self.table, WIDE, ["id"], rows)
        commit_rows(lake, self.table, WIDE, ["id"], [{"id": 3, "name": "y"}])

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        from singerlake.engine.spark.jvm.session import session
        from tests.frozen import undo_on_spark as undo

        undo(
            session("local[2]"),
            Lake(store).find(self.table)[0],
            [2],
            on_conflict=OnConflict.KEEP,
            options=write_options(again=again),
        )

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        before = table.state(3)
        assert table.state() in ([self.after] if done else [before, self.after])
        undone = [entry for entry in table.log if entry["operation"] == "revert"]
        assert len(undone) <= 1, "run again, nothing is left to undo"


class Change(Operation):
    """One row changed, one deleted, one inserted, and what that leaves frozen."""

    name = "change"
    spark = True
    table = f"{TAP}.t"
    keys: ClassVar[list[str]] = ["id"]
    before: ClassVar[list[Row]] = [{"id": 1, "name": "x"}, {"id": 2}, {"id": 3}]
    after: ClassVar[list[Row]] = [{"id": 1, "name": "y"}, {"id": 3}, {"id": 4, "name": "z"}]

    def prepare(self, lake: Lake) -> None:
        commit_rows(lake, self.table, WIDE, self.keys, [*self.before])

    def ask(self, change: Any) -> None:
        """Say what is to be changed; once more it changes nothing."""
        change.upsert([{"id": 1, "name": "y"}, {"id": 4, "name": "z"}])
        change.delete([2])

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        from singerlake.ops.change.table_change import TableChange

        options = ChangeOptions(new_version=True, writing=write_options(again=again))
        table = Lake(store).find(self.table)[0]
        with TableChange(table, options, self.choice()) as change:
            self.ask(change)

    def choice(self) -> EngineChoice:
        from singerlake.engine.spark.jvm.session import session

        return EngineChoice.of(spark=session("local[2]"))

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        assert table.state() in ([self.after] if done else [self.before, self.after])
        # Run again it may change nothing, and freezes what is there once more.
        entries = [entry for entry in table.log if entry["operation"] == "change"]
        assert len(entries) in ((1, 2) if done else (0, 1))
        assert [entry["version"] for entry in entries] == table.versions
        assert all(one["rows"] == 3 for one in table.versions)
        assert len({one["fingerprint"] for one in table.versions}) == len(table.versions[:1])


class ChangeKeyless(Change):
    """The same of a table without a key, which is written whole behind an ACTIVATE_VERSION."""

    name = "change, no key"
    keys: ClassVar[list[str]] = []

    def ask(self, change: Any) -> None:
        change.replace([{"name": None, **row} for row in self.after])


class ChangeKey(Change):
    """The same by a new key, under which a replaced row would come back: all rows are rewritten."""

    name = "change, new key"
    before: ClassVar[list[Row]] = [
        {"id": 1, "name": "x"},
        {"id": 2, "name": "b"},
        {"id": 3, "name": "c"},
    ]
    after: ClassVar[list[Row]] = [
        {"id": 3, "name": "c"},
        {"id": 4, "name": "z"},
        {"id": 7, "name": "x"},
    ]

    def prepare(self, lake: Lake) -> None:
        commit_rows(lake, self.table, WIDE, self.keys, [{"id": 1, "name": "w"}, *self.before])

    def ask(self, change: Any) -> None:
        change.set_key("name")
        change.upsert([{"id": 7, "name": "x"}, {"id": 4, "name": "z"}])
        change.delete(["b"])

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        super().check(dump, acknowledged, done=done)
        table = plain.tables(dump)[self.table]
        assert table.state(1) == self.before
        changed = table.state() == self.after
        assert table.overlay().get("key") == (["name"] if changed else None)


class Alter(Operation):
    """A new key, under which a replaced row would come back: all rows are written again."""

    name = "alter"
    spark = True
    table = f"{TAP}.t"
    state: ClassVar[list[Row]] = [{"id": 1, "name": "y"}, {"id": 2, "name": "b"}]

    def prepare(self, lake: Lake) -> None:
        commit_rows(lake, self.table, WIDE, ["id"], [{"id": 1, "name": "x"}, *self.state])

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        from singerlake.ops.alter.alter import alter

        def by_name(snapshot: TableState) -> Overlay:
            return with_key(snapshot, ["name"])

        options = AlterOptions(writing=write_options(again=again))
        alter(Lake(store).find(self.table)[0], by_name, options, self.choice())

    def choice(self) -> EngineChoice:
        from singerlake.engine.spark.jvm.session import session

        return EngineChoice.of(spark=session("local[2]"))

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        assert table.state() == table.state(1) == self.state, "whether altered or not"
        assert table.overlay().get("key") in ([["name"]] if done else [None, ["name"]])
        assert sum("overlay" in entry for entry in table.log) <= 1


class CreateTable(Operation):
    """A table of a query's rows."""

    name = "create-table"
    spark = True

    def prepare(self, lake: Lake) -> None:
        commit_rows(lake, f"{TAP}.t", WIDE, ["id"], [{"id": 1, "name": "x"}, {"id": 2}])

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        from singerlake.engine.spark.jvm.session import session
        from tests.frozen import create_on_spark as create

        sql = "select id, name from tap_test.t where id < 2"
        options = ChangeOptions(writing=write_options(again=again))
        try:
            create(session("local[2]"), Lake(store), "made.new", sql, keys=("id",), options=options)
        except UsageError as error:
            # The first run made it, without knowing.
            if not again or "already" not in str(error):
                raise

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        found = plain.tables(dump)
        assert len(found[f"{TAP}.t"].state()) == 2
        rows = found["made.new"].state() if "made.new" in found else None
        wanted = [{"id": 1, "name": "x"}]
        assert rows == wanted if done else rows in (None, wanted)


class Rebuild(Operation):
    """A log whose entries are lost, from the manifest; then all that is derived."""

    name = "rebuild"
    loses_log = True
    table = TableName(TAP, "t")

    def prepare(self, lake: Lake) -> None:
        for number in (1, 2, 3):
            commit_rows(lake, str(self.table), ID, ["id"], [{"id": number}])
        for number in (1, 2, 3):
            lake.store.delete(self.table.transaction(number))

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        rebuild_table(store, self.table)

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        entries = {k: v for k, v in dump.items() if "/transactions/" in k}
        rows = plain.tables(dump)[str(self.table)].state() if entries else []
        assert rows == [{"id": n} for n in range(1, len(entries) + 1)]
        if done:
            assert len(entries) == 3


class Vacuum(Operation):
    """Drops history before the head, but for a frozen version; combines; deletes."""

    name = "vacuum"
    spark = True
    table = f"{TAP}.t"
    head: ClassVar[list[Row]] = [{"id": 1, "name": "c"}, {"id": 2, "name": "d"}, {"id": 4}]
    frozen: ClassVar[list[Row]] = [{"id": 1, "name": "b"}, {"id": 2}, {"id": 3}]

    def prepare(self, lake: Lake) -> None:
        commit_rows(lake, self.table, WIDE, ["id"], [{"id": 1}, {"id": 2}, {"id": 3}])
        commit_rows(lake, self.table, WIDE, ["id"], [{"id": 1, "name": "b"}])
        self._freeze(lake)
        gone = {"id": 3, "_sdc_deleted_at": "2026-01-02T03:04:05Z"}
        commit_rows(lake, self.table, WIDE, ["id"], [{"id": 1, "name": "x"}, gone])
        commit_rows(lake, self.table, WIDE, ["id"], [{"id": 2, "name": "d"}, {"id": 4}])
        commit_rows(lake, self.table, WIDE, ["id"], [{"id": 1, "name": "c"}])
        # What a writer left that died before its commit.
        file = lake.find(self.table)[0].snapshot().blocks[0].file
        data = lake.store.get(f"raw/{TAP}/t/{file}").data
        left = f"{file.removesuffix('.singer.gz')[:-16]}0123456789abcdef.singer.gz"
        lake.store.put_if_absent(f"raw/{TAP}/t/{left}", data)

    def _freeze(self, lake: Lake) -> None:
        from singerlake.engine.spark.jvm.session import session
        from tests.frozen import freeze_on_spark as freeze

        freeze(session("local[2]"), lake.find(self.table)[0])

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        from singerlake.engine.spark.jvm.session import session
        from singerlake.ops.vacuum.plan import PARTS
        from tests.frozen import vacuum_on_spark

        options = vacuum_options(PARTS, again=again)
        vacuum_on_spark(session("local[2]"), Lake(store).find(self.table)[0], options)

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        [version] = table.versions
        assert table.state() == self.head
        assert table.state(version["transaction"]) == self.frozen
        lines = sum(message["type"] == "RECORD" for message in table.messages())
        # Of nine rows, the first row 1 and the changed one that no version holds go.
        assert lines == 7 if done else lines in (7, 9)


class Drop(Operation):
    """A table with two files and no version."""

    name = "drop"
    table = f"{TAP}.t"
    rows: ClassVar[list[Row]] = [{"id": 1}, {"id": 2}]

    def prepare(self, lake: Lake) -> None:
        for row in self.rows:
            commit_rows(lake, self.table, ID, ["id"], [row])

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        try:
            drop_table(store, Lake(store).find(self.table)[0].snapshot(), AlterOptions())
        except DroppedError:
            if not again:  # the first run dropped it, without knowing
                raise

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        dropped = plain.is_dropped(table.log)
        assert dropped or not done
        assert table.state() == ([] if dropped else self.rows)


class Undrop(Drop):
    """The same, brought back."""

    name = "undrop"

    def prepare(self, lake: Lake) -> None:
        super().prepare(lake)
        Drop().run(lake.store, Path())

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        table = Lake(store).find(self.table)[0]
        try:
            undrop_table(store, table.snapshot(dropped=True), AlterOptions())
        except UsageError:
            if not again:
                raise

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        dropped = plain.is_dropped(table.log)
        assert not (dropped and done)
        assert len(plain.blocks_now(table.log)) == 2, "it cannot be restored"
        assert table.state() == ([] if dropped else self.rows)


class DeleteVersion(Drop):
    """One of two versions of a table; both were of rows that a later transaction replaced."""

    name = "delete a version"

    def prepare(self, lake: Lake) -> None:
        super().prepare(lake)
        for number in (1, 2):
            head = lake.find(self.table)[0].snapshot()
            wanted = freezing.plan(head, at=number)
            freezing.commit_version(lake.store, head, wanted, rows=number, fingerprint="0" * 32)

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        try:
            delete_version(store, Lake(store).find(self.table)[0].snapshot(), "1", "wrong")
        except NotFoundError as error:
            # The first run deleted it, without knowing.
            if not again or "was deleted" not in str(error):
                raise

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        assert [v["number"] for v in table.versions] in ([[2]] if done else [[1, 2], [2]])
        assert (table.state(1), table.state()) == (self.rows[:1], self.rows)
        assert sum("deletion" in entry for entry in table.log) <= 1


class Point(DeleteVersion):
    """A pointer from one version to another."""

    name = "point"

    def prepare(self, lake: Lake) -> None:
        super().prepare(lake)
        point(lake.store, lake.find(self.table)[0].snapshot(), "current", "1")

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        point(store, Lake(store).find(self.table)[0].snapshot(), "current", "2")

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        moves = [entry["pointer"]["version"] for entry in table.log if "pointer" in entry]
        assert moves in ([[1, 2]] if done else [[1], [1, 2]])
        assert [version["number"] for version in table.versions] == [1, 2]


class Sign(Drop):
    """A signature of a version, which the independent reader verifies."""

    name = "sign"

    def prepare(self, lake: Lake) -> None:
        super().prepare(lake)
        head = lake.find(self.table)[0].snapshot()
        wanted, proof = freezing.plan(head), f"lt1:{'0' * 64}"
        freezing.commit_version(
            lake.store, head, wanted, rows=2, fingerprint=proof, record_fingerprint=proof
        )

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        sign(store, Lake(store).find(self.table)[0].snapshot(), "1", ADA)

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        signed = [entry["signature"]["version"] for entry in table.log if "signature" in entry]
        assert signed in ([[1]] if done else [[], [1]])
        assert [version["number"] for version in table.versions] == [1]


class FreezeLake(Operation):
    """Two tables as a lake version; each has the version that it needs, so no Spark comes in."""

    name = "freeze many"
    label = "2026-q3"

    def prepare(self, lake: Lake) -> None:
        for table in (f"{TAP}.a", f"{TAP}.b"):
            head = commit_rows(lake, table, ID, ["id"], [{"id": 1}])
            wanted, proof = freezing.plan(head), f"lt1:{'0' * 64}"
            freezing.commit_version(lake.store, head, wanted, rows=1, fingerprint=proof)
        wanted_before = freeze_lake.plan(lake.store, lake.tables)
        freeze_lake.commit_lake_version(lake.store, wanted_before, {})

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        try:
            wanted = freeze_lake.plan(store, Lake(store).tables, label=self.label)
        except UsageError as error:
            # The first run made it, without knowing.
            if not again or "has the label" not in str(error):
                raise
            return
        freeze_lake.commit_lake_version(store, wanted, {})

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        versions = plain.lake_versions(dump)
        labels = [version.get("label") for version in versions]
        assert labels in ([[None, self.label]] if done else [[None], [None, self.label]])
        for version in versions:
            said = [(t["stream"], t["version"], t["transaction"]) for t in version["tables"]]
            assert said == [("a", 1, 1), ("b", 1, 1)]


class VacuumDropped(Undrop):
    """A vacuum that deletes it for good. Until the log says so, all of it is there."""

    name = "vacuum, dropped"

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        from singerlake.ops.vacuum.plan import DELETE
        from tests.frozen import vacuum_here

        options = vacuum_options((DELETE,), again=again)
        vacuum_here(Lake(store).find(self.table)[0], options)

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        assert plain.is_dropped(table.log)
        blocks = plain.blocks_now(table.log)
        assert len(blocks) in ((0,) if done else (0, 2))
        files = {key for key in dump if key.endswith(".singer.gz")}
        assert len(files) == 0 if done else len(files) == 2 or not blocks


def vacuum_options(parts: tuple[str, ...], *, again: bool = False) -> VacuumOptions:
    """A vacuum that retains nothing, and waits for nobody for long."""
    return VacuumOptions(
        retain_seconds=0,
        guard=False,
        parts=parts,
        lease_wait_seconds=0.1 if not again else 20,
        lock_wait_seconds=0.1 if not again else 20,
        stale_seconds=STALE_SECONDS if again else 600,
    )


def read_states(acknowledged: Path) -> list[Any]:
    """The STATEs that came out, whole lines only."""
    if not acknowledged.exists():
        return []
    return [json.loads(line) for line in acknowledged.read_bytes().split(b"\n")[:-1]]


def snapshot_of(lake: Lake, name: TableName) -> int:
    """The head that the project's own readers see; 0 where they see no table."""
    try:
        snapshot = lake.table(name).snapshot(dropped=True)
    except NotFoundError:
        return 0
    assert snapshot.from_log, f"{name} is read from files that nobody has committed"
    return snapshot.number


OPERATIONS: tuple[Callable[[], Operation], ...] = (
    Target,
    Freeze,
    Revert,
    RevertKeyless,
    Undo,
    Change,
    ChangeKeyless,
    ChangeKey,
    Alter,
    CreateTable,
    Vacuum,
    Rebuild,
    Drop,
    Undrop,
    VacuumDropped,
    DeleteVersion,
    Point,
    Sign,
    FreezeLake,
)
