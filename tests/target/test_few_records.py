"""The first records of a schema are looked at one by one: few may follow, and types take long."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from singerlake.errors import InputError
from target_singerlake.values import FEW
from tests.target.harness import NOW, record, records_of, run, schema, state


@pytest.mark.parametrize("schemas", [10, 40])
def test_schemas_that_few_records_follow_have_no_types_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schemas: int
) -> None:
    built = Counter[str]()
    make = msgspec.defstruct

    def counted(name: str, *args: Any, **keywords: Any) -> Any:
        built[name] += 1
        return make(name, *args, **keywords)

    monkeypatch.setattr(msgspec, "defstruct", counted)
    properties: dict[str, Any] = {"id": {"type": "integer"}}
    lines = []
    for number in range(schemas):
        properties[f"c{number}"] = {"type": ["null", "string"], "format": "date-time"}
        lines += [schema("s", properties, ["id"])]
        lines += [record("s", {"id": row, f"c{number}": NOW}) for row in range(3)]
    run(tmp_path / "lake", lines)
    assert len(records_of(tmp_path / "lake", "s")) == 3 * schemas
    # The bounds of keys and the times of blocks are found by types of their own.
    assert built.keys() <= {"Keys", "Record"}
    assert built.total() <= 4


@pytest.mark.parametrize("records", [1, FEW, FEW + 1, 5 * FEW])
def test_the_first_records_are_held_to_the_same_rules(tmp_path: Path, records: int) -> None:
    properties = {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}
    good = [{"id": 2**53, "at": NOW}] * (records - 1)
    for wrong in ({"id": 1.5}, {"id": None}, {"at": NOW}, {"id": 1, "at": 5}, {"id": 2**63}):
        lake = tmp_path / str(len(list(tmp_path.iterdir())))
        data = [schema("s", properties, ["id"])]
        for row in [*good, wrong, *good]:
            data += [record("s", row), state(1)]  # no stretch of RECORDs, which are proved
        run(lake, data, invalid_records="quarantine")
        assert records_of(lake, "s") == good * 2
        assert len(records_of(lake, "s__rejected")) == 1
        with pytest.raises(InputError, match=f"line {2 * records}: the record of stream 's'"):
            run(lake, data)
