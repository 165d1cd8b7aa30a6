"""What is asked, held against what there is: by the steps, and by plain dictionaries."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singerlake.format.types import INTEGER, NUMBER, STRING, TIMESTAMP, Columns, Type
from singerlake.rows.batches import packing
from singerlake.rows.batches.row_columns import DELETED, PROVENANCE, file_schema, row_schema
from singerlake.rows.changes import row_ids
from singerlake.rows.changes.asked_rows import AskedStep, AskedSummary
from singerlake.rows.changes.merge_terms import MergeSpec, MergeSummary
from singerlake.rows.changes.merging import MergeStep
from singerlake.rows.changes.present_rows import IndexScan, PresentStep
from singerlake.rows.given.rows import given_schema
from singerlake.rows.state.key_filter import KeyFilter
from singerlake.rows.state.parquet_parts import IndexDamagedError

COLUMNS: Columns = (("id", INTEGER), ("n", NUMBER), ("s", STRING), ("kind", STRING))
KEYS = (0, 3)
NEEDS = (None, True, False, None)  # upsert, update, insert, delete
PARTS = 3
Row = dict[str, Any]


def given(rows: Sequence[Row], columns: Columns = COLUMNS, first: int = 2) -> pa.RecordBatch:
    """Rows as a reader gives them; what a row does not mention is omitted."""
    schema = given_schema(columns, range(len(columns)))
    known = {
        "source": [0] * len(rows),
        "line": range(first, len(rows) + first),
        "omitted": [[i for i, (n, _) in enumerate(columns) if n not in r] or None for r in rows],
        "row_id": [row.get("_row_id") for row in rows],
        "row_version": [row.get("_row_version") for row in rows],
        "deleted": [row.get("_delete") for row in rows],
        "problems": [None] * len(rows),
    }
    arrays = [pa.array([row.get(name) for row in rows]) for name, _ in columns]
    arrays += [pa.array(list(values)) for values in known.values()]
    return pa.RecordBatch.from_arrays(
        [a.cast(f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema
    )


def present(rows: Sequence[tuple[int, int, Row]], columns: Columns = COLUMNS) -> pa.RecordBatch:
    """Rows of a state: block, ordinal and cells; a row that is None is deleted."""
    schema = row_schema(columns)
    cells = {f"c{i}": [row.get(n) for *_, row in rows] for i, (n, _) in enumerate(columns)}
    own = {
        "p0": [block for block, *_ in rows],
        "p1": [ordinal for _, ordinal, _ in rows],
        "p4": [row.get("_misfits") for *_, row in rows],
        "p5": [row.get("_gone", False) for *_, row in rows],
    }
    every = {f.name: [None] * len(rows) for f in schema} | cells | own
    arrays = [pa.array(every[f.name], f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass
class Found:
    """What a merge found."""

    summaries: list[AskedSummary] = field(default_factory=list)
    summary: MergeSummary = field(default_factory=MergeSummary)
    there: list[Row] = field(default_factory=list)
    new: list[Row] = field(default_factory=list)


def merged(
    steps: Sequence[tuple[int, Sequence[Row]]],
    state: Sequence[tuple[int, int, Row]],
    layer: Sequence[tuple[int, int, Row]] = (),
    *,
    columns: Columns = COLUMNS,
    keys: tuple[int, ...] = KEYS,
    replaces: bool = False,
    blind: bool = False,
) -> Found:
    """Take all steps as tasks would; a step is an index of ``NEEDS`` and its rows."""
    found = Found()
    every, batches = tuple(range(len(columns))), []
    for number, (mode, rows) in enumerate(steps):
        step = AskedStep(
            None, columns, keys, every, every, number, number, (f"step {number}",),
            mode == 3, mode == 1, PARTS,
        )  # fmt: skip
        for batch in step(iter([given(rows[:2], columns), given(rows[2:], columns, 4)])):
            if (told := batch.column("summary")[0].as_py()) is not None:
                found.summaries.append(msgspec.msgpack.decode(told, type=AskedSummary))
            else:
                batches.append(batch)
    asked = None if replaces else [one.keys for one in found.summaries if one.keys]
    sets = tuple(i for i in every if i not in keys)
    for rows, is_layer in ((state, False), (layer, True)):
        share = PresentStep(columns, keys, sets, asked, PARTS, is_layer)
        batches += share(iter([present(rows, columns)]))
    spec = MergeSpec(
        columns, keys, every, [sets] * len(steps), list(range(len(steps))),
        [NEEDS[mode] for mode, _ in steps], tuple(f"step {n}" for n in range(len(steps))),
        blind, replaces,
    )  # fmt: skip
    for batch in MergeStep(spec)(iter(batches)):
        [values] = batch.to_pylist()
        if (told := values["summary"]) is not None:
            found.summary = msgspec.msgpack.decode(told, type=MergeSummary)
        for name, rows_ in (("there", found.there), ("new", found.new)):
            if (packed := values[name]) is not None:
                rows_.extend(packing.unpack(packed).to_pylist())
    return found


class Model:
    """What becomes of one key, step by step."""

    def __init__(self, before: Row | None) -> None:
        self.before = before
        self.now = before
        self.sets: Row = {}
        self.asked = self.cleared = self.gone = False
        self.fault = ""

    def take(self, mode: int, row: Row) -> None:
        gone = mode == 3 or bool(row.get("_delete"))
        need = None if gone else NEEDS[mode]
        if need is not None and need != (self.now is not None):
            self.fault = self.fault or ("missing" if need else "there")
        self.asked, self.gone = True, gone
        if gone:
            self.now, self.cleared, self.sets = None, True, {}
        else:
            cells = {name: row[name] for name in ("n", "s") if name in row}
            self.sets |= cells
            self.now = {**(self.now or {}), **cells}

    @property
    def status(self) -> str:
        if self.fault:
            return "wrong"
        if self.gone:
            return "absent" if self.before is None else "deleted"
        if self.before is None:
            return "inserted"
        return "updated" if self.cleared or self.changed else "unchanged"

    @property
    def changed(self) -> set[str]:
        if self.before is None or self.cleared:
            return set(self.sets)
        return {n for n, v in self.sets.items() if v != self.before.get(n)}


def drawn(seed: int) -> tuple[list[tuple[int, list[Row]]], list[Any], list[Any], list[Any]]:
    chance = random.Random(seed)
    ids = [{"id": n, "kind": kind} for n in range(6) for kind in "ab"]

    def cells() -> Row:
        row = {"n": chance.choice([None, -0.0, 0.0, 1.5]), "s": chance.choice([None, "", "x"])}
        return {name: v for name, v in row.items() if chance.random() < 0.7}

    state = [
        (1 + i // 4, i % 4, {**k, **cells()}) for i, k in enumerate(ids) if chance.random() < 0.6
    ]
    layer = [(9, i, {**k, **cells(), "_gone": chance.random() < 0.3})
             for i, k in enumerate(ids) if chance.random() < 0.3]  # fmt: skip
    steps = []
    for _ in range(chance.choice([1, 1, 3])):
        mode = chance.choice([0, 0, 1, 2, 3])
        rows = [{**k, **cells()} for k in chance.sample(ids, chance.randint(0, 9))]
        for row in rows:
            if chance.random() < 0.2:
                row["_delete"] = True
        steps.append((mode, rows))
    return steps, state, layer, ids


@pytest.mark.parametrize("seed", range(60))
def test_rows_become_what_the_model_says(seed: int) -> None:
    steps, state, layer, ids = drawn(seed)
    found = merged(steps, state, layer)
    key = lambda row: (row["id"], row["kind"])  # noqa: E731
    before = {key(row): (block, ordinal, row) for block, ordinal, row in state}
    for block, ordinal, row in layer:
        before.pop(key(row), None)
        if not row["_gone"]:
            before[key(row)] = (block, ordinal, row)
    models = {key(k): Model(before[key(k)][2] if key(k) in before else None) for k in ids}
    for mode, rows in steps:
        for row in rows:
            models[key(row)].take(mode, row)
    expected = Counter(model.status for model in models.values() if model.asked)
    assert found.summary.counts == expected
    positions = {(row["block"], row["row"]): row for row in found.there}
    for id_, model in models.items():
        if not model.asked or model.status not in ("updated", "deleted", "inserted"):
            continue
        old = model.before is not None and not (model.status == "updated" and model.cleared)
        if old:
            row = positions.pop(before[id_][:2])
        else:
            (row,) = [one for one in found.new if (one["c0"], one["c3"]) == id_]
        assert row["status"] == model.status
        changed = None if model.status == "deleted" else {COLUMNS[i][0] for i in row["changed"]}
        assert changed == (None if model.status == "deleted" else model.changed)
        for name in changed or ():
            assert row[f"c{[n for n, _ in COLUMNS].index(name)}"] == model.sets[name]
    assert not positions, "no other row is touched"
    assert sum(found.summary.blocks.values()) == len(found.there)


def test_a_replacement_deletes_what_is_not_asked_for() -> None:
    state = [(1, n, {"id": n, "kind": "a", "s": "x"}) for n in range(9)]
    found = merged([(0, [{"id": 3, "kind": "a", "s": "x"}])], state, replaces=True)
    assert found.summary.counts == {"unchanged": 1, "deleted": 8}
    assert sorted(row["c0"] for row in found.there) == [0, 1, 2, 4, 5, 6, 7, 8]
    assert {row["line"] for row in found.there} == {None}


def test_a_value_that_does_not_fit_is_another_than_any() -> None:
    state = [(1, 0, {"id": 1, "kind": "a", "n": None, "s": "x", "_misfits": [(1, "never")]})]
    same = {"id": 1, "kind": "a", "s": "x"}
    assert merged([(0, [same])], state).summary.counts == {"unchanged": 1}
    (row,) = merged([(0, [{**same, "n": None}])], state).there
    assert row["changed"] == [1]


def test_versions_and_ids_that_do_not_hold_are_named() -> None:
    state = [(7, 0, {"id": 1, "kind": "a", "s": "x"})]
    by_id = {"_row_id": '["1","a"]', "s": "y", "_row_version": 7}
    assert merged([(0, [by_id])], state).summary.counts == {"updated": 1}
    stale = merged([(0, [{**by_id, "_row_version": 6}])], state)
    assert [(one.row, one.read, one.now) for one in stale.summary.stale] == [('["1","a"]', [6], 7)]
    assert merged([(0, [{**by_id, "_row_version": 6}])], state, blind=True).there
    wrong = [
        {"_row_id": "1", "s": "y"},
        {"id": 1, "kind": None, "s": "y"},
        {"id": 2, "kind": "a", "_row_id": '["1","a"]'},
    ]
    (told,) = merged([(0, wrong)], state).summaries
    assert [str(one.problem) for one in told.faults][:2] == [
        "step 0, line 2, column '_row_id': '1' is not the id of a row of this table",
        "step 0, line 3, column 'kind': a key cannot be null",
    ]
    assert """'["1","a"]' is the id of another row than ["2","a"]""" in str(told.faults[2].problem)
    assert (told.wrong, told.named) == (3, 0)
    twice = merged([(0, [by_id, {"id": 4, "kind": "b"}, by_id, by_id])], state).summary
    assert twice.repeated == 1
    assert str(twice.twice[0].problem) == (
        """step 0, line 5, column 'id, kind': '["1","a"]' is already in line 2, and 3 """
        "times in all"
    )


def test_without_a_key_rows_go_by_their_positions() -> None:
    state = [(1, n, {"id": n, "s": "x"}) for n in range(3)]
    rows: list[Row] = [
        {"_row_id": "1:0", "s": "y"},
        {"_row_id": "1:1", "_delete": True},
        {"id": 9},
        {"id": 9},
    ]
    found = merged([(0, rows)], state, keys=())
    assert found.summary.counts == {"updated": 1, "deleted": 1, "inserted": 2}
    assert sorted((row["block"], row["row"]) for row in found.there) == [(1, 0), (1, 1)]
    gone = merged([(0, [{"_row_id": "5:0", "s": "y"}])], state, keys=()).summary
    assert str(gone.faults[0].problem).endswith("column '_row_id': '5:0' is no longer in the table")
    (told,) = merged([(1, [{"s": "y"}, {"_row_id": "x"}])], state, keys=()).summaries
    assert (told.unnamed, told.wrong, told.named) == (1, 2, 0)


@pytest.mark.parametrize("seed", range(10))
def test_a_filter_lets_every_row_through_that_is_asked_for(seed: int) -> None:
    chance = random.Random(seed)
    kinds: list[Any] = [pa.int64(), pa.string(), pa.float64()]
    values = [[n - 3 for n in range(9)], list("abcdefghi"), [n / 2 for n in range(9)]]
    kind = seed % 3
    asked = pa.table({"c0": pa.array(chance.sample(values[kind], 4), kinds[kind])})
    found = KeyFilter([packing.pack(asked), packing.pack(asked)])
    state = pa.table({"c0": pa.array([*values[kind], None], kinds[kind])})
    kept = [value in asked["c0"].to_pylist() for value in state["c0"].to_pylist()]
    assert found.mask(state).tolist() == kept
    if kind == 0:
        least, most = sorted(chance.sample(range(-6, 9), 2))
        within = any(least <= value <= most for value in asked["c0"].to_pylist())
        assert found.none_within(0, least, most) == (not within)


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (7, INTEGER, "7"),
        (1.0, NUMBER, "1.0"),
        (1.5, NUMBER, "1.5"),
        ("a b", STRING, "a b"),
        (
            pa.scalar(1_500_000, pa.timestamp("us", "UTC")).as_py(),
            TIMESTAMP,
            "1970-01-01 00:00:01.5",
        ),
    ],
)
def test_an_id_names_the_key_that_it_spells(value: Any, type_: Type, text: str) -> None:
    columns = (("k", type_),)
    assert row_ids.id_text([value], columns) == text
    (read,) = row_ids.key_values(pa.array([text]), columns)
    assert read.to_pylist() == [value]


@pytest.mark.parametrize("layer", [False, True])
def test_an_index_gives_the_rows_that_are_asked_for(tmp_path: Path, *, layer: bool) -> None:
    """By row group: one is passed by, one has no such row, of one a part is read."""
    rows = [(1, n, {"id": n, "kind": "a", "s": f"s{n}", "_gone": n == 8}) for n in range(12)]
    schema = file_schema(COLUMNS, layer=layer)
    batch = present(rows)
    names = [f"c{i}" for i in range(len(COLUMNS))] + [*PROVENANCE, *([DELETED] if layer else [])]
    columns = [batch.column(name) for name in names]
    arrays = [c.cast(f.type) for c, f in zip(columns, schema, strict=True)]
    path = tmp_path / "part.parquet"
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=schema), path, row_group_size=4,
        write_page_checksum=True,
    )  # fmt: skip
    asked = pa.table({"c0": [1, 8, 9], "c1": ["b", "a", "a"]})
    step = PresentStep(COLUMNS, KEYS, (1, 2), [packing.pack(asked)], 1, layer)
    scan = IndexScan([[(str(path), 0), (str(path), 1)], [(str(path), 2)]], names, step)
    numbers = pa.RecordBatch.from_pydict({"id": [0, 1]})
    found = [
        row
        for one in scan(iter([numbers]))
        for row in packing.unpack(one.column("rows")[0].as_py()).to_pylist()
    ]
    # By each column of the key on its own: row 1 is of no key that is asked for, but may be.
    assert [row["c0"] for row in found] == [1, 8, 9]
    assert [row["c2"] for row in found] == ["s1", "s8", "s9"]
    assert [row[DELETED] for row in found] == ([False, True, False] if layer else [None] * 3)
    plain = PresentStep(COLUMNS, KEYS, (1, 2), None, 1, layer)
    scan = IndexScan([[(str(path), n) for n in range(3)]], names, plain)
    every = list(scan(iter([pa.RecordBatch.from_pydict({"id": [0]})])))
    assert sum(len(packing.unpack(one.column("rows")[0].as_py())) for one in every) == len(rows)
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    with pytest.raises(IndexDamagedError, match="only a cache"):
        list(scan(iter([pa.RecordBatch.from_pydict({"id": [0]})])))
