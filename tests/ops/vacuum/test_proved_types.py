"""What writes blocks again, or anew, says of their types what it knows, and readers go by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from singerlake.format import block as format_block
from singerlake.format.log import Block
from singerlake.format.names import TableName
from singerlake.lake import Lake, Table
from singerlake.log import blocks as stored
from singerlake.ops.vacuum.drop_history import plan_drop_history
from singerlake.ops.verify.whole_table import check_block
from singerlake.rows.blocks import lenient_json, type_prover
from singerlake.rows.lines.pile import Pile
from singerlake.snapshot import from_blocks as blocks_read
from tests.build import record_line, schema_line
from tests.ops.vacuum.plain_table import cutoff_at, drop, erase
from tests.target.harness import TAP, record, run, schema

WHOLE: dict[str, Any] = {"id": {"type": "integer"}, "n": {"type": "integer"}}


def filled(folder: Path, *odd: int) -> Table:
    """A table of three transactions with the same ten keys; some not validated."""
    for number in range(3):
        rows = [record("s", {"id": one, "n": number}) for one in range(10)]
        lines = b"\n".join([schema("s", WHOLE, ["id"]), *rows])
        run(folder, lines, validate_records=number not in odd)
    return Lake.open(str(folder)).table(TableName(TAP, "s"))


def said(table: Table) -> list[bool]:
    found = []
    for block in table.snapshot().blocks:
        data = stored.fetch(table.store, table.name, [block])
        assert stored.proved_in(block, data) == format_block.says_proved(data)
        assert check_block(table.store, table.name, block) == []
        found.append(format_block.says_proved(data))
    return found


@pytest.mark.parametrize(("odd", "together"), [((), True), ((1,), False), ((0, 1), False)])
def test_lines_of_several_blocks_are_proved_if_all_of_these_are(
    tmp_path: Path, odd: tuple[int, ...], together: bool
) -> None:
    table = filled(tmp_path, *odd)
    for number in range(10, 30):
        some = schema("s", WHOLE, ["id"]), record("s", {"id": number % 7, "n": number})
        run(tmp_path, b"\n".join(some), validate_records=number % 2 == 0 or not odd)
    head = table.snapshot()
    plan = plan_drop_history(head, cutoff_at(head, head.number) + 1)
    assert plan is not None
    drop(table, head, plan)
    left = said(table)
    assert len(left) < 23
    assert left == [together] * len(left)


@pytest.mark.parametrize("odd", [(), (1,)])
def test_a_block_without_some_lines_is_what_it_was(tmp_path: Path, odd: tuple[int, ...]) -> None:
    table = filled(tmp_path, *odd)
    before = said(table)
    assert before == [number not in odd for number in range(3)]
    erase(table, {(1, 3), (2, 0), (2, 9)}, [])
    assert [block.rows for block in table.snapshot().blocks] == [9, 8, 10]
    assert said(table) == before


def test_new_blocks_are_proved_where_that_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def proved(*records: Any) -> bool:
        pile = Pile(schema_line("s", WHOLE, ["id"]))
        pile.extend([record_line("s", one) for one in records])
        data, _ = pile.block()
        return format_block.says_proved(data)

    assert not proved({"id": 1})
    monkeypatch.setattr(type_prover, "LEAST_BYTES", 1)
    assert proved({"id": 1}, {"id": None, "n": 5, "more": 1.5})
    assert not proved({"id": 1}, {"id": 1.0})


def placed(table: Table, text: bytes, lines: bytes, proved: str) -> Block:
    """Put other lines in the place of those of a table's only block."""
    [block] = table.snapshot().blocks
    text = format_block.lines(text)[0] + lines
    rows = lines.count(b"\n")
    data = format_block.encode(text, rows, 1, proved=proved)
    Path(table.store.uri, table.name.data(block.file)).write_bytes(data)
    crc = format_block.checksum(data)
    return msgspec.structs.replace(block, length=len(data), bytes=len(text), rows=rows, crc=crc)


def one_block(folder: Path) -> Table:
    run(folder, b"\n".join([schema("s", WHOLE, ["id"]), record("s", {"id": 1, "n": 1})]))
    return Lake.open(str(folder)).table(TableName(TAP, "s"))


def test_a_header_that_says_more_than_is_so_is_found(tmp_path: Path) -> None:
    table = one_block(tmp_path)
    [whole] = table.snapshot().blocks
    text, hash_ = table.read_block(whole), whole.schema_hash
    good, bad = record_line("s", {"id": 1}), record_line("s", {"id": 1.5})
    for lines, proved, expected in [
        (good, hash_, []),
        (bad, "", []),
        (good + bad, hash_, ["values of its schema's types, as in its header"]),
        (good, "NFSHXeX", ["its types in its header"]),
    ]:
        block = placed(table, text, lines, proved)
        found = check_block(table.store, table.name, block)
        assert [problem.expected for problem in found] == expected


@pytest.mark.skipif(not lenient_json.ready(), reason="arro3-io is not installed")
def test_only_what_a_header_says_of_this_block_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = one_block(tmp_path)
    asked = []
    read = lenient_json.read

    def noted(lines: Any, schema: pa.Schema) -> pa.Table | None:
        asked.append(bytes(lines))
        return read(lines, schema)

    monkeypatch.setattr(lenient_json, "read", noted)

    def rows() -> list[Any]:
        asked.clear()
        batches = blocks_read.local_rows(table, table.snapshot())
        return [(row["c0"], row["c1"]) for batch in batches for row in batch.to_pylist()]

    assert rows() == [(1, 1)]
    assert len(asked) == 1
    [block] = table.snapshot().blocks
    path = Path(table.store.uri, table.name.data(block.file))
    whole = path.read_bytes()
    at = whole.index(b"ST", format_block.HEADER_BYTES) + 4
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert rows() == [(1, 1)]
    assert not asked
