"""The files that a run's records name, stored before their records are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from singerlake.format.content import Place
from singerlake.format.log import SchemaEntry
from singerlake.format.names import TableName
from singerlake.log.writer import TableWriter
from singerlake.storage.base import Store
from singerlake.storage.options import StoreOptions
from target_singerlake.errors import InvalidSchemaError

if TYPE_CHECKING:
    from singerlake.files.sources import Sources
    from singerlake.files.storing import FileStorer

FAIL, NULL, KEEP = MISSING = ("fail", "null", "keep")
"""What becomes of a record whose file is not there."""
HTTP_BYTES = 1 << 30
HERE = (".",)
"""The folder that the run starts in."""


@dataclass(frozen=True)
class FileOptions:
    """The target's settings of files; these say more.

    Attributes:
        roots: Folders and ``s3://bucket/prefix`` below which files lie.
        http: Whether files are taken from web servers too.
        http_max_bytes: The most that such a file may have.
        missing: What becomes of a record whose file is not there; one of ``MISSING``.
        validate: Whether null in a file's place must be allowed by the schema.
        store: How to reach S3.
    """

    roots: tuple[str, ...] = HERE
    http: bool = False
    http_max_bytes: int = HTTP_BYTES
    missing: str = FAIL
    validate: bool = True
    store: StoreOptions = field(default_factory=StoreOptions)


def refuse_files(why: str) -> NoReturn:
    """Refuse a schema that has files where they would not be stored, and nobody would be told.

    Raises:
        InvalidSchemaError: Always.
    """
    raise InvalidSchemaError(
        f'its files could not be stored: {why}: declare them as {{"type": ["object", "null"], '
        '"format": "singer.file"}, in properties, or in items of arrays'
    )


class StreamFiles:
    """Stores files, table by table.

    Args:
        check: Called now and then, from any thread; may raise to end the run.

    Raises:
        UsageError: A root that somebody set is not there, or cannot be one.
    """

    def __init__(self, store: Store, options: FileOptions, check: Callable[[], None]) -> None:
        self._store = store
        self._options = options
        self._check = check
        # Looked at before anything is read, but not where nobody set any: few streams have files.
        self._sources = None if options.roots == HERE else self._opened()
        self._storers: dict[TableName, FileStorer] = {}

    @property
    def missed(self) -> int:
        """The number of files that were not there."""
        return sum(storer.missed for storer in self._storers.values())

    def take(
        self, table: TableName, writer: TableWriter, place: Place, text: bytes, schema: SchemaEntry
    ) -> bytes:
        """Store the files that RECORD lines name; gives the lines, which say where they are.

        Args:
            table: The lines' table.
            place: Where the lines name files.

        Raises:
            InputError: A file is not there, may not be read, or is not what its record says; or
                the schema does not allow null in its place.
        """
        storer = self._storers.get(table)
        if storer is None:
            storer = self._storers[table] = self._storer(table, writer)
        refusal = partial(_refusal, schema.schema) if self._options.validate else _none
        return storer.take(text, place, refusal, schema.key_properties)

    def close(self) -> None:
        """Stop what is under way."""
        for storer in self._storers.values():
            storer.close()

    def _storer(self, table: TableName, writer: TableWriter) -> FileStorer:
        from singerlake.files.storing import FileStorer

        if self._sources is None:
            self._sources = self._opened()
        missing = self._options.missing
        return FileStorer(self._store, table, writer.begin, self._sources, missing, self._check)

    def _opened(self) -> Sources:
        from singerlake.files.sources import SourceOptions, Sources

        given = self._options
        return Sources(SourceOptions(given.roots, given.http, given.http_max_bytes, given.store))


def _refusal(schema: dict[str, Any], record: bytes) -> str:
    """Say why a schema does not allow a record; empty where it does."""
    from singerlake.rows.validation import full_validation

    value, extreme = full_validation.read(record)
    refusals = full_validation.validator_of(schema).refusals(value, record, extreme=extreme)
    refusal = next(iter(refusals), None)
    if refusal is None:
        return ""
    return f"field {'.'.join(map(str, refusal.path))!r}: {refusal.reason}"


def _none(_record: bytes) -> str:
    return ""
