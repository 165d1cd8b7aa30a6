"""The error that ends the attempt to answer a statement without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class OutsideError(Exception):
    """The statement has something that is not known to be the same on both engines.

    Never shown as it is: Spark answers instead, or the caller says what to do.

    Args:
        construct: Its name, as a noun: ``CASE``, ``the function upper()``.
    """

    def __init__(self, construct: str) -> None:
        super().__init__(construct)
        self.construct = construct


@contextmanager
def shallow() -> Iterator[None]:
    """Leave what Python cannot walk through to Spark.

    Raises:
        OutsideError: It is too deep, such as a chain of hundreds of conditions.
    """
    try:
        yield
    except RecursionError:
        raise OutsideError("very many parts") from None
