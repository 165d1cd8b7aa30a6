"""A table of photos beside a plain model of it, for histories that tests make up."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

import singerlake
from singerlake.lake import Table
from singerlake.ops.change.plan import Mode
from singerlake.ops.delete_version import delete_version
from singerlake.ops.rows_back.undo_plan import OnConflict
from singerlake.ops.vacuum.plan import PARTS, VacuumOptions
from tests.faults import plain
from tests.files.photos import NAME, PHOTOS, lists, named_by_rows, stored, sync, table_of
from tests.frozen import revert_on_spark as revert
from tests.frozen import undo_on_spark as undo
from tests.frozen import vacuum_on_spark
from tests.histories import here
from tests.ops.change.row_sets import change, row_set
from tests.target.harness import record, run, schema

AT_ONCE = VacuumOptions(
    retain_seconds=0, guard=False, lease_wait_seconds=0, lock_wait_seconds=0, parts=PARTS
)


class Histories:
    """A table of photos beside a plain model: what each row's file holds, at each transaction."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark, self._root = spark, root
        self.states: list[dict[int, str]] = [{}]
        self.versions: dict[int, int] = {}
        self.floor = 1

    @property
    def table(self) -> Table:
        return table_of(self._root)

    def sync(self, photos: dict[int, str]) -> None:
        sync(self._root, {id_: f"data:,{text}" for id_, text in photos.items()})
        self.states.append({**self.states[-1], **photos})

    def delete(self, id_: int) -> None:
        """A row goes, by the tap."""
        gone = {"id": id_, "_sdc_deleted_at": "2026-01-02T03:04:05Z"}
        run(self._root, [schema("photos", PHOTOS, ["id"]), record("photos", gone)])
        self.states.append({key: text for key, text in self.states[-1].items() if key != id_})

    def change(self, id_: int, as_in: int) -> None:
        """A person gives a row the file of another, by its path."""
        rows = self._rows(len(self.states) - 1)
        asked = [{"id": id_, "photo": json.dumps({"path": rows[as_in]["path"]})}]
        done = change(
            self._spark,
            self.table,
            lambda present: [row_set(self._spark, present, asked)],
            Mode.UPSERT,
        )
        if done.transaction == len(self.states):  # else the row is already as it was asked for
            self.states.append({**self.states[-1], id_: self.states[-1][as_in]})

    def freeze(self) -> None:
        number = here.freeze(self.table).number
        self.versions[number] = len(self.states) - 1
        self.states.append(self.states[-1])

    def delete_version(self, number: int) -> None:
        delete_version(self.table.store, self.table.snapshot(), str(number), "wrong")
        del self.versions[number]
        self.states.append(self.states[-1])

    def revert(self, to: int) -> None:
        revert(self._spark, self.table, to)
        self._follow(self.states[to])

    def undo(self, number: int) -> None:
        """Rows that later ones touched again stay."""
        undo(self._spark, self.table, [number], on_conflict=OnConflict.KEEP)
        before, at, now = self.states[number - 1], self.states[number], {**self.states[-1]}
        for id_, text in at.items():
            if text != before.get(id_) and now.get(id_) == text:
                del now[id_]
                now |= {id_: before[id_]} if id_ in before else {}
        self.states.append(now)

    def vacuum(self) -> None:
        """Twice, for lists of what the first deleted go with the second; nothing else stays."""
        for _ in range(2):
            vacuum_on_spark(self._spark, self.table, AT_ONCE)
        self.floor = self.table.snapshot().floor
        self._follow(self.states[-1])
        named = plain.tables(plain.dump_folder(self._root))[str(NAME)]
        assert stored(self.table.store) == named.files().keys() == {*named_by_rows(self.table)}
        assert lists(self.table.store) == named.lists()

    def contents(self) -> set[bytes]:
        """What is in the files that are there."""
        return {self.table.store.get(NAME.key(path)).data for path in stored(self.table.store)}

    def check(self) -> None:
        """The content of every file is there that the head, a version or retained history names."""
        dump = plain.dump_folder(self._root)
        found = plain.tables(dump)[str(NAME)]  # each file is held to its hash
        assert len(found.log) == len(self.states) - 1
        promised = {*range(self.floor, len(self.states)), *self.versions.values()}
        for at in promised:
            rows = {row["id"]: row["photo"]["path"] for row in found.state(at)}
            texts = {id_: dump[found.folder + path].decode() for id_, path in rows.items()}
            assert texts == self.states[at], f"at {at}"

    def read(self) -> None:
        """The head and each version, and their files, as programs read them."""
        table = singerlake.open(self._root)[str(NAME)]
        for version, at in [*self.versions.items(), (None, len(self.states) - 1)]:
            state = table.at(version, engine="local")
            rows = state.to_arrow().to_pylist()
            texts = {}
            for row in rows:
                with singerlake.open_file(row["photo"], table) as photo:
                    texts[row["id"]] = photo.read().decode()
            assert texts == self.states[at], f"version {version}"
            assert len(state.files()) == len(rows)

    def _rows(self, at: int) -> dict[int, dict[str, str]]:
        found = plain.tables(plain.dump_folder(self._root))[str(NAME)]
        return {row["id"]: row["photo"] for row in found.state(at)}

    def _follow(self, state: dict[int, str]) -> None:
        """As many transactions as came have the same rows; none, where there was nothing to do."""
        came = self.table.snapshot().number + 1 - len(self.states)
        assert came or state == self.states[-1]
        self.states += [state] * came
