"""Where an Iceberg table's state is noted: pyiceberg's catalogs, and one of SQLite by default.

The default catalog is a file of SQLite beside the table, ``catalog.db``. It lies on the
destination's store, in a folder or a bucket, and is changed as any object there: read whole,
changed in a copy, and put back on the condition that it is still the one that was read. So a commit
is one conditional write, on S3 too, and no machine holds anything that another one lacks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from pyiceberg import exceptions
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.typedef import EMPTY_DICT, Properties
from sqlalchemy.exc import SQLAlchemyError

from singerlake.errors import ConflictError, OutcomeUnknownError, StoreError, UsageError
from singerlake.publish.projection import Target
from singerlake.storage.base import KeyExistsError, KeyMissingError, Store

CATALOG = "catalog.db"
"""The default catalog's key on the destination's store."""
DEFAULT_NAME = "default"
"""What a catalog is called, to pyiceberg and in SQLite, unless it is configured otherwise."""
STORE = "singerlake.store"
"""Of a catalog's properties, the store through which metadata is read and written."""

_FAILED = (OSError, SQLAlchemyError, exceptions.RESTError, exceptions.DynamoDbError)
"""What a catalog raises when it, or the way to it, does not work."""
_UNUSABLE = (exceptions.NoSuchPropertyException, exceptions.NotInstalledError, ImportError)
"""What it raises when it lacks a setting, or a library."""
SECRET = 6
"""Characters from which on a setting's value is shown in no message."""
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
                self.etag = create(self.store, CATALOG, data)
            else:
                self.etag = self.store.replace(CATALOG, data, self.etag)
        except KeyExistsError as error:
            raise ConflictError(
                f"another process published to {self.store.uri} in the meantime; nothing was "
                "changed: run it again"
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
                f"another process changed the table at {self.store.uri} in the meantime; nothing "
                f"was published: run it again ({error})"
            ) from error
        except _FAILED as error:
            if self.file is not None:  # only the copy failed
                raise StoreError(f"the catalog of {self.store.uri}: {error}") from error
            raise OutcomeUnknownError(
                f"the catalog of {self.store.uri} did not report whether it committed: {error}"
            ) from error


def create(store: Store, key: str, data: bytes) -> str:
    """Create an object; where a request was repeated, its own first try is no other's.

    Returns:
        Its etag.

    Raises:
        KeyExistsError: The key is taken.
    """
    try:
        return store.put_if_absent(key, data)
    except KeyExistsError:
        present = store.get(key)
        if present.data != data:
            raise
        return present.etag


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
        with _reached(store, target.catalog):
            yield OpenCatalog(_configured(target.catalog, properties), store)
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


def _configured(said: Mapping[str, str], properties: Mapping[str, Any]) -> Catalog:
    """Open the catalog that somebody configured, and the one of their pyiceberg's settings."""
    rest = {name: value for name, value in said.items() if name != "name"}
    try:
        return load_catalog(said.get("name", DEFAULT_NAME), **rest, **properties)
    except (ValueError, *_UNUSABLE) as error:
        raise UsageError(
            f"the catalog cannot be opened as it is configured: {_without_values(error, said)}"
        ) from None


def _without_values(error: Exception, said: Mapping[str, str]) -> str:
    """Spell an error without what may be a secret."""
    text = str(error)
    for name, value in said.items():
        text = text.replace(value, f"<{name}>") if len(value) >= SECRET else text
    return text


@contextmanager
def _reached(store: Store, said: Mapping[str, str] | None = None) -> Iterator[None]:
    try:
        yield
    except _FAILED as error:
        text = _without_values(error, said or {})
        raise StoreError(f"the catalog of {store.uri} does not work: {text}") from None


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
            f"the catalog has a table of this name with {location}, which is not below "
            f"{store.uri}: rename the table (table), or publish it there"
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
            create(self._store, self._key, data)
