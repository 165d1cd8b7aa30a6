"""The small interface that every destination has: what is there, new files, one commit."""

from __future__ import annotations

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from singerlake.errors import ConflictError
from singerlake.format import times
from singerlake.publish.projection import Projection, Target
from singerlake.publish.published import Commit, Published
from singerlake.storage.base import Store
from singerlake.storage.unfinished import Leftover

DELETERS = 16
"""Files that are deleted at the same time: on a bucket most of it is waiting."""


def new_folder() -> str:
    """Name a folder for the files of one run, by when it began; no other run has its name."""
    return f"{times.compact(times.now())}-{secrets.token_hex(8)}/"


def published_meanwhile(projection: Projection, store: Store) -> ConflictError:
    """Say that somebody else was faster.

    Args:
        projection: What was to be published; one that is declared nowhere is called by its place.
        store: Where.
    """
    named = "" if projection.name == store.uri else f"{projection.name} "
    return ConflictError(
        f"another process published {named}at {store.uri} in the meantime, and nothing was "
        "changed: run it again"
    )


@dataclass(frozen=True)
class Held:
    """What lay at a destination at one time, whoever named it.

    Attributes:
        keys: Of its files.
        leftovers: What runs that died left of files.
    """

    keys: frozenset[str]
    leftovers: Sequence[Leftover]


def prune(store: Store, name: str) -> None:
    """Remove a folder of a disk, and those in it, where nothing is in them; buckets have none."""
    if (path := store.local_path(name)) is not None:
        for folder, _, _ in os.walk(path, topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()


class Destination(ABC):
    """One place where one projection is published.

    Executors write files through :attr:`store`, under keys that nobody has taken; no reader sees
    one before the commit that names it. A run that dies leaves files that no commit names, for
    :meth:`sweep`.

    Attributes:
        projection: Whose rows it holds.
        target: Where it is.
        store: The store of that place; its root is the target's URI.
    """

    projection: Projection
    target: Target
    store: Store

    @abstractmethod
    def published(self) -> Published | None:
        """Tell what is there; None where the place is empty.

        Raises:
            UsageError: Something else lies there, or another projection's rows.
            DamagedError: What is there cannot be read.
        """

    def file_schema(self, schema: pa.Schema, base: Published | None) -> pa.Schema:  # noqa: ARG002
        """Give the columns under which files are to be written, and check that they can be.

        Asked before the first file is written. Iceberg numbers columns here, as metadata of the
        fields.

        Args:
            schema: The columns of the rows.
            base: What :meth:`published` gave when the run began.

        Raises:
            UsageError: The format has no such type. The message tells what to cast.
        """
        return schema

    @abstractmethod
    def folder(self) -> str:
        """Give the prefix, with a slash at its end, below which a run may put new files.

        Each call begins a run: the prefix, or the names below it, are of this run alone.
        """

    @abstractmethod
    def commit(self, base: Published | None, commit: Commit) -> Published:
        """Publish, as one step; nothing changes for readers before it.

        Args:
            base: What :meth:`published` gave when the run began.
            commit: What is to be seen.

        Raises:
            ConflictError: Somebody else published meanwhile; nothing was changed.
            OutcomeUnknownError: It may have been published. :meth:`published` tells.
        """

    @abstractmethod
    def sweep(self, keep: timedelta) -> int:
        """Delete files that no reader needs: replaced longer ago than that, or of dead runs.

        Files of published versions stay, however old they are.

        Returns:
            How many were deleted.
        """

    @abstractmethod
    def remove(self) -> None:
        """Delete all that was published here, and nothing else."""

    @abstractmethod
    def folders(self) -> Sequence[str]:
        """Give the folders that runs write to, each with a slash at its end."""

    @abstractmethod
    def present_alone(self) -> Collection[str]:
        """Have nothing named any more but what readers see who name no version, as one step.

        Returns:
            The keys of what that needs.

        Raises:
            ConflictError: Somebody else published meanwhile; nothing was changed.
        """

    def held(self) -> Held:
        """List all that runs have put here by now, for :meth:`forget`."""
        keys = (one.key for folder in self.folders() for one in self.store.list(folder))
        return Held(frozenset(keys), [*self.store.leftovers()])

    def forget(self, held: Held) -> int:
        """Delete what was published before, and frozen versions, whoever may still read them.

        For rows that were erased. Runs that put something here before :meth:`held` can commit no
        more once something was published since; what came after it stays.

        Args:
            held: What lay here before the commit that readers see now.

        Returns:
            How many files were deleted.

        Raises:
            ConflictError: Somebody else published meanwhile: begin anew.
        """
        needed = set(self.present_alone())
        gone = [key for key in held.keys if key not in needed]
        # What says whose a folder is goes last, so that a second try finds the rest.
        last = [key for key in gone if key.rpartition("/")[2].startswith("_")]
        with ThreadPoolExecutor(DELETERS, "delete") as pool:
            for some in (sorted({*gone} - {*last}), last):
                for _ in pool.map(self.store.delete, some):
                    pass
        for leftover in held.leftovers:
            self.store.remove_leftover(leftover)
        for name in {key.partition("/")[0] for key in gone}:
            prune(self.store, name)
        return len(gone)
