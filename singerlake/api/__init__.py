"""What programs hold: a lake, its tables, and their states."""

from singerlake.api.lake import Lake, LakeState
from singerlake.api.state import State
from singerlake.api.table import Table

__all__ = ["Lake", "LakeState", "State", "Table"]
