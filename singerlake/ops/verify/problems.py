"""Results of a verify: what is not as it should be, and what was looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from singerlake.format.metadata import CatalogueEntry
from singerlake.format.names import TableName
from singerlake.rows.blocks.misfits import ColumnMisfits

MAX_PROBLEMS = 1000
"""Problems that are told of one table; the rest is counted."""
BACKUP = "restore it from a backup"


@dataclass(frozen=True)
class Problem:
    """One thing that is not as it should be.

    Attributes:
        what: ``lake``, ``tap``, ``table``, ``log``, ``manifest``, ``file``, ``block``, ``version``,
            ``signer``, ``head``, ``value`` or ``index``.
        where: The key on the store, and the place in it.
        expected: What should be there.
        found: What is.
        hint: What may be done about it.
    """

    what: str
    where: str
    expected: str
    found: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.what}: {self.where}: expected {self.expected}, found {self.found}"
        return f"{text} ({self.hint})" if self.hint else text


@dataclass(frozen=True)
class CheckedSignature:
    """A signature of a version that was checked against the signers.

    Attributes:
        version: The version's number.
        transaction: The transaction that added it.
        key: The fingerprint of the key: ``SHA256:…``.
        signer: Who of the signers made it; None if none did.
        why: Why it is none of theirs.
        rows: The rows that the version had.
        current: Whether rows of the version were not erased since.
        time: When it was made, by the signer's clock.
    """

    version: int
    transaction: int
    key: str
    signer: str | None
    why: str
    rows: int
    current: bool
    time: str

    def __str__(self) -> str:
        who = f"signed by {self.signer}" if self.signer else f"not signed by a signer: {self.why}"
        earlier = "" if self.current else f", before rows were erased ({self.rows:,} rows)"
        return f"version {self.version}: {who} ({self.key}, {self.time[:19]}Z){earlier}"


@dataclass
class Report:
    """The extent and the findings of a verification of a table.

    Attributes:
        table: Which.
        transactions: Entries of its log.
        blocks: Blocks that the log names.
        files: Files that they lie in.
        stored: Files that rows name, and that were hashed again.
        bytes: Compressed bytes of the blocks.
        versions: Frozen versions whose content was computed again.
        problems: What is wrong, at most ``MAX_PROBLEMS``.
        more: How many more problems there are.
        notes: What is worth knowing and no damage.
        misfits: Values of the head that their columns cannot hold; each column is a problem.
        dropped: Whether the table is dropped: what was looked at is what would come back.
        signatures: The signatures of its versions, if they were to be checked.
        listing: What its tap's catalogue is to say of it; None if its log does not tell.
    """

    table: TableName
    transactions: int = 0
    blocks: int = 0
    files: int = 0
    stored: int = 0
    bytes: int = 0
    versions: int = 0
    problems: list[Problem] = field(default_factory=list)
    more: int = 0
    notes: list[str] = field(default_factory=list)
    misfits: list[ColumnMisfits] = field(default_factory=list)
    dropped: bool = False
    signatures: list[CheckedSignature] = field(default_factory=list)
    listing: CatalogueEntry | None = None

    def add(self, problems: Sequence[Problem], more: int = 0) -> None:
        """Tell of problems, as far as there is room."""
        room = max(0, MAX_PROBLEMS - len(self.problems))
        self.problems += problems[:room]
        self.more += len(problems[room:]) + more
