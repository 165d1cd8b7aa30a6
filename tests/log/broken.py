"""A store whose writes fail as told, and small things to commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from singerlake.errors import ConflictError, OutcomeUnknownError
from singerlake.format import block as format_block
from singerlake.format.log import Block, SchemaEntry
from singerlake.format.names import TableName
from singerlake.format.schema_hash import schema_hash
from singerlake.log.blocks import read_block
from singerlake.log.log import read_snapshot
from singerlake.log.staging import StagedTable
from singerlake.storage.base import Listed, Staged, Store, StoredObject
from tests.build import EXTRACTED, record_line, schema_line

TABLE = TableName("tap-x", "a")
PROPERTIES = {"id": {"type": "integer"}}
SCHEMA = SchemaEntry({"type": "object", "properties": PROPERTIES}, [])
HASH = schema_hash(SCHEMA.schema, [])


class BrokenStore(Store):
    """Passes everything on, but calls ``before`` and ``after`` around each write.

    Args:
        store: The store that works.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.uri = store.uri
        self.before: Callable[[str, str], None] = lambda _method, _key: None
        self.after: Callable[[str, str], None] = lambda _method, _key: None
        self.writes: list[tuple[str, str]] = []

    def _write(self, method: str, key: str, work: Callable[[], Any]) -> Any:
        self.before(method, key)
        result = work()
        self.writes.append((method, key))
        self.after(method, key)
        return result

    def get(self, key: str) -> StoredObject:
        self.before("get", key)
        return self.store.get(key)

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        return self.store.get_range(key, offset, length)

    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> str:
        work = lambda: self.store.put_if_absent(key, data, durable=durable)  # noqa: E731
        return self._write("put", key, work)  # type: ignore[no-any-return]

    def replace(self, key: str, data: bytes, etag: str | None, *, durable: bool = True) -> str:
        work = lambda: self.store.replace(key, data, etag, durable=durable)  # noqa: E731
        return self._write("replace", key, work)  # type: ignore[no-any-return]

    def delete(self, key: str) -> None:
        self._write("delete", key, lambda: self.store.delete(key))

    def list(self, prefix: str) -> Iterator[Listed]:
        return self.store.list(prefix)

    def folders(self, prefix: str) -> Sequence[str]:
        return self.store.folders(prefix)

    def stage(self) -> Staged:
        return _BrokenStaged(self, self.store.stage())


class _BrokenStaged(Staged):
    def __init__(self, broken: BrokenStore, staged: Staged) -> None:
        self._broken = broken
        self._staged = staged

    @property
    def size(self) -> int:  # type: ignore[override]
        return self._staged.size

    def write(self, data: bytes) -> None:
        self._staged.write(data)

    def reader(self) -> BinaryIO:
        return self._staged.reader()

    def publish(self, key: str) -> None:
        self._broken._write("publish", key, lambda: self._staged.publish(key))

    def discard(self) -> None:
        self._staged.discard()


def raising(part: str, error: Exception, times: int = 10**9) -> Callable[[str, str], None]:
    """A hook that fails for keys with this in them, so many times."""
    left = [times]

    def hook(method: str, key: str) -> None:
        if method != "get" and part in key and left[0]:
            left[0] -= 1
            raise error

    return hook


NO_ANSWER = OutcomeUnknownError("no answer came")


def staged_rows(
    store: Store, *ids: int, rows: int = 10, schema: SchemaEntry = SCHEMA
) -> StagedTable:
    """Rows of these ids, ready to be committed, a block for each ``rows`` of them."""
    staged = StagedTable(store, TABLE)
    name = schema_hash(schema.schema, schema.key_properties)
    staged.set_schema(name, schema)
    for start in range(0, len(ids), rows):
        some = ids[start : start + rows]
        lines = [schema_line("a", schema.schema["properties"], schema.key_properties)]
        lines += [record_line("a", {"id": n}) for n in some]
        text = b"".join(lines)
        block = Block(0, "", 0, 0, len(some), len(text), EXTRACTED, EXTRACTED)
        staged.add(name, format_block.encode(text, len(some), 1), block)
    return staged


def ids_in(store: Store) -> list[int]:
    """The ids of all rows, by the log alone."""
    import json

    snapshot = read_snapshot(store, TABLE)
    if snapshot is None:
        return []
    found: list[int] = []
    for block in snapshot.blocks:
        _, rest = format_block.lines(read_block(store, TABLE, block))
        found.extend(json.loads(line)["record"]["id"] for line in rest.splitlines())
    return found


def until_done(work: Callable[[], object]) -> None:
    """Run again after a conflict, as the message says."""
    while True:
        try:
            work()
            return
        except ConflictError:
            continue
