"""Every path and name in a lake, for every store.

Keys are relative to the lake's root and use ``/``. Nothing outside this module spells one, but for
the paths of files that rows name: see :mod:`file_paths`.
"""

from __future__ import annotations

import functools
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote

from singerlake.errors import InvalidNameError
from singerlake.format import file_paths, times
from singerlake.nearest import bare

LAKE = "raw/singerlake.json"
LAKE_LOCK = "raw/singerlake.lock"
"""Held to change the lake's file or a catalogue, on a store that ignores conditions."""
LAKE_LOG, NOT_COPIED = "versions/", "versions/not-copied.json"
"""The lake's own log, an object for each lake version; and what a copy has left out of them."""
RAW = "raw/"
BOOKMARKS = "bookmarks/"
"""The bookmarks of pipelines, and their locks."""
STAGING = ".staging/"
SUFFIX = ".singer.gz"
MAX_PART = 180
"""Longest encoded name, in bytes: with two times and a suffix a file name stays below 255."""

REJECTED = "__rejected"
"""Ends the name of the stream with the lines that were refused of another; alone, it has those of
which nobody knows whose they are."""
INDEX_MARKER = "_index.json"
INDEX_RULES = 3
"""The rules of types whose indexes have folders without rules in their names."""
_INDEX_FOLDER = re.compile(r"([0-9]{1,18})(?:-rules-([0-9]{1,9}))?")
"""Names the files of a finished index; without it there is none."""

_PLAIN = re.compile(r"[A-Za-z0-9._-]")
# Windows opens these as devices in any folder, with any extension, in any case; the last is
# our own file beside the streams' folders.
_RESERVED = re.compile(
    r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?|catalogue\.json", re.IGNORECASE
)
POINTER_NAME = r"[A-Za-z][A-Za-z0-9_-]{0,99}"
_POINTER = f"@{POINTER_NAME}"
_QUOTED = re.compile(rf"`((?:[^`]|``)+)`(?:\.(@?[0-9]+|{_POINTER})|({_POINTER}))?")
_VERSION = re.compile(rf"@?[0-9]+|{_POINTER}")
_POINTED = re.compile(rf"(?P<stream>.+)(?P<pointer>{_POINTER})")
_LOG_ENTRY = re.compile(r"([0-9]{1,18})\.json")
# Format 1 numbered files of the same times, where it had to; later ones all end at random.
_TIMES = re.compile(r"\d{8}T\d{12}Z-\d{8}T\d{12}Z(?:-\d+|-[0-9a-f]{16})?\.singer\.gz")
_INDEX_PART = re.compile(r"part-[0-9a-f]{32}\.parquet")
_SCHEMA_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{6}")
_DATA_PATH = re.compile(rf"{_SCHEMA_FOLDER.pattern}/[^./\\][^/\\]*{re.escape(SUFFIX)}")


@functools.lru_cache(4096)  # a table's folder is asked for again and again, by many objects
def encode(name: str) -> str:
    """Turn any tap or stream name into one part of a path, reversibly.

    Letters, digits and ``. _ -`` stay; every other byte of the UTF-8 form becomes ``%XX``.
    A dot in first or last place, and the first letter of a reserved name, are encoded too,
    so that no name can be hidden, leave its folder, or open a device.

    Raises:
        InvalidNameError: The name is empty, not Unicode, or longer than 180 bytes encoded.
    """
    try:
        data = name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidNameError(f"the name {name!r} is not Unicode text") from error
    if not data:
        raise InvalidNameError("a tap or stream name is empty")
    parts = [chr(b) if _PLAIN.match(chr(b)) else f"%{b:02X}" for b in data]
    if _RESERVED.fullmatch(name):
        parts[0] = f"%{data[0]:02X}"
    for position in (0, -1):
        if parts[position] == ".":
            parts[position] = "%2E"
    part = "".join(parts)
    if len(part) > MAX_PART:
        raise InvalidNameError(
            f"the name {name[:40]!r}… takes {len(part)} bytes in a path; "
            f"at most {MAX_PART} fit: rename it with a stream map"
        )
    return part


def decode(part: str) -> str:
    """Undo :func:`encode`.

    Raises:
        InvalidNameError: The part is not what :func:`encode` would have written.
    """
    try:
        name = unquote(part, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidNameError(f"the folder name {part!r} is not one of Singerlake's") from error
    if encode(name) != part:
        raise InvalidNameError(f"the folder name {part!r} is not one of Singerlake's")
    return name


@dataclass(frozen=True, order=True)
class TableName:
    """One stream of one tap, and the keys of what belongs to it."""

    tap: str
    stream: str

    def __str__(self) -> str:
        return f"{self.tap}.{self.stream}"

    @functools.cached_property  # asked for once for each block and each file
    def folder(self) -> str:
        """Key prefix of everything in the table, with its slash."""
        return f"{tap_folder(self.tap)}{encode(self.stream)}/"

    @property
    def manifest(self) -> str:
        """Key of the checkpoint."""
        return f"{self.folder}manifest.json"

    @property
    def head_file(self) -> str:
        """Key of what a writer needs of the checkpoint."""
        return f"{self.folder}head.json"

    @property
    def log(self) -> str:
        """Key prefix of the log."""
        return f"{self.folder}transactions/"

    def transaction(self, number: int) -> str:
        """Key of one log entry."""
        return f"{self.log}{number:012d}.json"

    def data(self, file: str) -> str:
        """Key of a data file, from its path within the table (``<hash>/<name>``).

        Raises:
            InvalidNameError: The path leaves the table's folder.
        """
        if not is_data_path(file):
            # Whoever forged it chose its length, too.
            raise InvalidNameError(f"{file[:200]!r} is not the path of a data file of {self}")
        return f"{self.folder}{file}"

    def key(self, path: str) -> str:
        """Key of a data file, of a file that rows name, or of a list of such, from its path.

        Raises:
            InvalidNameError: The path is none of these.
        """
        if file_paths.is_content(path) or file_paths.is_list(path):
            return f"{self.folder}{path}"
        return self.data(path)

    @property
    def content(self) -> str:
        """Key prefix of the files that rows name, and of the lists of them."""
        return f"{self.folder}files/"

    def lock(self, schema: str) -> str:
        """Key of the lock of one schema's folder."""
        return f"{self.folder}{schema}/singerlake.lock"

    @property
    def table_lock(self) -> str:
        """Key of the whole table's lock, for a store that ignores conditions."""
        return f"{self.folder}singerlake.lock"

    @property
    def vacuum_lock(self) -> str:
        """Key of the lock that keeps vacuums of the table apart."""
        return f"{self.folder}vacuum.lock"

    @property
    def leases(self) -> str:
        """Key prefix of the readers' leases."""
        return f"{self.folder}leases/"

    def lease(self, reader_id: str) -> str:
        """Key of one reader's lease."""
        return f"{self.leases}{encode(reader_id)}.json"

    @property
    def indexes(self) -> str:
        """Key prefix of all the table's indexes."""
        return f"index/{encode(self.tap)}/{encode(self.stream)}/"

    def index(self, transaction: int, rules: int = INDEX_RULES) -> str:
        """Key prefix of the index of one transaction, read by some rules of types."""
        return f"{self.indexes}{IndexFolder(transaction, rules)}/"


class IndexFolder(NamedTuple):
    """The folder of an index, among those of its table.

    A version may be read by other rules than its transaction is today: then each has its own.

    Attributes:
        transaction: The number of the transaction.
        rules: Those of types.
    """

    transaction: int
    rules: int = INDEX_RULES

    def __str__(self) -> str:
        plain = self.rules == INDEX_RULES
        return f"{self.transaction}" if plain else f"{self.transaction}-rules-{self.rules}"

    @classmethod
    def parse(cls, name: str) -> IndexFolder | None:
        """Read a folder's name; None where it is none of an index."""
        match = _INDEX_FOLDER.fullmatch(name)
        return None if match is None else cls(int(match[1]), int(match[2] or INDEX_RULES))


@dataclass(frozen=True)
class FileNamer:
    """Names a data file of a table.

    Attributes:
        schema_hash: The folder in which it lies.
        first: ``time_extracted`` of its first record, ISO 8601; where it is none, the present.
        last: The same of its last.
    """

    table: TableName
    schema_hash: str
    first: str
    last: str

    @property
    def stem(self) -> str:
        """The file's name but for its end."""
        first, last = (times.parse(time) or times.now() for time in (self.first, self.last))
        return f"{encode(self.table.stream)}-{times.compact(first)}-{times.compact(last)}"

    def new_path(self) -> str:
        """Give a path within the table that nobody has had, and nobody will have again.

        What is deleted late, or by mistake, can so never be another's file.
        """
        return f"{self.schema_hash}/{self.stem}-{secrets.token_hex(8)}{SUFFIX}"


def tap_folder(tap: str) -> str:
    """Key prefix of a tap's streams, with its slash.

    Raises:
        InvalidNameError: The id has a dot, which ends the tap in ``tap.stream``.
    """
    if "." in tap:
        raise InvalidNameError(f"the tap id {tap!r} has a dot in it; use a dash instead")
    return f"{RAW}{encode(tap)}/"


def lake_version(number: int) -> str:
    """Key of an entry of the lake's log."""
    return f"{LAKE_LOG}{number:012d}.json"


def bookmark(state_id: str) -> str:
    """Key of a pipeline's bookmark.

    Raises:
        InvalidNameError: The id is empty, not Unicode, or longer than 180 bytes encoded.
    """
    return f"{BOOKMARKS}{encode(state_id)}.json"


def bookmark_lock(state_id: str) -> str:
    """Key of the lock of a pipeline's bookmark."""
    return f"{bookmark(state_id).removesuffix('.json')}.lock"


def bookmark_id(key: str) -> str | None:
    """The id of the pipeline in a bookmark's key, or None where it is not one."""
    name = key.removeprefix(BOOKMARKS)
    if name == key or "/" in name or not name.endswith(".json"):
        return None
    try:
        return decode(name.removesuffix(".json"))
    except InvalidNameError:
        return None


def catalogue(tap: str) -> str:
    """Key of a tap's Singer catalog."""
    return f"{tap_folder(tap)}catalogue.json"


def damaged_lake(digest: str) -> str:
    """Key under which a lake's file that could not be read is kept for people to look at."""
    return f"{RAW}singerlake.{digest}.damaged"


def is_schema_folder(name: str) -> bool:
    """Tell whether a folder's name can be a schema hash."""
    return _SCHEMA_FOLDER.fullmatch(name) is not None


def is_data_path(file: str) -> bool:
    """Tell whether a path within a table's folder is one of a data file (``<hash>/<name>``)."""
    return _DATA_PATH.fullmatch(file) is not None


def is_data_file(name: str) -> bool:
    """Tell whether a file's name is one of a data file."""
    return name.endswith(SUFFIX) and not name.startswith(".") and "\\" not in name


def is_own_data_file(table: TableName, name: str) -> bool:
    """Tell whether a file's name is one that a writer of the table would give."""
    rest = name.removeprefix(f"{encode(table.stream)}-")
    return rest != name and _TIMES.fullmatch(rest) is not None


def index_part(unique: str) -> str:
    """A new index file's name, from 32 hexadecimal digits that nobody else has."""
    return f"part-{unique}.parquet"


def is_index_part(name: str) -> bool:
    """Tell whether a name is one of an index's files; what an index may name at all."""
    return _INDEX_PART.fullmatch(name) is not None


def is_lease(table: TableName, key: str) -> bool:
    """Tell whether a key is that of a reader's lease."""
    name = key.removeprefix(table.leases)
    return name != key and "/" not in name and name.endswith(".json")


def transaction_number(key: str) -> int | None:
    """The number in a log entry's key, or None where it is not one."""
    match = _LOG_ENTRY.fullmatch(key.rsplit("/", 1)[-1])
    return int(match[1]) if match else None


def lake_version_number(key: str) -> int | None:
    """The number in the key of an entry of the lake's log, or None where it is not one."""
    number = transaction_number(key)
    return number if number and lake_version(number) == key else None


@dataclass(frozen=True)
class TableRef:
    """A reference to a table: ``tap.stream``, with ``.2``, ``.@17`` or ``@current`` after it.

    Attributes:
        table: The table.
        version: A version's number, ``@`` and a transaction's, or ``@`` and a pointer's name.
    """

    table: TableName
    version: str | None = None

    def __str__(self) -> str:
        if self.version is None:
            return str(self.table)
        joint = "" if is_pointer(self.version) else "."
        return f"{self.table}{joint}{self.version}"


def is_pointer(version: str) -> bool:
    """Tell whether what stands for a version is a pointer's name with its ``@``."""
    return re.fullmatch(_POINTER, version) is not None


def parse_ref(text: str, known: set[TableName] | None = None) -> TableRef:
    """Read a table reference.

    The tap id runs to the first dot. A last part of digits is a version, one of ``@`` and
    digits a transaction, and ``@`` and a word at the end a pointer, unless a stream of just that
    name is known and none without it. In backticks the stream is just what is written, with each
    backtick doubled: ``tap.`x.1```.

    Args:
        known: The lake's tables; None takes a last part of digits as a version.

    Raises:
        InvalidNameError: There is no dot, or a part is empty.
    """
    tap, dot, stream = text.partition(".")
    if not dot or not tap or not stream:
        raise InvalidNameError(f"{text!r} is not a table: write it as tap.stream")
    whole = TableName(tap, stream)
    if (quoted := _QUOTED.fullmatch(stream)) and (known is None or whole not in known):
        stream = quoted[1].replace("``", "`")
        return TableRef(TableName(tap, stream), quoted[2] or quoted[3])
    base, dot, last = stream.rpartition(".")
    if dot and base and _VERSION.fullmatch(last):
        shorter = TableName(tap, base)
        if known is None or shorter in known or whole not in known:
            return TableRef(shorter, last)
    if found := _POINTED.fullmatch(stream):
        shorter = TableName(tap, found["stream"])
        if known is None or shorter in known or whole not in known:
            return TableRef(shorter, found["pointer"])
    return TableRef(whole)


def alike(wanted: TableName, known: Iterable[TableName]) -> list[TableName]:
    """The tables that a name means where a dash may be written as an underscore, in any case.

    Args:
        wanted: As written; a table of just this name is meant alone.
    """
    tables = list(known)
    if wanted in tables:
        return [wanted]
    like = (bare(wanted.tap), bare(wanted.stream))
    return [table for table in tables if (bare(table.tap), bare(table.stream)) == like]


def written(table: TableName, known: set[TableName] | None) -> str:
    """Spell a table as a person does: in backticks where it would be mistaken for a version.

    Args:
        known: The lake's tables; None where it shall hold in any lake.
    """
    if parse_ref(str(table), known) == TableRef(table):
        return str(table)
    return f"{table.tap}.`{table.stream.replace('`', '``')}`"


@dataclass(frozen=True)
class LockTarget:
    """The target that a lock's key names.

    Attributes:
        table: Whose; None for the lake's.
        kind: ``write`` (one schema's folder), ``commit`` (the whole table's log), ``vacuum``,
            ``read`` (a lease), ``lake`` (catalogues and the lake's file), ``bookmark``.
        schema: The schema's hash, of a ``write`` lock.
    """

    table: TableName | None
    kind: str
    schema: str | None = None


def lock_target(key: str) -> LockTarget | None:
    """Parse a key as that of a lock; None if it is not one."""
    if key == LAKE_LOCK:
        return LockTarget(None, "lake")
    if key.startswith(BOOKMARKS):
        return LockTarget(None, "bookmark") if key.endswith(".lock") else None
    parts = key.removeprefix(RAW).split("/")
    try:
        table = TableName(decode(parts[0]), decode(parts[1]))
    except (InvalidNameError, IndexError):
        return None
    if key == table.table_lock:
        return LockTarget(table, "commit")
    if key == table.vacuum_lock:
        return LockTarget(table, "vacuum")
    if key.startswith(table.leases) and key.endswith(".json"):
        return LockTarget(table, "read")
    if is_schema_folder(parts[2]) and key == table.lock(parts[2]):
        return LockTarget(table, "write", parts[2])
    return None
