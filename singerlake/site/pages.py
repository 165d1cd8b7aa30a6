"""The pages of the site as plain data: the templates only lay it out."""

from __future__ import annotations

import msgspec

from singerlake.format.annotations import Annotations, JobRun


class Page(msgspec.Struct, frozen=True, gc=False):
    """The base of what is on a page; made of plain data, so that it can be compared by a hash."""


class ShownAnnotations(Annotations, Page, frozen=True, kw_only=True, omit_defaults=False, gc=False):
    """The annotations shown; owner, freshness and others may be those of what it lies in."""

    @property
    def anything(self) -> bool:
        """Whether anything is said."""
        return self != _NOTHING


_NOTHING = ShownAnnotations()


class Sample(Page, frozen=True):
    """A value of a column.

    Attributes:
        file: The lake's key of the file that it names; empty where it names none.
    """

    text: str
    file: str = ""


class Column(Page, frozen=True, kw_only=True):
    """A column, or a property inside one.

    Attributes:
        path: As JSONPath: ``$.address.city``.
        depth: 0 for a column.
        type: What it is read as.
        said_type: The JSON type in the tap's schema.
        key: Its place in the key, from 1; 0 where it is not in it.
        constraints: What the schema demands, in words.
        description: A person's words, or else the schema's.
        by_schema: Whether the description is the schema's.
        said: What else people say.
        samples: Values, only where they were asked for.
    """

    name: str
    path: str
    depth: int
    type: str
    said_type: str
    key: int = 0
    constraints: list[str] = []
    description: str | None = None
    by_schema: bool = False
    said: ShownAnnotations = ShownAnnotations()
    samples: list[Sample] = []


class SchemaChange(Page, frozen=True, kw_only=True):
    """From one schema to the next, at the transaction that put it into effect."""

    transaction: int
    time: str
    before: str
    after: str
    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []
    keys: str | None = None


class Transaction(Page, frozen=True, kw_only=True):
    """A transaction of the log; ``note`` is what is special about it."""

    number: int
    time: str
    operation: str
    rows: int
    bytes: int
    note: str | None = None


class Signature(Page, frozen=True, kw_only=True):
    """A signature of a version, which the site does not check.

    Attributes:
        key: The fingerprint of the key that is in it.
        by: The user who signed, which the signature does not cover.
        current: Whether it is of what the version is now; if not, rows were erased since.
    """

    key: str
    time: str
    by: str = ""
    current: bool = True


class Version(Page, frozen=True, kw_only=True):
    """A frozen version.

    Attributes:
        pointers: The names of the pointers to it, without the ``@``.
        signatures: The newest, oldest first; ``more_signatures`` is how many there are besides.
    """

    number: int
    transaction: int
    time: str
    rows: int
    fingerprint: str
    record_fingerprint: str = ""
    label: str | None = None
    comment: str | None = None
    by: str = ""
    schema_hash: str = ""
    only_against_accident: bool = False
    pointers: list[str] = []
    signatures: list[Signature] = []
    more_signatures: int = 0


class Pointer(Page, frozen=True, kw_only=True):
    """A pointer of a table, and the version that it names.

    Attributes:
        path: Of the version's page.
        time: When it came there.
    """

    name: str
    version: int
    path: str
    time: str


class Edge(Page, frozen=True, kw_only=True):
    """A table that this one was made of, or that was made of this one.

    Attributes:
        table: As a person writes it.
        path: Of its page; None where the lake has it no more.
        version: The version that was read; None for a head.
        transaction: The transaction that was read.
    """

    table: str
    path: str | None
    version: int | str | None = None
    transaction: int = 0


class Command(Page, frozen=True):
    """A command to copy, and what it is for."""

    about: str
    text: str


class TableSummary(Page, frozen=True, kw_only=True):
    """A table in a list."""

    name: str
    stream: str
    path: str
    records: int = 0
    bytes: int = 0
    versions: int = 0
    columns: int = 0
    last_sync: str | None = None
    stale: bool = False
    said: ShownAnnotations = ShownAnnotations()
    error: str | None = None


class TablePage(Page, frozen=True, kw_only=True):
    """All about a table.

    Attributes:
        columns: With the properties inside them, in the order of the schema.
        transactions: The newest, oldest first; ``transaction_count`` is of all.
        pointers: As many as a page shows; ``more_pointers`` is how many there are besides.
        sources: What it was made of.
        uses: What was made of it.
        more_sources: How many more sources there are than are shown.
        more_uses: The same of uses.
        has_files: Whether its rows may name files.
        error: Why it cannot be read; then there is little else.
    """

    tap: str
    summary: TableSummary
    key: list[str] = []
    columns: list[Column] = []
    column_count: int = 0
    schema_hash: str = ""
    schema_count: int = 0
    changes: list[SchemaChange] = []
    transactions: list[Transaction] = []
    transaction_count: int = 0
    versions: list[Version] = []
    pointers: list[Pointer] = []
    more_pointers: int = 0
    sources: list[Edge] = []
    uses: list[Edge] = []
    more_sources: int = 0
    more_uses: int = 0
    query: str | None = None
    unpacked_bytes: int = 0
    blocks: int = 0
    files: int = 0
    waiting_bytes: int = 0
    first: str | None = None
    last: str | None = None
    floor: int = 0
    run: JobRun | None = None
    commands: list[Command] = []
    has_files: bool = False
    sampled: int = 0
    error: str | None = None


class TapPage(Page, frozen=True, kw_only=True):
    """A tap and its tables."""

    name: str
    path: str
    said: ShownAnnotations = ShownAnnotations()
    run: JobRun | None = None
    tables: list[TableSummary] = []

    @property
    def records(self) -> int:
        """The sum over all its tables."""
        return sum(table.records for table in self.tables)

    @property
    def bytes(self) -> int:
        """The sum over all its tables."""
        return sum(table.bytes for table in self.tables)

    @property
    def last_sync(self) -> str | None:
        """The newest of its tables'."""
        return max((table.last_sync for table in self.tables if table.last_sync), default=None)

    @property
    def stale(self) -> int:
        """The number of its tables that are stale."""
        return sum(table.stale for table in self.tables)


class Recent(Page, frozen=True, kw_only=True):
    """A transaction of some table, for the home page."""

    table: TableSummary
    transaction: Transaction


class HomePage(Page, frozen=True, kw_only=True):
    """The lake."""

    title: str
    uri: str | None
    said: ShownAnnotations
    taps: list[TapPage]
    recent: list[Recent] = []

    @property
    def tables(self) -> list[TableSummary]:
        """The sum over all taps."""
        return [table for tap in self.taps for table in tap.tables]
