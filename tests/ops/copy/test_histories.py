"""Random histories of a source, copied with faults: the copy is always one of its states."""

from __future__ import annotations

import logging
import random
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from singerlake.errors import ConflictError, DroppedError, NotFoundError, SingerlakeError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log import log, not_copied
from singerlake.log.writer import WriteOptions
from singerlake.ops import freeze_lake_plan as freeze_lake
from singerlake.ops.copy.absences import settle
from singerlake.ops.copy.lake_versions import copy_lake_versions
from singerlake.ops.copy.outcome import CopyOptions
from singerlake.ops.drop import drop_table, undrop_table
from singerlake.ops.verify.lake import check_lake_log
from singerlake.overlay.alter import AlterOptions
from singerlake.storage.base import Store
from singerlake.storage.local.store import LocalStore
from tests.faults.faulty_store import KINDS, FaultyStore
from tests.ops.copy.world import (
    AGAIN,
    NAME,
    ONE_BY_ONE,
    QUICK,
    combine,
    copy,
    copy_lake_version,
    data_files,
    delete,
    log_of,
    opens,
    problems,
    write,
)
from tests.ops.freeze.test_freeze_lake import freeze as freeze_with_proof
from tests.ops.vacuum.plain_table import freeze

FAULTS = [kind for kind in KINDS if not kind.kills]
HASTY = replace(ONE_BY_ONE, writing=WriteOptions(lock_wait_seconds=5, lock_stale_seconds=0.2))
State = list[int] | None


class Story:
    """A source and its copy.

    Args:
        folder: Where they lie.
        seed: Of what happens.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.source = Lake(LocalStore(folder / "source"))
        self.copy = LocalStore(folder / "copy")
        self.states: dict[int, State] = {0: None}
        """What there was at each transaction; None where there was no table."""
        self.rows = 0

    def happen(self) -> None:
        """Let something happen at the source, as far as it can."""
        what = self.chance.choice([self.write, self.write, self.combine, self.vacuum, self.other])
        with suppress(NotFoundError, SingerlakeError):
            what()
        self.note()

    def write(self) -> None:
        self.rows += 1
        write(self.source, self.rows)

    def combine(self) -> None:
        combine(self.source)

    def vacuum(self) -> None:
        delete(self.source)

    def other(self) -> None:
        table = self.source.find(NAME)[0]
        head = table.snapshot(dropped=True)
        kind = self.chance.random()
        if head.dropped_at:
            undrop_table(self.source.store, head, AlterOptions())
        elif kind < 0.5:
            freeze(table, at=head.number)
        else:
            drop_table(self.source.store, head, AlterOptions())

    def note(self) -> None:
        number, state = seen(self.source.store)
        for unseen in range(max(self.states) + 1, number):  # a vacuum's own, which change no row
            self.states[unseen] = state
        self.states[number] = state

    def copy_badly(self) -> None:
        """Copy with a fault somewhere, or none."""
        kind = self.chance.choice(FAULTS)
        store = FaultyStore(self.copy, self.chance.randrange(1, 40), kind)
        with suppress(SingerlakeError, KeyboardInterrupt, NotFoundError):
            copy(self.source.store, store, options=replace(HASTY, sync=self.chance.random() < 0.5))
        store.finish()
        number, state = seen(self.copy)
        assert state == self.states[number], (kind, number)

    def copy_well(self) -> None:
        """Copy, and find the same."""
        copy(self.source.store, self.copy, options=replace(AGAIN, sync=True, verify=True))
        assert seen(self.copy) == seen(self.source.store)
        if max(self.states):
            assert log_of(self.copy) == log_of(self.source.store)
            assert problems(self.copy) == []
            head = self.source.find(NAME)[0].snapshot(dropped=True)
            used = {block.file for block in (*head.blocks, *(head.restorable or ()))}
            left = {key.rpartition("/t/")[2] for key in data_files(self.copy)}
            assert used <= left <= used | head.dropped.keys()


def seen(store: Store) -> tuple[int, State]:
    """The last transaction that a reader sees, and the rows."""
    try:
        lake = Lake.open(store.uri)
        name = lake.find(NAME)[0].name
        snapshot = log.read_snapshot(store, name)
        number = snapshot.number if snapshot is not None else 0
        return number, opens(store)
    except DroppedError:
        return number, None
    except NotFoundError:
        return 0, None


@pytest.mark.parametrize("seed", range(4))
def test_a_copy_is_always_a_state_of_its_source(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    logging.getLogger("singerlake").setLevel(logging.ERROR)
    monkeypatch.setattr("singerlake.log.locks.lock.POLL_SECONDS", 0.01)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as root:
        story = Story(Path(root), seed)
        story.write()
        story.note()
        for _ in range(8):
            for _ in range(story.chance.randrange(1, 5)):
                story.happen()
            for _ in range(story.chance.randrange(4)):
                story.copy_badly()
            if story.chance.random() < 0.3:
                story.copy_well()
        story.copy_well()
    logging.getLogger("singerlake").setLevel(logging.NOTSET)


class LakeVersions:
    """A source with lake versions of some of its tables, and a place to which they are copied.

    Args:
        folder: Where they lie.
        seed: Of what happens.
        vacuums: Whether files are combined as well; a table's log may then have to be made anew.
    """

    def __init__(self, folder: Path, seed: int, *, vacuums: bool) -> None:
        self.chance = random.Random(seed)
        self.source = Lake(LocalStore(folder / "source"))
        self.copy = LocalStore(folder / "copy")
        self.vacuums = vacuums
        self.rows: dict[tuple[TableName, int], list[int]] = {}
        """The rows of each version of a table."""
        self.written = 0

    def happen(self) -> None:
        """Let something happen at the source."""
        tables = self.chance.sample([TableName("tap-test", s) for s in "tuv"], 2)
        for table in tables[: self.chance.choice([1, 1, 2])]:
            self.written += 1
            write(self.source, self.written, table=str(table))
        if self.vacuums and self.chance.random() < 0.3:
            combine(self.source, str(tables[0]))
            delete(self.source, str(tables[0]))
        if self.chance.random() < 0.6:
            self.freeze({*tables[: self.chance.choice([1, 2])]} & {*self.source.tables()})

    def freeze(self, tables: set[TableName]) -> None:
        """Make a lake version of some tables."""
        for name in freeze_lake.plan(self.source.store, lambda: tables).missing:
            version = freeze_with_proof(self.source, name)
            self.rows[name, version.number] = opens(self.source.store, str(name))
        freeze_lake.commit_lake_version(
            self.source.store, freeze_lake.plan(self.source.store, lambda: tables), {}
        )

    def copy_badly(self) -> None:
        """Copy a lake version, a table or all, with a fault somewhere."""
        kind = self.chance.choice(FAULTS)
        store = FaultyStore(self.copy, self.chance.randrange(1, 90), kind)
        with suppress(SingerlakeError, KeyboardInterrupt):
            self.copied(store, HASTY)
        store.finish()
        self.check()

    def copied(self, store: Store, options: CopyOptions) -> None:
        """Copy something, chosen by chance."""
        numbers = [version.number for version in self.source.lake_versions()]
        what = self.chance.random()
        if numbers and what < 0.7:
            copy_lake_version(self.source.store, store, str(self.chance.choice(numbers)), options)
        elif what < 0.85:
            copy(self.source.store, store, str(self.chance.choice(self.source.tables())))
            settle(store)
        else:
            self.copy_all(store, options)

    def copy_all(self, store: Store, options: CopyOptions) -> None:
        versions = self.source.lake_versions()
        copy(self.source.store, store, options=options)
        copy_lake_versions(self.source.store, store, versions, [])

    def check(self) -> None:
        """What is there is a copy, and what is not was left out on purpose."""
        report = check_lake_log(self.copy)
        assert report.problems == []
        assert report.versions == self.source.lake_versions()[: len(report.versions)]
        absent = not_copied.read(self.copy)
        for version in report.versions:
            for table in version.tables:
                if table.name not in absent.get(not_copied.entry_of(version), ()):
                    found = Lake(self.copy).table(table.name).snapshot_at(str(table.version))
                    wanted = self.rows[table.name, table.version]
                    assert (
                        sum(block.rows for block in found.blocks) == len(wanted) == len({*wanted})
                    )
                    if table.version == found.last_version:
                        assert opens(self.copy, str(table.name))[: len(wanted)] == wanted


@pytest.mark.parametrize("seed", range(6))
def test_lake_versions_are_whole_or_said_not_to_be(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    logging.getLogger("singerlake").setLevel(logging.ERROR)
    monkeypatch.setattr("singerlake.log.locks.lock.POLL_SECONDS", 0.01)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as root:
        story = LakeVersions(Path(root), seed, vacuums=seed % 2 == 1)
        for _ in range(8):
            for _ in range(story.chance.randrange(1, 4)):
                story.happen()
            for _ in range(story.chance.randrange(1, 4)):
                story.copy_badly()
        try:
            story.copy_all(story.copy, AGAIN)
        except ConflictError as error:
            assert story.vacuums and "is a copy of versions only" in str(error)
        else:
            assert not_copied.read(story.copy) == {}
            assert Lake(story.copy).lake_versions() == story.source.lake_versions()
        story.check()
    logging.getLogger("singerlake").setLevel(logging.NOTSET)


@pytest.mark.parametrize("seed", range(2))
def test_lake_versions_and_the_whole_lake_are_copied_side_by_side(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("singerlake.log.locks.lock.POLL_SECONDS", 0.01)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as root:
        story = LakeVersions(Path(root), seed, vacuums=False)
        seen: list[object] = []
        for whole in (False, False, True):
            for _ in range(6):
                story.happen()
            store, names = story.source.store, [str(v.number) for v in story.source.lake_versions()]
            with ThreadPoolExecutor() as pool:
                runs: list[Future[object]] = []
                if whole:
                    to = LocalStore(story.copy.root)
                    runs.append(pool.submit(story.copy_all, to, QUICK))
                for name in story.chance.sample(names, 2):
                    to = LocalStore(story.copy.root)
                    runs.append(pool.submit(copy_lake_version, store, to, name))
                while not all(run.done() for run in runs):
                    seen += check_lake_log(story.copy).problems
            for run in runs:
                run.result()
            story.check()
        assert seen == [], "a reader took for a loss what had not come yet"
        story.copy_all(story.copy, QUICK)
        assert not_copied.read(story.copy) == {}
