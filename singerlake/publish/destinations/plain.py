"""Plain files: each build in a folder of its own, complete by itself, and one pointer to the last.

``_latest.json`` is replaced by one conditional write, and that is the commit: its readers see the
former folder or the new one. Whoever only knows folders may read any that the pointer names or
named: files are never changed, and a file that stays is there again under a second name.
``_projection.json`` is written before anything else and says whose place it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa

from singerlake.errors import ConflictError, DamagedError, SingerlakeError, UsageError
from singerlake.format import times
from singerlake.publish.destinations import claim
from singerlake.publish.destinations.base import (
    Destination,
    new_folder,
    prune,
    published_meanwhile,
)
from singerlake.publish.destinations.pointer import (
    POINTER,
    Former,
    FrozenFolder,
    Pointer,
    moved,
)
from singerlake.publish.files import file_format
from singerlake.publish.projection import Projection, Target, Transform
from singerlake.publish.published import Commit, DataFile, Published
from singerlake.storage.base import KeyExistsError, KeyMissingError, Store

KIND = "plain files"
ABOUT = "Rows published by Singerlake. _latest.json names the newest folder."
VERSION_CLAIM = "_version.json"
"""In the folder of a version: one run alone puts files there."""
CLONES = 16
"""Files that get a second name at the same time: on a bucket most of it is waiting."""
ROUNDS = 3
"""Times that all is deleted, where somebody goes on publishing."""


class PlainDestination(Destination):
    """A folder of files behind a pointer.

    Args:
        projection: Whose rows it holds.
        target: Where it is.
        store: The store of that place.
    """

    def __init__(self, projection: Projection, target: Target, store: Store) -> None:
        self.projection, self.target, self.store = projection, target, store
        self._format = file_format(target.format)
        self._format.compression(target.compression)

    def file_schema(self, schema: pa.Schema, base: Published | None) -> pa.Schema:  # noqa: ARG002
        """Leave out columns that the names of folders hold already, as readers of Hive have it."""
        self._format.check(schema)
        said = {
            one.column
            for one in self.projection.partition_by
            if one.transform is Transform.IDENTITY
        }
        kept = [field for field in schema if field.name not in said]
        if not kept:
            raise UsageError(
                f"{self.projection.name} is partitioned by all of its columns, and its files "
                "would have none: leave one out of partition_by"
            )
        return pa.schema(kept)

    def published(self) -> Published | None:
        """Read the pointer."""
        if (found := self._pointer()) is None:
            self._is_ours()
            return None
        return found[0].as_published(found[1])

    def folder(self) -> str:
        """Begin a generation."""
        if self._pointer() is None and not self._is_ours():
            self._claim()
        return new_folder()

    def commit(self, base: Published | None, commit: Commit) -> Published:
        """Complete the folder of the generation, then replace the pointer."""
        found = self._pointer()
        made = [folder] if (folder := folder_of(commit.added)) else []
        try:
            if (found and found[1]) != (base and base.token):
                raise self._conflict()
            return self._committed(base, commit, found, made)
        except KeyMissingError as error:
            now = self._pointer()
            if (now and now[1]) == (found and found[1]):
                raise DamagedError(
                    f"a published file is missing: {error}; publish with --full-refresh"
                ) from error
            self._withdraw(made)
            raise self._conflict() from error
        except ConflictError:
            self._withdraw(made)
            raise

    def _committed(
        self,
        base: Published | None,
        commit: Commit,
        found: tuple[Pointer, str] | None,
        made: list[str],
    ) -> Published:
        """Commit on top of the pointer that was found; says which folders it made."""
        if base is not None and found is not None and _moves_only(base, commit):
            pointer = replace(found[0], position=commit.position)
            return pointer.as_published(self._replace(pointer, found[1]))
        if not made:
            made.append(self.folder())
        folder = made[0]
        if commit.version is not None:
            made.append(self._version_folder(commit.version, folder))
        if found is not None and commit.version is not None:
            pointer = self._with_version(found[0], commit, made[-1])
        else:
            pointer = self._next(found[0] if found else None, commit, folder)
        if found is None:
            if commit.version is not None:
                pointer = self._with_version(pointer, commit, made[-1])
            return pointer.as_published(self._create(pointer))
        etag = self._replace(pointer, found[1])
        if commit.version is not None:
            self._delete([file.path for file in commit.added])
        return pointer.as_published(etag)

    def _withdraw(self, folders: Sequence[str]) -> None:
        """Delete what nobody will ever see: it would be lost sight of, should the claim go.

        An answer may have been lost, and another have published since: then it was seen.
        """
        with suppress(SingerlakeError):
            found = self._pointer()
            for name in folders:
                if found is None or name not in found[0].folders:
                    self._delete_folder(name.rstrip("/"))

    def _next(self, before: Pointer | None, commit: Commit, folder: str) -> Pointer:
        """Give the pointer to a generation whose folder is complete."""
        files = [*self._clone(commit.kept, folder), *commit.added]
        self._clear(folder, files)
        now = times.now()  # only now: former files stay for so long after they were replaced
        ordered_by = self._ordered_by(commit.schema)
        new = Pointer(folder, now, commit.position, commit.schema, ordered_by, files)
        if before is None:
            return new
        kept_since = now - self.projection.keep
        former = [
            Former(before.folder, before.published, now),
            *(one for one in before.former if one.replaced >= kept_since),
        ]
        return replace(new, former=former, versions=before.versions)

    def _version_folder(self, version: int, folder: str) -> str:
        """Take a folder for a version, which no other run writes to."""
        name = f"v{version}/"
        try:
            self.store.put_if_absent(f"{name}{VERSION_CLAIM}", b"{}")
        except KeyExistsError:  # by a run that died, or by one that is at it
            return f"v{version}-{folder}"
        return name

    def _with_version(self, pointer: Pointer, commit: Commit, name: str) -> Pointer:
        """Give a pointer that names a version too, whose folder is complete."""
        if commit.version is None:
            raise ValueError("this commit is of no version")
        files = [*self._clone(commit.kept, name), *self._clone(commit.added, name)]
        frozen = FrozenFolder(name, sum(file.rows for file in files), commit.position)
        return replace(pointer, versions={**pointer.versions, commit.version: frozen})

    def _clear(self, folder: str, files: Sequence[DataFile]) -> int:
        """Delete what lies in a folder beside its files: of tasks that were run again."""
        named = {file.path for file in files}
        keys = [one.key for one in self.store.list(folder) if one.key not in named]
        return self._delete(keys)

    def _ordered_by(self, schema: pa.Schema) -> str | None:
        first = next((one.column for one in self.projection.order_by), None)
        first = first or next(iter(self.projection.key), None)
        return first if first in schema.names else None

    def _clone(self, files: Sequence[DataFile], to: str) -> list[DataFile]:
        """Give files a second name in another folder."""
        targets = [moved(file, folder_of([file]), to) for file in files]

        def clone(file: DataFile, target: DataFile) -> None:
            self.store.clone(file.path, target.path, file.bytes)

        with ThreadPoolExecutor(CLONES, "clone") as pool:
            for _ in pool.map(clone, files, targets):
                pass
        return targets

    def _create(self, pointer: Pointer) -> str:
        data = pointer.encode(self.projection)
        try:
            etag = self.store.put_if_absent(POINTER, data)
        except KeyExistsError:
            # A request that was repeated finds what its first try has written.
            present = self.store.get(POINTER)
            if present.data != data:
                raise self._conflict() from None
            etag = present.etag
        self._look_back(pointer)
        return etag

    def _look_back(self, pointer: Pointer) -> None:
        """Make sure that the first files are still there: whoever deletes all leaves no trace.

        Later commits need it not: there is no pointer then on which they could be conditional.
        """
        there = {one.key for one in self.store.list(pointer.folder)}
        if there >= {file.path for file in pointer.files}:
            return
        found = self._pointer()
        if found is not None and found[0].folder == pointer.folder:
            self.store.delete(POINTER)
        raise ConflictError(
            f"another process deleted the published files at {self.store.uri} in the meantime: run "
            "it again to publish them"
        )

    def _replace(self, pointer: Pointer, etag: str) -> str:
        try:
            return self.store.replace(POINTER, pointer.encode(self.projection), etag)
        except KeyExistsError:
            raise self._conflict() from None

    def _conflict(self) -> ConflictError:
        return published_meanwhile(self.projection, self.store)

    def _pointer(self) -> tuple[Pointer, str] | None:
        try:
            stored = self.store.get(POINTER)
        except KeyMissingError:
            return None
        pointer = Pointer.decode(stored.data, f"{self.store.uri}/{POINTER}")
        claim.check_name(self.store, pointer.position.projection, self.projection.name)
        return pointer, stored.etag

    def _is_ours(self) -> bool:
        """Tell whether the place is claimed for this projection; False where it is empty.

        Raises:
            UsageError: It holds something else.
        """
        return claim.is_ours(self.store, self.projection.name, KIND)

    def _claim(self) -> None:
        claim.put(self.store, self.projection.name, KIND, ABOUT)

    def sweep(self, keep: timedelta) -> int:
        """Delete former generations, and folders of runs that can commit no more."""
        found = self._pointer()
        pointer = found[0] if found else None
        now = times.now()
        # A task that was given up may have gone on after the commit.
        count = self._clear(pointer.folder, pointer.files) if pointer else 0
        for name in self._own_folders(pointer):
            files = list(self.store.list(f"{name}/"))
            newest = max((file.modified for file in files), default=0.0)
            if is_needed(name, pointer, now - keep) or may_live(name, pointer, newest, now):
                continue
            count += self._delete_folder(name)
        for leftover in list(self.store.leftovers()):
            if leftover.certain or leftover.modified < (now - SILENCE).timestamp():
                self.store.remove_leftover(leftover)
                count += 1
        return count

    def folders(self) -> list[str]:
        """Give the folders of generations, of versions and of runs."""
        found = self._pointer()
        return [f"{name}/" for name in self._own_folders(found[0] if found else None)]

    def present_alone(self) -> set[str]:
        """Have the pointer name one generation, and no version."""
        if (found := self._pointer()) is None:
            return set()
        self._replace(replace(found[0], former=(), versions={}), found[1])
        return {file.path for file in found[0].files}

    def remove(self) -> None:
        """Delete all folders of ours, then the pointer, and the claim last."""
        found = self._pointer()
        if found is None and not self._is_ours():
            return
        own = self._own_folders(found[0] if found else None)
        self._claim()  # should it have been lost: a removal that is cut short goes on by it
        for _ in range(ROUNDS):
            # Readers who come now are told that nothing is there, rather than where it was.
            self.store.delete(POINTER)
            for name in own:
                self._delete_folder(name)
            # Somebody may be at work, who would leave what nobody finds without the claim.
            own = self._own_folders(None)
            if not own and self._pointer() is None:
                break
        else:
            raise ConflictError(
                f"another process is publishing {self.projection.name} at {self.store.uri}: run it "
                "again later"
            )
        self.store.delete(claim.CLAIM)

    def _own_folders(self, pointer: Pointer | None) -> list[str]:
        """The folders that runs have made; anybody may call one ``v1``, and that is not ours."""
        versions = pointer.versions.values() if pointer else ()
        listed = {one.folder.rstrip("/") for one in versions}
        found = []
        for name in self.store.folders(""):
            match = OWN.fullmatch(name)
            if match is None:
                continue
            if match["time"] or name in listed or self.store.exists(f"{name}/{VERSION_CLAIM}"):
                found.append(name)
        return found

    def _delete_folder(self, name: str) -> int:
        """Delete a folder of ours; what says so goes last, so that a second try finds it."""
        claimed = f"{name}/{VERSION_CLAIM}"
        keys = [one.key for one in self.store.list(f"{name}/")]
        count = self._delete([key for key in keys if key != claimed])
        count += self._delete([key for key in keys if key == claimed])
        prune(self.store, name)
        return count

    def _delete(self, keys: Sequence[str]) -> int:
        with ThreadPoolExecutor(CLONES, "delete") as pool:
            for _ in pool.map(self.store.delete, keys):
                pass
        return len(keys)


def _moves_only(base: Published, commit: Commit) -> bool:
    """Tell whether a commit shows the very files that are there, as of another state."""
    same = not commit.added and commit.version is None and commit.schema.equals(base.schema)
    return same and [file.path for file in commit.kept] == [file.path for file in base.files]


# Folders of published files: which are ours, which readers need, which a run may be at.

SKEW = timedelta(hours=1)
"""By how much the clocks of two machines that publish may differ."""
SILENCE = timedelta(days=1)
"""A run that has written nothing for so long is dead."""
OWN = re.compile(r"(v(?P<version>\d+)-?)?((?P<time>\d{8}T\d{12}Z)-[0-9a-f]{16})?")
"""The folder of a generation, ``v1/``, or the latter with a name of its own behind it."""


def folder_of(files: Sequence[DataFile]) -> str:
    """The generation, or the version, that files lie in; empty without files."""
    return f"{files[0].path.partition('/')[0]}/" if files else ""


def is_needed(name: str, pointer: Pointer | None, since: datetime) -> bool:
    """Whether readers may still read a folder."""
    if pointer is None:
        return False
    former = [one.folder for one in pointer.former if one.replaced > since]
    versions = [one.folder for one in pointer.versions.values()]
    return f"{name}/" in (pointer.folder, *former, *versions)


def may_live(name: str, pointer: Pointer | None, newest: float, now: datetime) -> bool:
    """Whether a folder that no reader needs may be of a run that is at work.

    Args:
        name: The folder's.
        pointer: What the place has.
        newest: When its newest file was written; one with a second name keeps its time.
        now: The present.
    """
    match = OWN.fullmatch(name)
    if match is None:
        return True
    begun = _time_of(match["time"])
    if pointer is not None:
        if f"{name}/" in (one.folder for one in pointer.former):
            return False
        # Whoever began before the last commit, or is at a version that is there, builds on what
        # is there no more.
        if begun is not None and begun + SKEW < pointer.published:
            return False
        if begun is None:
            return int(match["version"]) not in pointer.versions
    return begun is None or max(newest, begun.timestamp()) > (now - SILENCE).timestamp()


def _time_of(text: str | None) -> datetime | None:
    with suppress(ValueError, TypeError):
        return datetime.strptime(f"{text}+0000", "%Y%m%dT%H%M%S%fZ%z")
    return None
