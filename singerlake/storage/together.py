"""Objects that are published one by one, and become durable together."""

from __future__ import annotations

from typing import Protocol


class Publishable(Protocol):
    """A staged file that can be published."""

    def publish(self, key: str) -> None:
        """Make it durable under a key."""

    def share(self) -> str:
        """Return the key under which it lies before that."""


class Together:
    """Gives staged files their names; here each is durable at once.

    A kind of store for which that is slow does it all in :meth:`settle`. Whoever dies before
    leaves names that nothing relies on; the bytes behind them may be gone after a power cut. So
    nothing may name such an object before.
    """

    def publish(self, staged: Publishable, key: str) -> None:
        """Give a file its name, as ``Staged.publish`` does; durable once it is settled.

        Raises:
            KeyExistsError: The key is taken; nothing was changed.
        """
        staged.publish(key)

    def settle(self) -> None:
        """Make durable all that was published.

        Raises:
            StoreError: The disk failed to take it: nothing of it can be relied on.
        """

    def close(self) -> None:
        """Let go of what it holds. Never raises."""
