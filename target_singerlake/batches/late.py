"""The receiver of BATCH messages, made when the first one comes: most runs have none.

To import it takes a tenth of the target's start-up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from target_singerlake.messages import Batch

BYTES = 16 << 30
"""What a file may have by default, once it is inflated."""
_SETTINGS = ("batch_roots", "batch_s3", "batch_config", "batch_clean_up")
"""What may be wrong, and is said before anything is read."""


class Taking(Protocol):
    """Takes BATCH messages: :class:`target_singerlake.batches.intake.BatchIntake`."""

    def take(self, message: Batch, number: int) -> None:
        """Take the records of all files that a message names."""


class LateBatches:
    """Takes the BATCH messages of a run.

    Args:
        config: The settings.
        make: Makes what takes them.

    Raises:
        UsageError: The settings for them cannot be used.
    """

    def __init__(self, config: Mapping[str, Any], make: Callable[[], Taking]) -> None:
        self._make = make
        self._intake = make() if any(config.get(name) for name in _SETTINGS) else None

    def take(self, message: Batch, number: int) -> None:
        """Take the records of all files that a message names."""
        if self._intake is None:
            self._intake = self._make()
        self._intake.take(message, number)
