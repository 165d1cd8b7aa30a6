"""Every error Singerlake raises on purpose, grouped by what the user can do about it.

::

    class                     exit  kind             what it means, or what to do
    SingerlakeError              1  failed           something in the surroundings failed
    ├── UsageError               2  usage            ask differently
    │   ├── InvalidNameError     2  invalid_name     a tap, stream or table name that cannot be used
    │   └── InvalidQueryError    2  invalid_query    SQL that is not a SELECT over the lake's tables
    ├── NotFoundError            3  not_found        name something that is there
    │   └── DroppedError         3  dropped          a table that somebody dropped
    ├── ConflictError            4  conflict         run it again
    │   └── LockTimeoutError     4  lock_timeout     another writer held the lock too long
    ├── RequirementsError        4  requirements     a snapshot does not meet what freeze requires
    ├── DataError                5  data             what is stored, or given, is not as it must be
    │   ├── DamagedError         5  damaged          repair the data, or leave it out
    │   ├── NewerFormatError     5  newer_format     written by a newer Singerlake: upgrade
    │   ├── MisfitsError         5  misfits          values that their columns cannot hold
    │   ├── ViolationsError      5  violations       rows that a key or a type is not for
    │   ├── InputError           5  invalid_input    a message, or a file, that cannot be taken
    │   └── RejectedRowsError    5  rejected_rows    rows of a file, or of a program, with problems
    ├── StoreError               1  store            the disk or the bucket refused
    │   └── OutcomeUnknownError  1  outcome_unknown  a write may or may not have happened
    │       └── NotDurableError  1  not_durable      it happened, and may be gone after a power cut
    └── RuntimeMissingError      1  runtime_missing  install Java, or another runtime

A message says what happened, where, and the next step, and never holds a secret. The wording of
messages may change with any release; a kind never changes and is never used for anything else, so
programs should go by the class, the kind or the exit code. ``--output json`` prints it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from typing_extensions import Self


class SingerlakeError(Exception):
    """The root of the tree. Its text is fit for a person to read as it stands.

    Attributes:
        exit_code: What a command ends with.
        kind: What sort of error it is, as a word for programs; each class of this module has its
            own.
        lines: The whole text line by line, where it has several: a name in one of them may hold
            ends of lines too, and must not begin a line with them.
        problems: What is wrong with rows that somebody gave, as ``rows.batches.problems.Problems``;
            None where nobody gave any, or they are not why.
    """

    exit_code = 1
    kind: ClassVar[str] = "failed"
    lines: tuple[str, ...] = ()
    problems: object = None

    @classmethod
    def of_lines(cls, *lines: str) -> Self:
        """Return one that lists what it is about: the first line says what happened."""
        error = cls("\n".join(lines))
        error.lines = lines
        return error


class UsageError(SingerlakeError):
    """What was asked cannot be done as asked."""

    exit_code = 2
    kind = "usage"


class InvalidNameError(UsageError):
    """A tap, stream or table name that has no place in a lake."""

    kind = "invalid_name"


class InvalidQueryError(UsageError):
    """SQL that does not parse, is not a SELECT, or asks for an unknown column."""

    kind = "invalid_query"


class NotFoundError(SingerlakeError):
    """The lake, table, version or transaction is not there."""

    exit_code = 3
    kind = "not_found"


class DroppedError(NotFoundError):
    """The table was dropped. Its text says whether it can be brought back."""

    kind = "dropped"


class ConflictError(SingerlakeError):
    """Somebody else changed the table meanwhile; nothing was changed."""

    exit_code = 4
    kind = "conflict"


class LockTimeoutError(ConflictError):
    """Another writer held the lock for longer than this one may wait."""

    kind = "lock_timeout"


class RequirementsError(SingerlakeError):
    """A snapshot that does not meet its requirements, so that nothing is frozen. Lists them."""

    exit_code = 4
    kind = "requirements"


class DataError(SingerlakeError):
    """Data, stored or given, that is not as it must be. Its subclasses say how."""

    exit_code = 5
    kind = "data"


class DamagedError(DataError):
    """Data that is cut, altered or not what its place says it is."""

    kind = "damaged"


class InputError(DataError):
    """A Singer message, or a whole file of rows, that cannot be accepted. Names what is wrong."""

    kind = "invalid_input"


class MisfitsError(DataError):
    """Values of a table that their columns cannot hold. Its text is of several lines."""

    kind = "misfits"


class ViolationsError(DataError):
    """Rows of a table that a key or a type is not for. Its text is of several lines."""

    kind = "violations"


class RejectedRowsError(DataError):
    """Rows that somebody gave and that cannot be taken. Its text is of several lines."""

    kind = "rejected_rows"


class NewerFormatError(DataError):
    """The lake was written by a newer Singerlake than this one."""

    kind = "newer_format"


class StoreError(SingerlakeError):
    """The store refused: a full disk, a read-only folder, a missing permission."""

    kind = "store"


class OutcomeUnknownError(StoreError):
    """A write was sent and no answer came: it may have happened."""

    kind = "outcome_unknown"


class NotDurableError(OutcomeUnknownError):
    """What was written can be seen, but the disk failed to make it outlast a power cut.

    Reading it back resolves nothing: what answers is memory, not the disk.
    """

    kind = "not_durable"


class RuntimeMissingError(SingerlakeError):
    """Something that must be installed on the machine is not."""

    kind = "runtime_missing"
