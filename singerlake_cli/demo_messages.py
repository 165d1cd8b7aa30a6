"""Two days of a small shop, as a tap would put them out: always the same, made from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

CUSTOMERS = 100
ORDERS = 1000
MONDAY = "2026-03-02T06:00:00Z"
TUESDAY = "2026-03-03T06:00:00Z"

_NAMES = ("Ada", "Ben", "Chioma", "Dag", "Elif", "Farah", "Goran", "Hana", "Ines", "Jun")
_CITIES = ("Lagos", "Lund", "Lima", "Łódź", "Lisbon")
_DELETED = {"_sdc_deleted_at": {"type": ["null", "string"], "format": "date-time"}}
_CUSTOMER = {
    "id": {"type": "integer"},
    "name": {"type": "string"},
    "city": {"type": ["null", "string"]},
}
_ORDER = {
    "id": {"type": "integer"},
    "customer_id": {"type": "integer"},
    "status": {"type": "string"},
    "total": {"type": "number"},
    "ordered_at": {"type": "string", "format": "date-time"},
    **_DELETED,
}
_ORDER_WITH_COUPON = {**_ORDER, "coupon": {"type": ["null", "string"]}}


def monday() -> Iterator[str]:
    """Yield the first sync: everything is new."""
    random_ = random.Random(1)  # noqa: S311  # the same every time is the point
    yield _schema("customers", _CUSTOMER)
    for number in range(1, CUSTOMERS + 1):
        yield _record("customers", _customer(number, random_), MONDAY)
    yield _schema("orders", _ORDER)
    for number in range(1, ORDERS + 1):
        yield _record("orders", _order(number, random_), MONDAY)
    yield _state(MONDAY)


def tuesday() -> Iterator[str]:
    """Yield the second: some moved, some orders were shipped or cancelled, and a column is new."""
    random_ = random.Random(2)  # noqa: S311
    messages = [json.loads(line) for line in monday()]
    records = [each["record"] for each in messages if each["type"] == "RECORD"]
    before = {record["id"]: record for record in records if "status" in record}
    yield _schema("customers", _CUSTOMER)
    for number in (3, 14, 15, 92, 65, CUSTOMERS + 1):
        yield _record("customers", _customer(number, random_), TUESDAY)
    yield _schema("orders", _ORDER_WITH_COUPON)
    for number in range(10, 52):
        _order(number, random_)  # drawn for nothing: the new orders below stay as pages print them
    for number in range(10, 40):
        yield _record("orders", {**before[number], "status": "shipped", "coupon": None}, TUESDAY)
    for number in range(40, 52):
        cancelled = {**before[number], "coupon": None, "_sdc_deleted_at": TUESDAY}
        yield _record("orders", cancelled, TUESDAY)
    for number in range(ORDERS + 1, ORDERS + 41):
        new = {**_order(number, random_), "coupon": random_.choice(["SPRING", None])}
        yield _record("orders", new, TUESDAY)
    yield _state(TUESDAY)


DAYS = {"monday": monday, "tuesday": tuesday}
"""The messages of each day, in order."""


def _customer(number: int, random_: random.Random) -> dict[str, Any]:
    return {"id": number, "name": random_.choice(_NAMES), "city": random_.choice(_CITIES)}


def _order(number: int, random_: random.Random) -> dict[str, Any]:
    return {
        "id": number,
        "customer_id": random_.randint(1, CUSTOMERS),
        "status": random_.choice(["new", "paid"]),
        "total": random_.randint(500, 20000) / 100,
        "ordered_at": f"2026-03-01T{random_.randint(0, 23):02d}:{random_.randint(0, 59):02d}:00Z",
    }


def _schema(stream: str, properties: dict[str, Any]) -> str:
    schema = {"type": "object", "properties": properties}
    return json.dumps(
        {"type": "SCHEMA", "stream": stream, "schema": schema, "key_properties": ["id"]}
    )


def _record(stream: str, record: dict[str, Any], extracted: str) -> str:
    return json.dumps(
        {"type": "RECORD", "stream": stream, "record": record, "time_extracted": extracted}
    )


def _state(stamp: str) -> str:
    return json.dumps({"type": "STATE", "value": {"bookmarks": {"orders": {"since": stamp}}}})
