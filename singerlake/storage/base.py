"""The small interface that every store has: whole objects, conditions, ranges.

Keys are relative to the lake's root, use ``/`` and come from ``singerlake.format.names``.
The contract is written down as tests in ``tests/storage``; every store passes all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from singerlake.errors import DamagedError, SingerlakeError
from singerlake.storage.together import Together
from singerlake.storage.unfinished import Begun, Leftover

MAX_BYTES = 1 << 30
"""No object that is read whole is larger: a manifest has 130 bytes a block, so eight million
blocks of 25,000 rows fit. Larger is none of ours, and would take the reader's memory."""
READERS = 8
"""Ranges read at the same time where a copy goes through us: on S3 most of it is waiting."""
CLONE_BYTES = 16 << 20
"""Bytes of an object that go through us at once where a store cannot copy it."""


class KeyMissingError(SingerlakeError):
    """No object has this key. Caught inside the core; never shown to a person."""


class KeyExistsError(SingerlakeError):
    """A condition failed: the key is taken, or the object changed. Caught inside the core."""


class OversizedError(DamagedError):
    """An object that is read whole is larger than any that a writer makes."""


def check_size(size: int, where: object) -> None:
    """Refuse an object before it is read whole.

    Raises:
        OversizedError: It is larger than ``MAX_BYTES``.
    """
    if size > MAX_BYTES:
        raise OversizedError(
            f"{where} has {size:,} bytes, more than any such file: it was not read; check what it "
            "is, and move it away"
        )


class StoredObject(NamedTuple):
    """An object's bytes, and a tag that changes whenever they do."""

    data: bytes
    etag: str


class Listed(NamedTuple):
    """One object of a listing: key, bytes, and last change in seconds since 1970."""

    key: str
    size: int
    modified: float


class Range(NamedTuple):
    """Part of an object: its key, the first byte, and how many."""

    key: str
    offset: int
    length: int


class StoredCopy(NamedTuple):
    """What a store keeps under a key: an object, or what an object was before.

    Attributes:
        key: Its key; empty where the store as a whole is meant.
        size: Its bytes.
        version: Which one, where a store keeps what was replaced or deleted; empty for the present.
        unreadable: Why nobody can read it; empty where it can be read.
    """

    key: str
    size: int
    version: str = ""
    unreadable: str = ""


class Staged(ABC):
    """Bytes on their way into the lake, seen by nobody until :meth:`publish`."""

    size: int = 0
    """Bytes written so far."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Append bytes."""

    def reader(self) -> BinaryIO:
        """Open what was written so far, to be read back; the caller closes it."""
        raise NotImplementedError("it cannot be read before it is published")

    @abstractmethod
    def publish(self, key: str) -> None:
        """Make the bytes durable under a key that nobody has taken.

        May be called again with another key after a ``KeyExistsError``.

        Raises:
            KeyExistsError: The key is taken; nothing was changed.
            StoreError: The store refused; nothing is visible under the key, except
            OutcomeUnknownError: the object may be there.
        """

    def share(self) -> str:
        """Let other processes read what was written, until it is discarded; the key for it."""
        raise NotImplementedError("this file is of this process alone before it is published")

    @abstractmethod
    def discard(self) -> None:
        """Drop what was staged; after :meth:`publish` only the leftovers. Never raises."""


@dataclass(frozen=True)
class Capabilities:
    """What writers can rely on: found when a store is opened for writing, and fixed from then on.

    Attributes:
        supports_conditional_writes: Whether :meth:`Store.put_if_absent`, :meth:`Store.replace` and
            :meth:`Staged.publish` refuse what they should. Some services accept conditions and
            ignore them.
        settle_seconds: Where they do: how long after a write everybody is sure to see it.
    """

    supports_conditional_writes: bool = True
    settle_seconds: float = 2.0


class Store(ABC):
    """Where a lake's bytes live."""

    uri: str
    """How a person names the place, without credentials."""

    service: str = ""
    """Whose server it is on, where the URI does not say that by itself."""

    _capabilities: Capabilities | None = Capabilities()
    """None where only a probe can tell, until the store is opened for writing."""

    default_settle_seconds: float = 2.0
    """The settle time, if the store turns out to need one and the lake's file sets none."""

    not_listed: str = ""
    """What it may keep besides, and :meth:`copies` cannot tell; empty where there is no such."""

    recorded_capabilities: Capabilities | None = None
    """What the lake's own file says of the store, where that was read already."""

    @property
    def capabilities(self) -> Capabilities:
        """What writers can rely on; asked for only once the store is open for writing."""
        if self._capabilities is None:
            raise RuntimeError(f"{self.uri} is written to before it was opened for writing")
        return self._capabilities

    @property
    def is_open_for_writing(self) -> bool:
        """Whether its capabilities are known; see ``log/capabilities.py``."""
        return self._capabilities is not None

    def fix_capabilities(self, capabilities: Capabilities) -> None:
        """Open the store for writing, with what was found."""
        if self._capabilities not in (None, capabilities):
            raise RuntimeError(f"the capabilities of {self.uri} do not change")
        self._capabilities = capabilities

    @abstractmethod
    def get(self, key: str) -> StoredObject:
        """Read an object.

        Raises:
            KeyMissingError: There is none.
            OversizedError: It is larger than ``MAX_BYTES``; nothing of it was read.
        """

    def get_if_small(self, key: str, most: int) -> StoredObject | None:
        """Read an object as :meth:`get` does; None where it has more than so many bytes."""
        present = self.get(key)
        return present if len(present.data) <= most else None

    @abstractmethod
    def get_range(self, key: str, offset: int, length: int) -> bytes:
        """Read part of an object; fewer bytes where it ends earlier.

        Raises:
            KeyMissingError: There is none.
        """

    def pieces(self, key: str, length: int) -> Iterator[bytes]:
        """Read an object of any size, piece by piece.

        Args:
            key: The object's.
            length: Bytes to read at a time.

        Raises:
            KeyMissingError: There is none.
            KeyExistsError: It was replaced while it was read.
        """
        offset = 0
        while piece := self.get_range(key, offset, length):
            yield piece
            offset += len(piece)
            if len(piece) < length:
                return

    @abstractmethod
    def put_if_absent(self, key: str, data: bytes, *, durable: bool = True) -> str:
        """Create an object, whole or not at all.

        Args:
            key: Which.
            data: Its bytes.
            durable: Whether it must outlast a power cut. Where it need not, it is seen as soon
                and as whole as any other, but may be gone, cut or of zeros after one. A store
                to which it makes no difference takes no notice.

        Returns:
            Its etag.

        Raises:
            KeyExistsError: The key is taken; nothing was changed.
            OutcomeUnknownError: It may have been created.
        """

    @abstractmethod
    def replace(self, key: str, data: bytes, etag: str | None, *, durable: bool = True) -> str:
        """Replace an object.

        Args:
            key: Which.
            data: Its new bytes.
            etag: Only if it still has this tag; None replaces or creates whatever is there.
            durable: As for :meth:`put_if_absent`.

        Returns:
            The new etag.

        Raises:
            KeyExistsError: It has another tag, or is gone; nothing was changed.
            OutcomeUnknownError: It may have been replaced.
        """

    def clock_ahead(self) -> float | None:
        """Return by how many seconds this machine's clock is ahead; None if that is not known."""
        return None

    def first_key(self) -> str | None:
        """Some key that the place holds, whatever wrote it; None where it is empty."""
        raise NotImplementedError(f"{self.uri} is not asked for keys that are no lake's")

    def write_page(self, key: str, data: bytes, media_type: str) -> None:  # noqa: ARG002
        """Write an object for a web server, over whatever is there; a store may keep its type."""
        self.replace(key, data, None)

    @abstractmethod
    def delete(self, key: str) -> None:
        """Delete an object; one that is not there is no error."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[Listed]:
        """All objects whose key begins with a prefix that ends in ``/``, in key order.

        An empty prefix means the whole place.
        """

    @abstractmethod
    def folders(self, prefix: str) -> Sequence[str]:
        """Names of the folders right below a prefix that ends in ``/``, sorted.

        Only those with an object below them. An empty prefix means the whole place.
        """

    @abstractmethod
    def stage(self) -> Staged:
        """Begin a file of any size."""

    def copy(self, ranges: Sequence[Range], staged: Staged) -> Sequence[int]:
        """Append parts of objects, one behind the other, to a file begun with :meth:`stage`.

        Args:
            ranges: What to copy; each is to fit the memory several times.
            staged: The file.

        Returns:
            Bytes copied of each; fewer than asked for where the object ends earlier.

        Raises:
            KeyMissingError: One is not there.
        """
        counts = []
        waiting: deque[Future[bytes]] = deque()

        def append() -> None:
            data = waiting.popleft().result()
            staged.write(data)
            counts.append(len(data))

        with ThreadPoolExecutor(READERS, "copy") as pool:
            for one in ranges:
                if len(waiting) == READERS:
                    append()
                waiting.append(pool.submit(self.get_range, *one))
            while waiting:
                append()
        return counts

    def clone(self, source: str, key: str, size: int) -> None:
        """Give an object's bytes a second name, without sending them through us where that can be.

        Args:
            source: The object; replaced as a whole, as all of ours are, each stays its own.
            key: Its other name, which nobody has taken.
            size: Its bytes.

        Raises:
            KeyMissingError: There is no such object.
            KeyExistsError: The name is taken. Stores where that takes a request more may
                replace what is there.
        """
        staged = self.stage()
        try:
            self.get_range(source, 0, 0)  # nothing is copied of an empty object
            starts = range(0, size, CLONE_BYTES)
            self.copy([Range(source, at, min(CLONE_BYTES, size - at)) for at in starts], staged)
            staged.publish(key)
        finally:
            staged.discard()

    def stage_in_parts(self) -> Staged:
        """Begin a file that goes up the way that large ones do, however small it is."""
        return self.stage()

    def stage_resumable(self) -> Staged:
        """Begin a file whose publication others may go on with where it breaks off.

        What a store has of a large one :meth:`begun` shows, until it is removed as a leftover.
        """
        return self.stage()

    def begun(self, prefix: str) -> Sequence[Begun]:  # noqa: ARG002
        """List such publications of keys that begin alike, those under way among them.

        Who publishes the same bytes under such a key sends only what the store does not have. Of
        several, one creates the object; to the others the key is taken.
        """
        return ()

    def leftovers(self) -> Iterator[Leftover]:
        """List what dead writers staged and never published; not what one at work has staged."""
        return iter(())

    def remove_leftover(self, leftover: Leftover) -> None:
        """Remove one; one that is not there any more is no error."""
        raise NotImplementedError(f"{self.uri} never has any: {leftover.name}")

    def together(self) -> Together:
        """Begin to publish many files that only matter together."""
        return Together()

    def local_path(self, key: str) -> Path | None:
        """Return the file of an object that lies on this machine's disks; None elsewhere."""
        del key
        return None

    def copies(self) -> Iterator[StoredCopy]:
        """List all that is kept here, whatever wrote it, with what objects were before."""
        return (StoredCopy(one.key, one.size) for one in self.list(""))

    def read_copy(self, copy: StoredCopy, offset: int, length: int) -> bytes:
        """Read part of one of :meth:`copies`, as :meth:`get_range` does."""
        return self.get_range(copy.key, offset, length)

    def exists(self, key: str) -> bool:
        """Whether there is an object of this key."""
        try:
            self.get_range(key, 0, 1)
        except KeyMissingError:
            return False
        return True
