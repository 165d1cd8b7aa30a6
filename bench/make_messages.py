"""Singer messages of about 400 bytes: ten fields, one nested, one array.

python bench/make_messages.py ROWS [STREAMS] > messages.jsonl
"""

from __future__ import annotations

import json
import random
import sys

PROPERTIES = {
    "id": {"type": "integer"},
    "name": {"type": ["null", "string"]},
    "email": {"type": ["null", "string"]},
    "status": {"type": "string"},
    "amount": {"type": ["null", "number"]},
    "count": {"type": "integer"},
    "active": {"type": "boolean"},
    "updated_at": {"type": ["null", "string"], "format": "date-time"},
    "address": {
        "type": ["null", "object"],
        "properties": {
            "street": {"type": "string"},
            "city": {"type": "string"},
            "zip": {"type": "string"},
        },
    },
    "tags": {"type": "array", "items": {"type": "string"}},
}


def main(rows: int, streams: int = 1) -> None:
    random.seed(7)
    out = sys.stdout
    for s in range(streams):
        message = {
            "type": "SCHEMA",
            "stream": f"stream_{s}",
            "schema": {"type": "object", "properties": PROPERTIES},
            "key_properties": ["id"],
        }
        out.write(json.dumps(message) + "\n")
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
    for n in range(rows):
        record = {
            "id": n,
            "name": f"{random.choice(words)} {random.choice(words)}",
            "email": f"user{n}@{random.choice(words)}.example",
            "status": random.choice(["new", "open", "done"]),
            "amount": round(random.random() * 1000, 2),
            "count": random.randrange(1000),
            "active": random.random() < 0.5,
            "updated_at": f"2026-01-{1 + n % 28:02d}T{n % 24:02d}:00:00Z",
            "address": {
                "street": f"{n % 500} {random.choice(words)} road",
                "city": random.choice(words),
                "zip": f"{n % 99999:05d}",
            },
            "tags": random.sample(words, 3),
        }
        message = {
            "type": "RECORD",
            "stream": f"stream_{n % streams}",
            "record": record,
            "time_extracted": f"2026-02-01T00:{n // 60000 % 60:02d}:{n // 1000 % 60:02d}.{n % 1000:03d}000Z",
        }
        out.write(json.dumps(message) + "\n")
    out.write(json.dumps({"type": "STATE", "value": {"rows": rows}}) + "\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
