"""Lines of several streams that gather before they go to their streams' buffers.

With hundreds of streams each has but a few lines of a chunk, and what is done once for these would
cost more than the lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

ENOUGH_BYTES = 4 * 1024 * 1024
"""When they go."""


class MixedLines:
    """RECORD lines by their streams.

    Attributes:
        size: Bytes in them.
        proved: Whether the types of all of them are.
    """

    def __init__(self) -> None:
        self._lines: defaultdict[str, list[bytes]] = defaultdict(list)
        self.size = 0
        self.proved = False

    def add(self, names: Iterable[str], lines: list[bytes], size: int) -> bool:
        """Take lines, each with its newline; tell whether it is time to take them out.

        Args:
            names: Each line's stream.
            lines: They.
            size: Bytes in them.
        """
        gathered = self._lines
        for name, line in zip(names, lines, strict=True):
            gathered[name].append(line)
        self.size += size
        return self.size >= ENOUGH_BYTES

    def taken(self) -> dict[str, list[bytes]]:
        """Take them all out."""
        lines, self._lines, self.size = self._lines, defaultdict(list), 0
        return lines
