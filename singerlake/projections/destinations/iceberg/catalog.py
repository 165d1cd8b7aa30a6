"""Where an Iceberg table's state is noted: pyiceberg's catalogs, and one of SQLite by default.

The default catalog is a file of SQLite beside the table, ``catalog.db``. It lies on the
destination's store, in a folder or a bucket, and is changed as any object there: read whole,
changed in a copy, and put back on the condition that it is still the one that was read. So a commit
is one conditional write, on S3 too, and no machine holds anything that another one lacks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from pyiceberg import exceptions
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.typedef import EMPTY_DICT, Properties
from sqlalchemy.exc import SQLAlchemyError

from singerlake.errors import ConflictError, OutcomeUnknownError, StoreError, UsageError
from singerlake.projections.projection import Target
from singerlake.storage.base import KeyExistsError, KeyMissingError, Store

CATALOG = "catalog.db"
"""The default catalog's key on the destination's store."""
DEFAULT_NAME = "default"
"""What a catalog is called, to pyiceberg and in SQLite, unless it is configured otherwise."""
STORE = "singerlake.store"
"""Of a catalog's properties, the store through which metadata is read and written."""

_FAILED = (OSError, SQLAlchemyError, exceptions.RESTError, exceptions.DynamoDbError)
"""What a catalog raises when it, or the way to it, does not work."""
_REFUSED = (
    exceptions.CommitFailedException,
    exceptions.TableAlreadyExistsError,
    exceptions.ValidationException,
)
"""What it raises when somebody else was first; nothing was changed."""


@dataclass
class OpenCatalog:
    """A catalog, ready to be asked.

    Attributes:
        catalog: It, as pyiceberg has it.
        store: The destination's store.
        file: The local copy of the default catalog; None for one that was configured.
        etag: Of the object that was copied; None where there was none.
    """

    catalog: Catalog
    store: Store
    file: Path | None = None
    etag: str | None = field(default=None, repr=False)

    def put_back(self) -> None:
        """Make what was changed in the default catalog count: this is the commit.

        Raises:
            ConflictError: Somebody else committed meanwhile.
            OutcomeUnknownError: It may count.
        """
        if self.file is None:
            return
        data = self.file.read_bytes()
        try:
            if self.etag is None:
                self.etag = self.store.put_if_absent(CATALOG, data)
            else:
                self.etag = self.store.replace(CATALOG, data, self.etag)
        except KeyExistsError as error:
            raise ConflictError(
                f"somebody else published to {self.store.uri} meanwhile; nothing was changed: run "
                "it again"
            ) from error

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Commit in the body; what the catalog raises becomes an error of ours.

        Raises:
            ConflictError: Somebody else was first.
            StoreError: Nothing was changed.
            OutcomeUnknownError: The catalog did not answer; it may have changed.
        """
        try:
            yield
            self.put_back()
        except _REFUSED as error:
            raise ConflictError(
                f"somebody else changed the table at {self.store.uri} meanwhile; nothing was "
                f"published: run it again ({error})"
            ) from error
        except _FAILED as error:
            if self.file is not None:  # only the copy failed
                raise StoreError(f"the catalog of {self.store.uri}: {error}") from error
            raise OutcomeUnknownError(
                f"the catalog of {self.store.uri} did not say whether it committed: {error}"
            ) from error


@contextmanager
def opened(store: Store, target: Target) -> Iterator[OpenCatalog]:
    """Open the catalog of a destination, for a moment.

    Raises:
        StoreError: It cannot be reached.
    """
    properties = {
        "py-io-impl": f"{StoreIO.__module__}.{StoreIO.__name__}",
        STORE: store,  # pyiceberg hands properties on as they are
    }
    if target.catalog:
        configured = dict(target.catalog)
        with _reached(store):
            name = configured.pop("name", DEFAULT_NAME)
            yield OpenCatalog(load_catalog(name, **configured, **properties), store)  # type: ignore[arg-type]
        return
    with tempfile.TemporaryDirectory(prefix="singerlake-catalog-") as folder, _reached(store):
        file, etag = Path(folder, CATALOG), None
        try:
            present = store.get(CATALOG)
        except KeyMissingError:
            pass
        else:
            file.write_bytes(present.data)
            etag = present.etag
        catalog = SqlCatalog(DEFAULT_NAME, uri=f"sqlite:///{file}", **properties)  # type: ignore[arg-type]
        try:
            yield OpenCatalog(catalog, store, file, etag)
        finally:
            catalog.engine.dispose()


@contextmanager
def _reached(store: Store) -> Iterator[None]:
    try:
        yield
    except (*_FAILED, exceptions.NoSuchPropertyException, exceptions.NotInstalledError) as error:
        raise StoreError(f"the catalog of {store.uri} does not work: {error}") from error


class StoreIO(FileIO):
    """The destination's store, for pyiceberg: its metadata goes the way of all our files."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self._store: Store = properties[STORE]

    def new_input(self, location: str) -> InputFile:
        """Name a file to read."""
        return _Input(location, self._store)

    def new_output(self, location: str) -> OutputFile:
        """Name a file to write."""
        return _Output(location, self._store)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        name = location if isinstance(location, str) else location.location
        self._store.delete(key_of(self._store, name))


def key_of(store: Store, location: str) -> str:
    """Find the key of a file of a table.

    Raises:
        UsageError: It lies elsewhere.
    """
    root = store.uri.rstrip("/") + "/"
    if not location.startswith(root):
        raise UsageError(
            f"the catalog has a table of this name with {location}, which does not lie below "
            f"{store.uri}: give the table another name (identifier), or publish it there"
        )
    return location[len(root) :]


class _Input(InputFile):
    def __init__(self, location: str, store: Store) -> None:
        super().__init__(location)
        self._store = store

    def _read(self) -> bytes:
        try:
            return self._store.get(key_of(self._store, self.location)).data
        except KeyMissingError as error:
            raise FileNotFoundError(f"there is no {self.location}") from error

    def __len__(self) -> int:
        return len(self._read())

    def exists(self) -> bool:
        return self._store.exists(key_of(self._store, self.location))

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002
        return BytesIO(self._read())


class _Output(OutputFile):
    def __init__(self, location: str, store: Store) -> None:
        super().__init__(location)
        self._store = store

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        return _Input(self.location, self._store)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002
        return _NewObject(self._store, key_of(self._store, self.location))


class _NewObject(BytesIO):
    """Metadata that is being written: an object once it is closed, and nothing before."""

    def __init__(self, store: Store, key: str) -> None:
        super().__init__()
        self._store, self._key = store, key

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is not None:
            super().close()  # half of a file is none
        self.close()

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._store.put_if_absent(self._key, data)  # pyiceberg makes each name once
