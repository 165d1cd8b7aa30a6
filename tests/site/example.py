"""A lake for the site's tests: small, and with one of everything that a page can show."""

from __future__ import annotations

import hashlib
import itertools
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from singerlake.annotations import changes, document
from singerlake.annotations.subjects import LAKE
from singerlake.format import times
from singerlake.format.annotations import JobRun
from singerlake.format.log import Entry, FrozenVersion, Operation
from singerlake.format.names import TableName
from singerlake.format.types import RULES
from singerlake.lake import Lake
from singerlake.log.commit import commit, draft_entry
from singerlake.log.table_state import TableState
from singerlake.ops.point import point
from singerlake.ops.sign.sign import sign
from tests.build import commit_rows, retype
from tests.sshsig import Key

ADA = Key(Ed25519PrivateKey.from_private_bytes(bytes(32)))
NOW = datetime(2026, 11, 20, 20, 0, tzinfo=timezone.utc)
STRING = {"type": ["null", "string"]}
TIME = {"type": ["null", "string"], "format": "date-time"}

CUSTOMERS: dict[str, Any] = {
    "id": {"type": "integer", "minimum": 1},
    "name": {**STRING, "description": "As the customer wrote it"},
    "email": {"type": "string", "maxLength": 254, "pattern": "@"},
    "address": {
        "type": ["null", "object"],
        "properties": {
            "street": STRING,
            "city": STRING,
            "country": {"type": "string", "enum": ["AT", "CH", "DE", "FR", "IT"]},
        },
    },
    "since": {"type": "string", "format": "date"},
}
ORDERS: dict[str, Any] = {
    "id": {"type": "integer"},
    "customer_id": {"type": "integer"},
    "amount": {"type": "number", "multipleOf": 0.01, "minimum": 0},
    "currency": {"type": "string", "enum": ["EUR", "CHF"]},
    "ordered_at": {"type": "string", "format": "date-time"},
}
LATER: dict[str, Any] = {
    **ORDERS,
    "amount": {"type": ["null", "number"], "multipleOf": 0.01, "minimum": 0},
    "items": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
        },
    },
    "paid_at": TIME,
}
del LATER["currency"]
SAID: dict[str, Any] = {
    "owner": "Data team",
    "description": "Everything the shop knows, as its systems told it, from the first day on.",
    "documentation": "https://example.com/data",
    "taps": {
        "tap-shop": {
            "owner": "shop@example.com",
            "description": "The web shop's own database: what was ordered, and by whom.",
            "documentation": "https://example.com/shop",
            "job_url": "https://jobs.example.com/shop",
            "freshness": "24h",
            "tables": {
                "orders": {
                    "description": "One row an order. An order that is cancelled stays, with a "
                    "paid_at that is empty.",
                    "tags": ["finance", "core"],
                    "columns": {
                        "amount": {
                            "description": "In euros, taxes included; before discounts.",
                            "tags": ["money"],
                        },
                        "items": {"columns": {"sku": {"description": "The article's number"}}},
                        "customer_id": {"description": "Whose: customers.id"},
                    },
                },
                "customers": {
                    "description": "One row a customer, guests included.",
                    "classification": "confidential",
                    "columns": {
                        "email": {"classification": "confidential", "tags": ["pii"]},
                        "address": {"columns": {"city": {"description": "As on the parcel"}}},
                    },
                },
                "carts": {"deprecated": "use orders: carts are not kept since October"},
            },
        },
        "tap-crm": {
            "owner": "sales@example.com",
            "description": "Accounts and contacts.",
            "freshness": "7d",
        },
    },
}


class Example:
    """Fills a lake, with a clock that goes by days, so that pages say the same every time."""

    def __init__(self, lake: Lake, patch: pytest.MonkeyPatch) -> None:
        self.lake = lake
        self._clock = datetime(2026, 10, 26, 4, 0, tzinfo=timezone.utc)
        numbers = itertools.count(1)
        patch.setattr(times, "now", lambda: self._clock)
        patch.setattr("singerlake.log.commit.getpass.getuser", lambda: "ada")
        patch.setattr("uuid.uuid4", lambda: _Unique(next(numbers)))
        patch.setattr("secrets.token_hex", lambda size=8: f"{next(numbers):0{2 * size}x}")
        patch.setattr("time.time_ns", lambda: next(numbers) * 1_000_000_000)

    def sync(
        self, table: str, properties: dict[str, Any], rows: int, *, keys: list[str], days: float
    ) -> None:
        self._clock += timedelta(days=days)
        values = [_record(number, properties) for number in range(rows)]
        commit_rows(self.lake, table, properties, keys, values)  # type: ignore[arg-type]

    def log(self, table: str, operation: Operation, **more: Any) -> None:
        """An entry that adds no block."""
        name = TableName(*table.split(".", 1))

        def draft(snapshot: TableState) -> Entry:
            return draft_entry(name, operation, schema_hash=snapshot.schema_hash, **more)

        commit(self.lake.store, self.lake.table(name).snapshot(), draft)

    def freeze(self, table: str, label: str | None = None, comment: str | None = None) -> None:
        self._clock += timedelta(hours=1)
        snapshot = self.lake.table(TableName(*table.split(".", 1))).snapshot()
        version = FrozenVersion(
            number=len(snapshot.frozen) + 1,
            transaction=snapshot.number,
            schema_hash=snapshot.schema_hash,
            rows=sum(block.rows for block in snapshot.blocks),
            fingerprint="lt1:" + hashlib.sha256(f"{table}{snapshot.number}".encode()).hexdigest(),
            record_fingerprint="lt1:" + hashlib.sha256(b"x" * snapshot.number).hexdigest(),
            label=label,
            comment=comment,
            time=times.iso(times.now()),
            by="ada",
            types=RULES,
        )
        self.log(table, Operation.FREEZE, version=version)

    def create(self, table: str, query: str, sources: list[dict[str, Any]], rows: int) -> None:
        """A table as `create-table` makes one: the entry is its first, and names the sources."""
        self._clock += timedelta(hours=1)
        name = TableName(*table.split(".", 1))
        properties = {"country": {"type": "string"}, "total": {"type": "number"}}
        values = [_record(number, properties) for number in range(rows)]
        patched = pytest.MonkeyPatch()
        seal = msgspec.structs.replace
        from singerlake.format import log

        original = log.seal_entry

        def sealed(entry: Entry) -> Any:
            said = {"query": query, "sources": sources}
            return original(seal(entry, operation="create", metadata=said))

        patched.setattr(log, "seal_entry", sealed)
        try:
            commit_rows(self.lake, str(name), properties, ["country"], values)  # type: ignore[arg-type]
        finally:
            patched.undo()

    def publish(self, table: str, number: int, pointer: str) -> None:
        """Sign a version, and move a pointer to it."""
        self._clock += timedelta(hours=1)
        found = self.lake.table(TableName(*table.split(".", 1)))
        sign(found.store, found.snapshot(), str(number), ADA)
        point(found.store, found.snapshot(), pointer, str(number))

    def retype(self, table: str, column: str) -> None:
        self._clock += timedelta(hours=1)
        found = self.lake.table(TableName(*table.split(".", 1)))
        retype(found.store, found.snapshot(), column)


class _Unique:
    """What the code uses of a UUID, in order."""

    def __init__(self, number: int) -> None:
        self.hex = f"{number:032x}"


def _record(number: int, properties: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(name, spec, number) for name, spec in properties.items()}


def _value(name: str, spec: dict[str, Any], number: int) -> Any:
    kinds = spec.get("type", "string")
    kind = kinds if isinstance(kinds, str) else kinds[-1]
    if "enum" in spec:
        return spec["enum"][number % len(spec["enum"])]
    if kind == "integer":
        return number + 1
    if kind == "number":
        return number * 7 / 4
    if kind == "object":
        return _record(number, spec["properties"])
    if kind == "array":
        return [_value(name, spec["items"], number)]
    if spec.get("format") == "date":
        return "2026-10-01"
    return "2026-10-01T12:00:00Z" if "format" in spec else f"{name} {number}"


def fill(lake: Lake, patch: pytest.MonkeyPatch) -> Lake:
    """Two taps, five tables, versions, a revert, a schema that changed, a query's table."""
    example = Example(lake, patch)
    sizes = [400, 90, 120, 60, 210, 150, 80, 330, 140, 60, 100, 250, 170]
    for place, rows in enumerate(sizes):
        properties = ORDERS if place < 6 else LATER
        example.sync("tap-shop.orders", properties, rows, keys=["id"], days=1)
        example.sync("tap-shop.customers", CUSTOMERS, rows // 3, keys=["id"], days=0.1)
        if place == 4:
            example.freeze("tap-shop.orders", "2026-10", "As reported to the board in October")
    example.log("tap-shop.orders", Operation.REVERT, metadata={"reverted_to": 4})
    example.freeze("tap-shop.orders", comment="After the double import was taken back")
    example.freeze("tap-shop.customers", "2026-11")
    example.retype("tap-shop.orders", "amount")
    example.sync("tap-shop.carts", {"id": {"type": "integer"}}, 30, keys=["id"], days=0)
    example.sync("tap-crm.contacts", CUSTOMERS, 75, keys=["id"], days=0.5)
    example.sync("tap-crm.public.notes", {"text": STRING}, 12, keys=[], days=0)
    sources = [
        {"table": "tap-shop.orders", "version": 2, "transaction": 17},
        {"table": "tap-crm.contacts", "version": None, "transaction": 1},
        {"table": "tap-old.gone", "version": 1, "transaction": 3},
    ]
    query = "select address.country, sum(amount) as total\nfrom tap_shop.orders.2 join …"
    example.create("reports.by_country", query, sources, 5)
    example.sync("tap-shop.orders", LATER, 190, keys=["id"], days=9)
    example.publish("tap-shop.orders", 2, "current")
    changes.annotate(lake, document.changes(SAID, LAKE))
    run = JobRun(
        time="2026-11-20T04:05:00.000000Z", outcome="succeeded", rows=190, tables=1,
        url="https://jobs.example.com/shop/runs/4711", job="nightly-shop", scheduler="Airflow",
    )  # fmt: skip
    changes.record_run(lake, "tap-shop", run)
    failed = JobRun(time="2026-11-20T06:05:00.000000Z", outcome="failed", job="crm")
    changes.record_run(lake, "tap-crm", failed)
    return Lake.open(lake.store.uri)
