"""Reads every object of a lake, and says where what is sought still stands."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event

from singerlake import quantities
from singerlake.errors import DataError, InvalidNameError, SingerlakeError, StoreError
from singerlake.format import erased_keys, file_paths, names
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log import log, notices
from singerlake.log.table_state import TableState
from singerlake.ops.erase import derived
from singerlake.ops.erase.dead_letters import DeadLetters
from singerlake.ops.erase.old_proofs import SOUGHT, WORDS, OldProofs
from singerlake.ops.erase.reading import CopySource
from singerlake.ops.erase.scan import Hits, Scanner
from singerlake.ops.erase.sought import Key, Sought
from singerlake.storage.base import READERS, KeyMissingError, Store, StoredCopy

PUBLISHED = "published"
"""What a finding in a published place is, in a word."""
TEXT_ALONE = frozenset({"csv", "tsv", "avro"})
"""Formats of published rows that do not say the names of columns beside the values."""
WAITING = 4 * READERS
"""Objects that are waited for at a time: a lake of a million names fills no memory."""


@dataclass(frozen=True)
class Finding:
    """One sought thing in one object.

    Attributes:
        sought: What it is called; the thing itself is not repeated.
        key: The object's key in the lake.
        version: Which one of that key, where the store keeps earlier ones; empty for the present.
        kind: What the object is, in a word.
        words: What it is, in words.
        table: Whose it is; None where it is of no table.
        count: In how many of its lines, or values of its columns.
        first: Where it was seen first.
    """

    sought: str
    key: str
    version: str
    kind: str
    words: str
    table: TableName | None
    count: int
    first: str


@dataclass(frozen=True)
class PublishedPlace:
    """A place outside the lake where something is published of it.

    Attributes:
        tables: What it is of, as ``tap.stream``.
        store: The store of that place; None where it cannot be reached.
    """

    name: str
    tables: Sequence[str]
    to: str
    format: str
    store: Store | None = None
    why: str = ""


@dataclass(frozen=True)
class NotRead:
    """An object, or what a store keeps besides, that could not be looked through, and why."""

    key: str
    version: str
    why: str


@dataclass
class Report:
    """The findings of a check.

    Attributes:
        found: Where what is sought still stands.
        not_read: What could not be looked through.
        packed: Objects whose text is packed or drawn, by what they are: only their bytes were
            searched.
        alike: Tables in which other rows have the same values under the key's names: maybe of
            the same person, maybe not.
        notes: What else there may be, outside the lake.
        objects: How many objects were read.
        bytes: Their bytes.
    """

    found: list[Finding] = field(default_factory=list)
    not_read: list[NotRead] = field(default_factory=list)
    packed: Counter[str] = field(default_factory=Counter)
    alike: Counter[TableName] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    objects: int = 0
    bytes: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether all was read, and nothing found."""
        return not self.found and not self.not_read


def check(
    lake: Lake,
    sought: Sequence[Sought],
    table: TableName | None = None,
    progress: Callable[[Report], None] = lambda _: None,
    published: Sequence[PublishedPlace] = (),
) -> Report:
    """Look through all that a lake's store holds below the lake's prefix.

    What is written meanwhile may be missed.

    Args:
        table: Whose keys are among it; None where there is none.
        progress: Told after each object.
        published: Places that are looked through as well.

    Raises:
        StoreError: The store does not list what it has.
    """
    return _Check(lake, sought, table, published).run(progress)


class _Check:
    """One check under way."""

    def __init__(
        self,
        lake: Lake,
        sought: Sequence[Sought],
        table: TableName | None,
        published: Sequence[PublishedPlace],
    ) -> None:
        self._lake = lake
        self._published = published
        self._table = table
        self._places = Places(lake)
        self._report = Report()
        texts = [one for one in sought if not isinstance(one, Key)]
        self._texts = Scanner(texts, only_own=True) if texts else None
        self._has_keys = len(texts) < len(sought)
        self._own = Scanner(sought, only_own=True)
        self._others = Scanner(sought, only_own=False)
        head = log.read_snapshot(lake.store, table) if table is not None else None
        self._letters = DeadLetters(lake, table) if table is not None else None
        self._proofs = OldProofs(lake.store, head) if head is not None else None
        self._of_others: list[Finding] = []
        self._with_notices: set[TableName] = set()
        self._stopped = Event()

    def run(self, progress: Callable[[Report], None]) -> Report:
        """Look through all."""
        with ThreadPoolExecutor(READERS, "look") as pool:
            try:
                for copy, outcome in self._outcomes(pool):
                    if (hits := self._count(copy, outcome)) is not None:
                        self._take(copy, hits)
                    progress(self._report)
                for place in self._published:
                    self._look_through(place, pool, progress)
            except BaseException:
                self._stopped.set()  # an object of gigabytes would be read to its end
                pool.shutdown(cancel_futures=True)
                raise
        self._sort_out()
        if self._lake.store.not_listed:
            self._report.notes.append(self._lake.store.not_listed)
        for table in sorted(self._with_notices):
            self._report.notes += self._of_notices(table)
        return self._report

    def _look_through(
        self, place: PublishedPlace, pool: ThreadPoolExecutor, progress: Callable[[Report], None]
    ) -> None:
        """Look through what is published, which has rows of the key if it is of the table."""
        report, store = self._report, place.store
        if store is None:
            why = f"{place.name} is published at {place.to}, which is not searched: {place.why}"
            report.notes.append(why)
            return

        def look(copy: StoredCopy) -> Hits:
            return self._others.look(CopySource(store, copy, self._stopped))

        words = f"published as {place.name}"
        alike = not self._is_made_of_it(place)
        if place.format in TEXT_ALONE and not alike and self._has_keys:
            report.notes.append(f"{words}, rows are {place.format}: search for them with --text")
        for copy, outcome in self._outcomes(pool, store, look):
            shown = copy._replace(key=f"{store.uri}/{copy.key}")
            if (hits := self._count(shown, outcome)) is not None:
                for one, count in hits.counts.items():
                    first = (count, hits.first[one])
                    found = Finding(
                        one.label, shown.key, copy.version, PUBLISHED, words, None, *first
                    )
                    if not (alike and isinstance(one, Key)):
                        report.found.append(found)
            progress(report)

    def _is_made_of_it(self, place: PublishedPlace) -> bool:
        """Tell whether what is published is of the table, or of one that was computed from it."""
        return bool(self._made_of_it(TableName(*one.split(".", 1)) for one in place.tables))

    def _made_of_it(self, tables: Iterable[TableName]) -> set[TableName]:
        """Return the tables that are of the table, or of its rejected records, or made of these."""
        if self._table is None or self._letters is None:
            return set()
        return derived.made_from(self._lake, {self._table, *self._letters.all}, tables)

    def _outcomes(
        self,
        pool: ThreadPoolExecutor,
        store: Store | None = None,
        look: Callable[[StoredCopy], Hits] | None = None,
    ) -> Iterator[tuple[StoredCopy, Future[Hits]]]:
        waiting: deque[tuple[StoredCopy, Future[Hits]]] = deque()
        for copy in (store or self._lake.store).copies():
            if copy.unreadable:
                unread = NotRead(copy.key, copy.version, copy.unreadable)
                self._report.not_read.append(unread)
                continue
            if len(waiting) == WAITING:
                yield waiting.popleft()
            waiting.append((copy, pool.submit(look or self._look, copy)))
        yield from waiting

    def _count(self, copy: StoredCopy, outcome: Future[Hits]) -> Hits | None:
        """Count an object, and say what was found in it; None where it could not be read."""
        self._report.objects += 1
        self._report.bytes += copy.size
        place = self._places.of(copy.key)
        if place.kind == NOTICE and place.table is not None:
            self._with_notices.add(place.table)
        try:
            hits = outcome.result()
        except KeyMissingError:  # deleted since it was listed
            return None
        except (DataError, StoreError) as error:
            self._report.not_read.append(NotRead(copy.key, copy.version, str(error)))
            return None
        if hits.opaque:
            self._report.packed[hits.opaque] += 1
        return hits

    def _look(self, copy: StoredCopy) -> Hits:
        place = self._places.of(copy.key)
        scanner = self._scanner(place)
        self._look_for_proofs(copy, place)
        source = CopySource(self._lake.store, copy, self._stopped)
        return scanner.look(source) if scanner else Hits()

    def _look_for_proofs(self, copy: StoredCopy, place: Place) -> None:
        """Note an object that has fingerprints from before rows of the table were erased."""
        if self._proofs is not None and self._proofs.are_in(copy):
            words = self._places.described(copy.key).words
            where = (SOUGHT, copy.key, copy.version, place.kind, words, self._table)
            self._report.found.append(Finding(*where, count=1, first=WORDS))

    def _scanner(self, place: Place) -> Scanner | None:
        if not place.rows:
            return self._texts
        rejected = place.table is not None and self._is_dead_letter(place.table)
        return self._own if self._is_own(place.table) and not rejected else self._others

    def _is_own(self, table: TableName | None) -> bool:
        """Tell whether a row of the key, in an object of that table, is one of the rows sought."""
        own = self._table
        return table is None or own is None or table == own or self._is_dead_letter(table)

    def _is_dead_letter(self, table: TableName) -> bool:
        """Tell whether a table has rejected records, in which any record of the key counts.

        What stream these name is what the tap calls it, or nothing.
        """
        return self._letters is not None and self._letters.has(table)

    def _take(self, copy: StoredCopy, hits: Hits) -> None:
        for one, count in hits.counts.items():
            place = self._places.described(copy.key)
            finding = Finding(
                one.label,
                copy.key,
                copy.version,
                place.kind,
                place.words,
                place.table,
                count,
                hits.first[one],
            )
            unsure = isinstance(one, Key) and not self._is_own(place.table)
            (self._of_others if unsure else self._report.found).append(finding)

    def _sort_out(self) -> None:
        """Rows of the key in tables that were computed from the table are its rows, too."""
        tables = {one.table for one in self._of_others if one.table is not None}
        made = self._made_of_it(tables)
        for one in self._of_others:
            if one.table in made:
                self._report.found.append(one)
            elif one.table is not None:
                self._report.alike[one.table] += 1
        self._report.found.sort(key=lambda one: (one.key, one.version, one.sought))

    def _of_notices(self, table: TableName) -> list[str]:
        """Say how long keys of erased rows are kept, so that readers are told of them."""
        try:
            head = self._lake.table(table).snapshot(dropped=True)
            stand = notices.standing(self._lake.store, head)
        except SingerlakeError as error:
            return [f"how long {table} keeps keys of erased rows cannot be determined: {error}"]
        return [
            f"{table} keeps the keys of {quantities.count(one.rows, 'erased row')} (transaction "
            f"{one.transaction}) until {one.until[:19]}Z, for downstream deletion notices; then a "
            "vacuum deletes them"
            for one in stand
        ]


# What an object of a lake is, by its key and by its table's log.

_OF_A_TABLE = 4
"""Parts of the key of what lies in a table's folder, at least."""


@dataclass(frozen=True)
class Place:
    """The identity of an object.

    Attributes:
        kind: In a word, for programs.
        table: Whose it is; None where it is of no table.
        rows: Whether it may hold rows; else a key is not looked for in it.
    """

    kind: str
    words: str
    table: TableName | None = None
    rows: bool = True


NOTICE = "notice"
STAGED = Place("staged", "staged by a writer, not published: a vacuum removes it")
OTHER = Place("other", "not an object of a lake: another program wrote it")
_LAKE = {
    names.LAKE: Place("lake", "the lake's own file: singerlake annotate", rows=False),
    names.LAKE_LOCK: Place("lock", "a lock", rows=False),
    names.NOT_COPIED: Place("lake", "the list of what a copy lacks of lake versions", rows=False),
}


class Places:
    """Tells what objects are; each table's log is read once, and only if something is found."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._mutex = threading.Lock()
        self._data: dict[TableName, dict[str, str]] = {}

    def of(self, key: str) -> Place:
        """Tell what an object is, by its key alone."""
        if key in _LAKE:
            return _LAKE[key]
        if key.startswith(names.STAGING):
            return STAGED
        parts = key.split("/")
        if key.startswith("index/") and len(parts) >= _OF_A_TABLE:
            return _of_index(parts)
        if key.startswith(names.LAKE_LOG):
            number = names.transaction_number(key)
            return Place("lake", f"lake version {number}, in the lake's own log", rows=False)
        if key.startswith(names.BOOKMARKS):
            return _of_bookmark(key)
        if not key.startswith(names.RAW):
            return OTHER
        if parts[-1].endswith(".damaged"):
            return Place("lake", "an old copy of a lake's file: delete it", rows=False)
        if parts[-1] == "catalogue.json":
            return Place("catalogue", "a tap's catalog, recreated by the next sync", rows=False)
        if len(parts) < _OF_A_TABLE or (table := _table(parts)) is None:
            return OTHER
        return _of_table(table, key)

    def described(self, key: str) -> Place:
        """Tell what an object is; of a data file also what its table's log says of it."""
        place = self.of(key)
        if place.kind != "data" or place.table is None:
            return place
        path = key[len(place.table.folder) :]
        words = self._files(place.table).get(path)
        if words is None:
            words = "a data file that no transaction lists: a vacuum deletes it"
        return Place(place.kind, words, place.table)

    def _files(self, table: TableName) -> dict[str, str]:
        with self._mutex:
            if table not in self._data:
                try:
                    snapshot = self._lake.table(table).snapshot(dropped=True)
                except SingerlakeError:
                    self._data[table] = {}
                else:
                    self._data[table] = _files_of(snapshot)
            return self._data[table]


def _files_of(snapshot: TableState) -> dict[str, str]:
    """Return what a log records of data files, by their paths."""
    dropped = "a data file that transaction {} replaced: a vacuum deletes it"
    words = {path: dropped.format(file.transaction) for path, file in snapshot.dropped.items()}
    for block in snapshot.blocks:
        words[block.file] = "data of the table"
    return words


def _table(parts: list[str]) -> TableName | None:
    try:
        return TableName(names.decode(parts[1]), names.decode(parts[2]))
    except InvalidNameError:
        return None


def _of_index(parts: list[str]) -> Place:
    table = _table(parts)
    if parts[-1] == names.INDEX_MARKER:
        return Place("index", "the description of a materialized snapshot", table, rows=False)
    return Place("index", "a materialized snapshot, which can be deleted at any time", table)


def _of_bookmark(key: str) -> Place:
    state_id = names.bookmark_id(key)
    if state_id is not None:
        words = f"the bookmark {state_id}, which the pipeline's next run replaces"
        return Place("bookmark", words, rows=False)
    return OTHER if names.lock_target(key) is None else Place("lock", "a lock", rows=False)


def _of_table(table: TableName, key: str) -> Place:
    path = key[len(table.folder) :]
    if key == table.manifest:
        return Place("manifest", "the manifest, derived from the log", table, rows=False)
    if key == table.head_file:
        words = "a writer's part of the manifest, recreated by the next"
        return Place("manifest", words, table, rows=False)
    if key.startswith(table.log):
        number = names.transaction_number(key)
        entry = "a file next to the log's entries" if number is None else f"log entry {number}"
        return Place("log", entry, table, rows=False)
    if names.lock_target(key) is not None:
        return Place("lock", "a lock, or a reader's lease", table, rows=False)
    if file_paths.is_list(path):
        return Place("list", "a list of files that rows reference", table, rows=False)
    if erased_keys.is_notice(path):
        return Place(NOTICE, "keys of erased rows, kept for downstream deletion notices", table)
    if erased_keys.is_blocked(path):
        return Place("blocked", "keyed hashes of blocked keys", table, rows=False)
    if path.startswith("files/"):
        return Place("file", "a file that rows reference, or once referenced", table)
    if names.is_data_path(path):
        return Place("data", "a data file", table)
    return Place("other", "in the table's folder, but not one of its files", table)
