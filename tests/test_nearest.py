"""What is offered in the place of a name that is not there."""

from __future__ import annotations

import pytest

from singerlake.nearest import nearest, offer
from singerlake_cli.main import COMMANDS

TABLES = [f"tap-shop.{name}" for name in ("orders", "order_items", "customers", "shipments")]


@pytest.mark.parametrize(
    ("wanted", "known", "said"),
    [
        ("tap-shop.custmers", TABLES, "did you mean tap-shop.customers?"),
        ("tap_shop.orders", TABLES, "did you mean tap-shop.orders or tap-shop.order_items?"),
        ("orders", TABLES, "did you mean tap-shop.orders?"),
        ("tap-shop.x", TABLES, f"it has {', '.join(TABLES[:3])} and 1 more"),
        ("x", [], "there is none"),
        ("tap-shop.orders", TABLES, "did you mean tap-shop.order_items?"),
        ("a", ["a"], "it has a"),
        ("a.b", {"a.b": "`a.b`"}, "did you mean `a.b`?"),
        ("frist", {"first": "1 (first)"}, "did you mean 1 (first)?"),
        ("9", {"first": "1 (first)", "2": "2"}, "it has 1 (first), 2"),
    ],
)
def test_the_nearest_are_offered_else_the_first(wanted: str, known: list[str], said: str) -> None:
    assert offer(wanted, known) == said


@pytest.mark.parametrize(
    ("wanted", "near"),
    [
        ("nope", []),
        ("foo", []),
        ("dorp", ["drop"]),
        ("undorp", ["undrop"]),
        ("qurey", ["query"]),
        ("vers", ["versions"]),
        ("lst", ["ls"]),
    ],
)
def test_nearest_command_is_one_letter_or_two_away(wanted: str, near: list[str]) -> None:
    assert nearest(wanted, COMMANDS)[: len(near) or None] == near


def test_there_are_never_more_than_three() -> None:
    known = [f"orders_{number}" for number in range(1000)]
    assert len(nearest("orders", known)) == 3
    assert offer("zzz", known) == "it has orders_0, orders_1, orders_2 and 997 more"


def test_a_part_of_a_name_is_no_slip_of_the_pen() -> None:
    assert nearest("tap", ["tap_id"], alike=0.8) == []
    assert nearest("taq_id", ["tap_id"], alike=0.8) == ["tap_id"]


def test_what_may_be_meant_besides_is_not_counted_among_what_there_is() -> None:
    assert offer("zzz", ["id", "n"], besides=["_row_id", "_delete"]) == "it has id, n"
    assert offer("_rowid", ["id", "n"], besides=["_row_id"]) == "did you mean _row_id?"
    assert offer("zzz", [], "it has none", besides=["_row_id"]) == "it has none"
