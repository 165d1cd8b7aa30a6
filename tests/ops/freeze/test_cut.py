"""A cut beside a writer is a state that the lake had, whatever moment each head is read at."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from singerlake.errors import ConflictError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.ops import freeze_lake_plan as cut
from singerlake.storage.local.store import LocalStore
from tests.build import commit_rows
from tests.log.broken import BrokenStore

ID = {"id": {"type": "integer"}}
A, B = TableName("tap", "a"), TableName("tap", "b")
WRITES = ((A, 2), (B, 2), (A, 3), (B, 3))
"""What a writer commits that always writes A, then B: table and transaction."""
STATES = [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3)]
"""The heads of A and B that the lake has, one after the other."""
NEVER = 10**9


class BesideAWriter(BrokenStore):
    """A store in which others write at given points of what a reader does.

    Args:
        folder: The lake.
        entries: Its log entries that are to come, in order.
        moments: Before which of the reader's operations each of them comes.
    """

    def __init__(self, folder: Path, entries: dict[Path, bytes], moments: Sequence[int]) -> None:
        super().__init__(LocalStore(folder))
        self._coming = iter(zip(moments, entries.items(), strict=True))
        self._next = next(self._coming, None)
        self.operations = 0

    def _step(self) -> None:
        while self._next is not None and self._next[0] <= self.operations:
            path, data = self._next[1]
            path.write_bytes(data)
            self._next = next(self._coming, None)
        self.operations += 1

    def get(self, key: str):  # type: ignore[no-untyped-def]
        self._step()
        return super().get(key)

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        self._step()
        return super().get_range(key, offset, length)

    def list(self, prefix: str):  # type: ignore[no-untyped-def]
        self._step()
        return super().list(prefix)


@pytest.fixture
def entries(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Path, bytes]]:
    """Two tables of one transaction each; the entries that follow are taken away again."""
    monkeypatch.setattr(cut, "LOOKERS", 1)  # in one order, so that each moment is tried
    for number in (1, 2, 3):
        for name in (A, B):
            commit_rows(lake, str(name), ID, ["id"], [{"id": number}])
    root = Path(lake.store.uri)
    for name in (A, B):
        (root / name.manifest).unlink()  # a checkpoint would hold them
    paths = [root / name.transaction(number) for name, number in WRITES]
    yield {path: path.read_bytes() for path in paths}


def cuts(lake: Lake, entries: dict[Path, bytes], *, looks: int = 2) -> Iterator[tuple[int, int]]:
    """The heads that are read, for each way of the writer's commits to fall between the reads."""
    moments_there_are = (*range(10), NEVER)
    for moments in itertools.combinations_with_replacement(moments_there_are, len(entries)):
        for path in entries:
            path.unlink(missing_ok=True)
        store = BesideAWriter(Path(lake.store.uri), entries, moments)
        if looks == 1:
            heads = cut._look(store, [A, B], {})
        else:
            heads = dict(cut.take_cut(store, lambda: [A, B]).heads)
        yield heads[A].number, heads[B].number


@pytest.mark.usefixtures("many_cases")
def test_a_cut_is_a_state_that_the_lake_had(lake: Lake, entries: dict[Path, bytes]) -> None:
    found = set(cuts(lake, entries))
    assert found == set(STATES)


@pytest.mark.usefixtures("many_cases")
def test_one_look_alone_tears_the_lake(lake: Lake, entries: dict[Path, bytes]) -> None:
    """What the second look is for: without it the test above would find these."""
    assert set(cuts(lake, entries, looks=1)) - set(STATES)


def test_a_table_that_is_made_meanwhile_moves(lake: Lake) -> None:
    commit_rows(lake, "tap.a", ID, ["id"], [{"id": 1}])
    looks = 0

    def tables() -> list[TableName]:
        nonlocal looks
        looks += 1
        listed = lake.tables()
        if looks == 1:  # after it was listed, and before it is looked at again
            commit_rows(lake, "tap.b", ID, ["id"], [{"id": 1}])
        return listed

    assert list(cut.take_cut(lake.store, tables).heads) == [A, B]
    assert looks == 3


def test_a_lake_that_never_stands_still(lake: Lake) -> None:
    commit_rows(lake, "tap.a", ID, ["id"], [{"id": 1}])

    def tables() -> list[TableName]:
        commit_rows(lake, "tap.b", ID, ["id"], [{"id": 1}])
        return [A, B]

    with pytest.raises(ConflictError, match=r"no table changed: the last to change were tap\.b;"):
        cut.take_cut(lake.store, tables, patience_seconds=0.1)
