"""The reasons why a query does not answer row by row, in words that every engine uses."""

from __future__ import annotations

AGGREGATES = "it aggregates rows"
DUPLICATES = "it removes duplicate rows"
LIMITS = "it limits the number of rows"
SEVERAL = "it reads more than one table"
SORTS = "it sorts them"
