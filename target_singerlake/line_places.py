"""The place of a line, for errors: in the input of the run, or in a file of records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class FileLine:
    """A line of a file, or a row of one that has columns.

    Attributes:
        number: Its number in the file, from 1.
        file: What messages call the file.
        message: The number of the line of the input that names the file.
    """

    number: int
    file: str
    message: int

    def __str__(self) -> str:
        return f"{self.number} of {self.file}"


Line: TypeAlias = int | FileLine
"""What stands behind "line" in a message; an integer is a line of the input, from 1."""


def input_line(line: Line) -> int:
    """Return the line of the input that a line came by."""
    return line if isinstance(line, int) else line.message
