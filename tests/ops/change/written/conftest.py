"""Both engines, for what runs on either."""

from tests.engine.conftest import engine

__all__ = ["engine"]
