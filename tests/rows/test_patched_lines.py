"""Many lines changed at once: the same bytes as one by one, or left to that."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.rows.lines.members import patched
from singerlake.rows.lines.patched_lines import NewValues, patched_lines

STAMP = "2026-11-22T10:00:00.000000Z"
NAMES = ["id", "a", "b", "time_extracted", 'q"', "ź"]
TEXTS = [
    "",
    "x",
    'a"b',
    "\\",
    '\\"',
    "{",
    "}",
    "[1,",
    "a,b",
    '"a":',
    "ź",
    "\n",
    '{"a": 1}',
    "record",
]
VALUES: list[Any] = [None, True, 1, -1.5, 10**20, [], [1, "]"], {}, {"a": 2}, *TEXTS]


def line_of(record: dict[str, Any], compact: bool, ascii_only: bool, order: int) -> bytes:
    members = [("type", "RECORD"), ("record", record), ("time_extracted", "2026-01-01T00:00:00Z")]
    message = dict(members[order:] + members[:order])
    separators = (",", ":") if compact else (", ", ": ")
    return json.dumps(message, separators=separators, ensure_ascii=ascii_only).encode()


LINES = st.builds(
    line_of,
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES)),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2),
)
NEW = st.sampled_from([b"7", b'"new"', b"null", b'{"x": [1]}', None])


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.tuples(LINES, st.lists(NEW, min_size=2, max_size=2), st.integers(0, 3))),
    st.permutations(["a", "ź"]),
)
def test_lines_get_the_bytes_that_they_get_one_by_one(
    given: list[tuple[bytes, list[bytes | None], int]], names: list[str]
) -> None:
    lines = pa.array([line + b"\n" for line, _, _ in given], pa.large_binary())
    new = [
        NewValues(
            name,
            np.array([bool(which >> n & 1) for _, _, which in given], np.bool_),
            pa.array(
                [None if v[n] is None else v[n].decode() for _, v, _ in given], pa.large_string()
            ),
        )
        for n, name in enumerate(names)
    ]
    done = patched_lines(lines, new, STAMP)
    found = zip(done.rows.tolist(), done.lines.to_pylist(), done.records.to_pylist(), strict=True)
    for row, line, record in found:
        before, values, which = given[row]
        changed = {name: values[n] for n, name in enumerate(names) if which >> n & 1}
        assert line == patched(before, changed, STAMP) + b"\n"
        assert record.endswith(b"}\n")
        assert record[:-1] in line
        assert json.loads(record) == json.loads(line)["record"]


def usual(n: int) -> bytes:
    """A line as most taps send them."""
    text = json.dumps({"id": n, "name": f"ź {n}", "amount": n / 8, "tags": [n], "note": None})
    time = '"time_extracted": "2026-01-01T00:00:00Z"'
    return f'{{"type": "RECORD", "stream": "s", "record": {text}, {time}}}\n'.encode()


@pytest.mark.parametrize("odd", [b'{"type":"RECORD","record":{"amount":{"x":1}}}\n', b"{}\n"])
def test_usual_lines_are_changed_at_once_and_an_odd_one_among_them_is_left(odd: bytes) -> None:
    lines = pa.array([usual(1), odd, usual(2)], pa.large_binary())
    texts = pa.array(["5", "6", "7"], pa.large_string())
    done = patched_lines(lines, [NewValues("amount", np.ones(3, np.bool_), texts)], STAMP)
    assert done.rows.tolist() == [0, 2]
    for row, line in zip(done.rows.tolist(), done.lines.to_pylist(), strict=True):
        new = {"amount": texts[row].as_py().encode()}
        assert line == patched(lines[row].as_py()[:-1], new, STAMP) + b"\n"
