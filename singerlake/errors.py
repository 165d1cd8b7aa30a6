"""Every error Singerlake raises on purpose, grouped by what the user can do about it.

::

    SingerlakeError                  exit 1   something in the surroundings failed
    ├── UsageError                   exit 2   ask differently
    │   ├── InvalidNameError                  a tap, stream or table name that cannot be used
    │   └── InvalidQueryError                 SQL that is not a SELECT over the lake's tables
    ├── NotFoundError                exit 3   name something that is there
    ├── ConflictError                exit 4   run it again
    │   └── LockTimeoutError                  another writer held the lock too long
    ├── DamagedError                 exit 5   repair the data, or leave it out
    │   ├── InputError                        a message on standard input
    │   ├── MisfitsError                      values that their columns cannot hold
    │   └── NewerFormatError                  written by a newer Singerlake: upgrade
    ├── StoreError                   exit 1   the disk or the bucket refused
    │   └── OutcomeUnknownError               a write may or may not have happened
    │       └── NotDurableError               it happened, and may be gone after a power cut
    └── RuntimeMissingError          exit 1   install Java, or another runtime

A message says what happened, where, and the next step, and never holds a secret.
"""

from __future__ import annotations


class SingerlakeError(Exception):
    """The root of the tree. Its text is fit for a person to read as it stands.

    Attributes:
        lines: The whole text line by line, where it has several: a name in one of them may hold
            ends of lines too, and must not begin a line with them.
    """

    exit_code = 1
    lines: tuple[str, ...] = ()


class UsageError(SingerlakeError):
    """What was asked cannot be done as asked."""

    exit_code = 2


class InvalidNameError(UsageError):
    """A tap, stream or table name that has no place in a lake."""


class InvalidQueryError(UsageError):
    """SQL that does not parse, is not a SELECT, or asks for an unknown column."""


class NotFoundError(SingerlakeError):
    """The lake, table, version or transaction is not there."""

    exit_code = 3


class ConflictError(SingerlakeError):
    """Somebody else changed the table meanwhile; nothing was changed."""

    exit_code = 4


class LockTimeoutError(ConflictError):
    """Another writer held the lock for longer than this one may wait."""


class DamagedError(SingerlakeError):
    """Data that is cut, altered or not what its place says it is."""

    exit_code = 5

    @classmethod
    def of_lines(cls, *lines: str) -> DamagedError:
        """One that lists what it is about: the first line says what happened."""
        error = cls("\n".join(lines))
        error.lines = lines
        return error


class InputError(DamagedError):
    """A Singer message that cannot be accepted. Names line, stream and field."""


class MisfitsError(DamagedError):
    """Values of a table that their columns cannot hold. Its text is of several lines."""


class NewerFormatError(DamagedError):
    """The lake was written by a newer Singerlake than this one."""


class StoreError(SingerlakeError):
    """The store refused: a full disk, a read-only folder, a missing permission."""


class OutcomeUnknownError(StoreError):
    """A write was sent and no answer came: it may have happened."""


class NotDurableError(OutcomeUnknownError):
    """What was written can be seen, but the disk failed to make it outlast a power cut.

    Reading it back settles nothing: what answers is memory, not the disk.
    """


class RuntimeMissingError(SingerlakeError):
    """Something that must be installed on the machine is not."""
