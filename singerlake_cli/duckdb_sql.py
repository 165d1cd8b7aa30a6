"""SQL by which DuckDB reads a table's files as they lie."""

# ruff: noqa: S608  # it is printed, not run, and names and paths are quoted
from __future__ import annotations

import re
from collections.abc import Sequence

PROVENANCE_COLUMNS = 5
"""Columns of an index's files behind the table's own: where a row lies, and what does not fit.

As many as ``row_columns.PROVENANCE``, which would bring Arrow along.
"""
_USUAL_LINE = 16 << 20
"""DuckDB's own limit of a line. It sets several times the limit of memory aside, on each thread."""
_MAX_LINE = 2**31 - 1


def of_messages(paths: Sequence[str], longest: int) -> str:
    """Select the rows of all RECORD lines in raw files, with old versions of rows and deletions.

    Args:
        longest: No line of theirs has more bytes.
    """
    if not paths:
        return (
            "SELECT NULL::JSON AS record, NULL AS time_extracted, NULL::BIGINT AS version LIMIT 0"
        )
    columns = "{type: 'VARCHAR', record: 'JSON', time_extracted: 'VARCHAR', version: 'BIGINT'}"
    return (
        "SELECT record, time_extracted, version FROM read_json("
        f"{_listed(paths)}, format = 'newline_delimited', compression = 'gzip', "
        f"maximum_object_size = {min(max(longest, _USUAL_LINE), _MAX_LINE)}, "
        f"hive_partitioning = false, columns = {columns}) WHERE type = 'RECORD'"
    )


def of_rows(
    names: Sequence[str], keys: Sequence[int], whole: Sequence[str], layer: Sequence[str]
) -> str:
    """Select the rows of a state from an index's Parquet.

    Args:
        names: The table's columns.
        keys: Positions of those of the key.
        whole: Files of the whole state, or of the one that the layer lies on.
        layer: Files of the layer: rows that are newer, and those that were deleted.
    """
    aliases = [f"c{position}" for position in range(len(names))]
    # By position: names may differ only in case, which are one name to DuckDB.
    chosen = ", ".join(f"{c} AS {_quoted(name)}" for c, name in zip(aliases, names, strict=True))
    if not whole and not layer:
        return f"SELECT {chosen} FROM (SELECT {', '.join(f'NULL AS {c}' for c in aliases)}) LIMIT 0"
    parts = []
    if whole:
        part = f"SELECT {', '.join(aliases)} FROM {_parquet(whole, aliases)} AS w"
        if layer and keys:
            same = " AND ".join(
                f"l.c{position} IS NOT DISTINCT FROM w.c{position}" for position in keys
            )
            newer = f"SELECT 1 FROM {_parquet(layer, aliases)} AS l WHERE {same}"
            part += f" WHERE NOT EXISTS ({newer})"
        parts.append(part)
    if layer:
        extra = [f"p{number}" for number in range(PROVENANCE_COLUMNS + 1)]
        rows = _parquet(layer, [*aliases, *extra])
        parts.append(f"SELECT {', '.join(aliases)} FROM {rows} AS l WHERE NOT {extra[-1]}")
    return f"SELECT {chosen} FROM ({' UNION ALL '.join(parts)})"


def _parquet(paths: Sequence[str], aliases: Sequence[str]) -> str:
    # A folder above the lake may be named a=b, which DuckDB would take for one more column.
    rows = f"read_parquet({_listed(paths)}, hive_partitioning = false)"
    return f"(SELECT * FROM {rows} AS t({', '.join(aliases)}))"


def _listed(paths: Sequence[str]) -> str:
    # DuckDB takes these characters for a pattern, and has no other way to quote them.
    literal = (re.sub(r"[*?\[]", lambda match: f"[{match[0]}]", path) for path in paths)
    return "[" + ", ".join("'" + path.replace("'", "''") + "'" for path in literal) + "]"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
