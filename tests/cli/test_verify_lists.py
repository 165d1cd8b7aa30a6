"""`singerlake verify --all` and the lake's own lists: what one changed bit of them shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from singerlake.format import names
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.log.inventory import take_inventory
from tests.build import commit_rows
from tests.cli.call import run, run_json
from tests.frozen import verify_here

ORDERS = TableName("tap", "orders")
PROPERTIES: dict[str, Any] = {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}


def test_no_bit_of_a_catalogue_changes_unseen(lake: Lake) -> None:
    commit_rows(lake, str(ORDERS), PROPERTIES, ["id"], [{"id": 1}])
    report = verify_here(lake.table(ORDERS))
    file = Path(lake.store.uri, names.catalogue("tap"))
    sound = file.read_bytes()
    for bit in range(8 * len(sound)):
        data = bytearray(sound)
        data[bit // 8] ^= 1 << bit % 8
        file.write_bytes(data)
        found = take_inventory(lake.store, [ORDERS], lake_file=lake.file)
        if found.unlisted or found.lost or found.catalogued.get(ORDERS) != report.listing:
            continue
        assert json.loads(data) == json.loads(sound), bytes(data)  # white space


def test_catalogue_that_differs_from_a_log_is_noted(lake: Lake) -> None:
    commit_rows(lake, str(ORDERS), PROPERTIES, ["id"], [{"id": 1}])
    assert "note" not in run(lake, "verify", "--all").stdout
    file = Path(lake.store.uri, names.catalogue("tap"))
    file.write_text(file.read_text().replace('"integer"', '"intefer"'))
    result = run(lake, "verify", "--all")
    said = "note: raw/tap/catalogue.json does not match the log of tap.orders"
    assert said in result.stdout and result.exit_code == 0
    assert run(lake, "rebuild", "tap.orders").exit_code == 0
    assert run_json(lake, "verify", "--all")[-1]["table"] == "tap.orders"
