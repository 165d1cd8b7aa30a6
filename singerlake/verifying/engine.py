"""What reads all of a table's bytes for a verify: Spark's executors, or this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TypeVar

from singerlake.lake import Table
from singerlake.maintenance.problems import Problem
from singerlake.reading.index import Index
from singerlake.records.blocks.misfits import ColumnMisfits
from singerlake.records.state.fingerprint import Content, Proof
from singerlake.transactions.snapshot import Snapshot

T = TypeVar("T")


class TooLargeError(Exception):
    """A table is too large to be verified here."""


class Engine(ABC):
    """Reads what there may be much of."""

    tasks = 1
    """Into about how many parts to share it out."""

    @abstractmethod
    def check_size(self, head: Snapshot, states: Iterable[Snapshot]) -> None:
        """Make sure that this is the engine for a table, before anything large is read.

        Args:
            head: The table, with all blocks that are to be checked.
            states: Those whose content is to be computed.

        Raises:
            TooLargeError: It is not.
        """

    @abstractmethod
    def problems(
        self, tasks: list[list[T]], check: Callable[[T], list[Problem]]
    ) -> tuple[list[Problem], int]:
        """Check things.

        Returns:
            Problems of the first things that have any, and the number of the others.
        """

    @abstractmethod
    def state_content(self, table: Table, at: Snapshot, proofs: tuple[Proof, ...]) -> Content:
        """Count and fingerprint a state from its blocks alone.

        Raises:
            DamagedError: A block cannot be read, or a value does not fit.
        """

    @abstractmethod
    def index_content(self, built: Index, proofs: tuple[Proof, ...]) -> Content:
        """Count and fingerprint what an index holds.

        Raises:
            SingerlakeError: It cannot be read.
        """

    @abstractmethod
    def misfits(self, table: Table, state: Snapshot) -> list[ColumnMisfits]:
        """Find the values of a state that do not fit, from its blocks alone."""

    @abstractmethod
    def differing_rows(self, table: Table, one: Snapshot, other: Snapshot) -> tuple[int, int, int]:
        """Compare which rows two states have, by their places in the blocks.

        Returns:
            How many rows the other has; how many of them the one has not; and how many of the one
            the other has not.
        """
