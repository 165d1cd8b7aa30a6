"""The API for programs: a lake, its tables, and their states."""

from singerlake.api.lake import Lake, LakeSnapshot
from singerlake.api.snapshot import Snapshot
from singerlake.api.table import Table

__all__ = ["Lake", "LakeSnapshot", "Snapshot", "Table"]
