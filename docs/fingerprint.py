"""Compute the fingerprint of published rows, with Polars and nothing of Singerlake.

    python fingerprint.py parquet 'orders/*/*.parquet'
    python fingerprint.py iceberg orders [v3]
    python fingerprint.py delta   orders [12]

It is the same as the frozen version's: docs/internals/fingerprints.md says how rows are spelled and
summed up.
Needs: pip install polars blake3 numpy, and pyiceberg or deltalake for tables of theirs.
"""

import json
import sys
from datetime import date, datetime, timezone
from decimal import Decimal

import numpy as np
import polars as pl
from blake3 import blake3

ROWS = 50_000  # at a time


def text(value):
    """Spell a value as canonical JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, (float, Decimal)):
        # The shortest digits that read back, without exponent, needless zeros, and sign of zero.
        digits = format(Decimal(repr(value)) if isinstance(value, float) else value, "f")
        digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
        return "0" if digits in ("-0", "") else digits
    if isinstance(value, datetime):
        value = value.astimezone(timezone.utc).replace(tzinfo=None)
        return f'"{value.isoformat(timespec="microseconds")}Z"'
    if isinstance(value, date):
        return f'"{value.isoformat()}"'
    if isinstance(value, dict):
        there = sorted(name for name in value if value[name] is not None)
        return "{" + ",".join(f"{text(name)}:{text(value[name])}" for name in there) + "}"
    return "[" + ",".join(map(text, value)) + "]"


def frame(kind, place, version=None):
    """Find the rows."""
    if kind == "parquet":
        return pl.scan_parquet(place)
    if kind == "delta":
        return pl.scan_delta(place, version=None if version is None else int(version))
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(place)
    snapshot = table.snapshot_by_name(version or "main")
    return pl.scan_iceberg(table, snapshot_id=snapshot.snapshot_id)


def fingerprint(rows):
    """Add up the hashes of all rows: 1,024 numbers of 16 bits each, lane by lane."""
    lanes = np.zeros(1024, np.uint32)
    for batch in rows.collect_batches(chunk_size=ROWS):
        for row in batch.iter_rows(named=True):
            hashed = blake3(text(row).encode()).digest(length=2048)
            lanes += np.frombuffer(hashed, "<u2")
    return f"lt1:{blake3(lanes.astype('<u4').tobytes()).hexdigest()}"


if __name__ == "__main__":
    print(fingerprint(frame(*sys.argv[1:])))
