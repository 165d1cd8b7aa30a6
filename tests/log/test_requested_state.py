"""The snapshot that is named by a version, a transaction or a time."""

from __future__ import annotations

import datetime as dt
import re

import pytest

from singerlake.errors import NotFoundError, UsageError
from singerlake.lake import Lake
from singerlake.log.requested_state import Naming, requested_state, requested_transaction
from singerlake.log.table_state import TableState
from tests.build import commit_rows
from tests.frozen import freeze_here

FIRST_DAY = dt.datetime(2001, 1, 1)  # a time without a zone is what is tested


@pytest.fixture
def head(lake: Lake) -> TableState:
    commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    freeze_here(lake.find("tap.s")[0], label="first")
    commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": 2}])
    return lake.find("tap.s")[0].snapshot()


def offered(**values: int | str | dt.datetime | None) -> list[Naming]:
    kinds = {"to": "version", "label": "version", "transaction": "transaction", "time": "time"}
    return [Naming(f"--{name}", kinds[name], values.get(name)) for name in kinds]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "version", "transaction"),
    [
        ({}, None, 3),
        ({"to": None, "transaction": None}, None, 3),
        ({"to": 1}, 1, 1),
        ({"to": "1"}, 1, 1),
        ({"label": "first"}, 1, 1),
        ({"to": "@2"}, None, 2),
        ({"transaction": 1}, None, 1),
        ({"transaction": "2"}, None, 2),
        ({"time": "2999-01-01"}, None, 3),
        ({"time": dt.datetime(2999, 1, 1, tzinfo=dt.timezone.utc)}, None, 3),
    ],
)
def test_requested_state_takes_each_kind_of_name(
    head: TableState, values: dict[str, int | str], version: int | None, transaction: int
) -> None:
    frozen, state = requested_state(head, *offered(**values))
    assert (frozen and frozen.number, state.number) == (version, transaction)
    assert requested_transaction(head, *offered(**values)) == (frozen, transaction)


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        ({"to": 1, "time": "2999-01-01"}, UsageError, "specify one snapshot: --to and --time are"),
        ({"to": 1, "label": "1"}, UsageError, "specify one snapshot: --to and --label are given"),
        ({"to": ""}, UsageError, "--to is empty: give a version, or leave it out"),
        ({"time": ""}, UsageError, "--time is empty: give a time, or leave it out"),
        ({"to": "second"}, NotFoundError, "tap.s has no version 'second': it has 1 (first)"),
        ({"transaction": 0}, NotFoundError, "tap.s has no transaction 0: its last is 3"),
        ({"transaction": 9}, NotFoundError, "tap.s has no transaction 9: its last is 3"),
        ({"transaction": "x"}, UsageError, "--transaction: 'x' is not a transaction: give its"),
        ({"transaction": True}, UsageError, "--transaction: 'True' is not a transaction"),
        ({"time": "soon"}, UsageError, "'soon' is not a time"),
        ({"time": FIRST_DAY}, NotFoundError, "has no transaction by 2001-01-01T00:00:00"),
    ],
)
def test_requested_state_refuses_what_names_no_snapshot(
    head: TableState, values: dict[str, int | str], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=re.escape(said)):
        requested_state(head, *offered(**values))


def test_requested_transaction_refuses_no_name_if_one_is_required(head: TableState) -> None:
    said = "specify the snapshot: one of --to, --label, --transaction, --time"
    with pytest.raises(UsageError, match=said):
        requested_transaction(head, *offered(), required=True)
