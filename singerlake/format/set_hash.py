"""A hash of many byte strings in no order, that can be added to and subtracted from.

LtHash (Bellare and Micciancio, 1997) over BLAKE3: each string is stretched to 1,024 numbers of 16
bits, and these are summed lane by lane. A plain sum of hashes modulo 2^128, which earlier releases
took, is forged in minutes by somebody who may choose the strings; to forge this one means finding a
short vector in a lattice of 1,024 dimensions. Lanes are 32 bits wide, twice what a number needs: in
16 bits 65,536 equal strings would sum to nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

ALGORITHM = "lt1"
"""Stands before the text of a set hash; a hash of another make gets another word."""
LANES = 1024
DIGEST_BYTES = 20
_STRETCHED = 2 * LANES
_CHUNK = 256
"""Strings that are stretched at once: half a megabyte, which stays in the processor's cache."""


def digest(text: bytes | memoryview) -> bytes:
    """Return what stands for a record where its bytes would be too many."""
    return blake3(text).digest(DIGEST_BYTES)


def joined_digests(texts: Iterable[bytes | memoryview]) -> bytes:
    """Return the :func:`digest` of each of many texts, one behind the other, in half the time."""
    hasher = blake3()
    reset, update, made = hasher.reset, hasher.update, hasher.digest
    whole: list[bytes] = []
    for text in texts:
        reset()
        update(text)
        whole.append(made())  # to ask for fewer bytes takes longer than to cut them off
    every = np.frombuffer(b"".join(whole), np.uint8).reshape(-1, blake3.digest_size)
    return every[:, :DIGEST_BYTES].tobytes()


def _zeros() -> NDArray[np.uint32]:
    return np.zeros(LANES, dtype=np.uint32)


@dataclass(eq=False)
class SetHash:
    """The hash of a multiset of byte strings.

    Attributes:
        lanes: The sums, modulo 2^32.
    """

    lanes: NDArray[np.uint32] = field(default_factory=_zeros)

    def add(self, texts: Iterable[bytes]) -> None:
        """Take some strings in."""
        for chunk in _chunks(texts):
            stretched = b"".join([blake3(text).digest(_STRETCHED) for text in chunk])
            numbers = np.frombuffer(stretched, dtype="<u2").reshape(-1, LANES)
            self.lanes += numbers.sum(axis=0, dtype=np.uint32)

    def __add__(self, other: SetHash) -> SetHash:
        return SetHash(self.lanes + other.lanes)

    def __sub__(self, other: SetHash) -> SetHash:
        return SetHash(self.lanes - other.lanes)

    def __mul__(self, times: int) -> SetHash:
        """The hash of a set in which each string is there so many times as often."""
        return SetHash(self.lanes * np.uint32(times % (1 << 32)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SetHash) and bool((self.lanes == other.lanes).all())

    __hash__ = None  # type: ignore[assignment]  # it changes

    @property
    def data(self) -> bytes:
        """The lanes, each as four bytes, the least significant first."""
        return self.lanes.astype("<u4").tobytes()

    @classmethod
    def of_data(cls, data: bytes) -> SetHash:
        """Return the lanes out of their bytes.

        Raises:
            ValueError: There are more or fewer.
        """
        lanes = np.frombuffer(data, dtype="<u4")
        if len(lanes) != LANES:
            raise ValueError(f"{len(lanes)} lanes where {LANES} belong")
        return cls(lanes.astype(np.uint32))

    @property
    def encoded(self) -> str:
        """The lanes as text, to be kept where they are added to later."""
        return base64.b64encode(self.data).decode("ascii")

    @classmethod
    def of_encoded(cls, text: str) -> SetHash:
        """Return the lanes out of that text.

        Raises:
            ValueError: It is not of this make.
        """
        return cls.of_data(base64.b64decode(text, validate=True))

    @property
    def text(self) -> str:
        """The text that is compared and shown: short, and the same for the same strings alone."""
        return f"{ALGORITHM}:{blake3(self.data).hexdigest()}"


def _chunks(texts: Iterable[bytes]) -> Iterator[list[bytes]]:
    source = iter(texts)
    while chunk := list(islice(source, _CHUNK)):
        yield chunk
