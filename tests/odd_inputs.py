"""Odd values, through the real target and a real query: what becomes of each.

``python -m tests.odd_inputs`` writes the table into ``docs/internals/odd-values.md``.
"""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from singerlake.errors import DamagedError, InputError
from singerlake.lake import Lake
from singerlake.rows.validation.drafts import draft_of
from singerlake_cli.results import text
from tests.target.harness import run, schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[1] / "docs" / "internals" / "odd-values.md"
PLACE = re.compile(r"(<!-- odd inputs: .*? -->\n).*?(<!-- end -->)", re.DOTALL)
TIME = '{"type": "string", "format": "date-time"}'
DATE = '{"type": "string", "format": "date"}'
DRAFT_4 = '{"type": "number", "maximum": 1000, "exclusiveMaximum": true, "multipleOf": 0.01}'
CENTS = '{"type": "number", "multipleOf": 0.01}'
VERSION = "`version` of the RECORD itself"
INPUTS = [
    (TIME, '""'),
    (TIME, '"infinity"'),
    (TIME, '"2026-01-01T24:00:00Z"'),
    (TIME, '"2016-12-31T23:59:60Z"'),
    (TIME, '"9999-12-31T23:59:59-05:00"'),
    (TIME, '"9999-12-31T23:59:59Z"'),
    (TIME, '"0001-01-01T00:00:00+05:00"'),
    (TIME, '"0000-01-01T00:00:00Z"'),
    (TIME, '"2026-01-01T10:00:00+05"'),
    (TIME, '"2026-01-01T10:00"'),
    (TIME, '"2026-01-01"'),
    (TIME, '"2026-01-01T10:00:00.123456789Z"'),
    (TIME, "1767225600"),
    (DATE, '"2026-02-30"'),
    (DATE, '"2026-01-01T00:00:00Z"'),
    (DATE, '"2026-01-01T10:00:00Z"'),
    ('{"type": "string", "format": "time"}', '"25:00"'),
    ('{"type": "integer"}', "1.0"),
    ('{"type": "integer"}', "1e3"),
    ('{"type": "integer"}', "1.5"),
    ('{"type": "integer"}', "9223372036854775808"),
    ('{"type": "integer", "maximum": 18446744073709551615}', "18446744073709551615"),
    ('{"type": "number"}', "1e400"),
    ('{"type": "number"}', "1e-400"),
    ('{"type": "number"}', "12345678901234.123457"),
    ('{"oneOf": [{"type": "integer"}, {"type": "number"}]}', "1"),
    (CENTS, "1.005"),
    (CENTS, "1.500"),
    ('{"type": "number", "multipleOf": 1e-6}', "2.00000199999999983"),
    ('{"type": "string", "format": "singer.decimal", "scale": 2}', '"1.005"'),
    ('{"type": "string", "format": "singer.decimal"}', '"1e21"'),
    ('{"type": "string", "format": "x-singer.decimal", "scale": 2}', '"1.50"'),
    ('{"type": "string", "format": "x-singer.decimal"}', '"NaN"'),
    ('{"type": "array", "items": {"type": "integer"}}', "[[1, 2], [3]]"),
    ('{"type": "array", "items": {"type": ["integer", "array"]}}', "[[1, 2], [3]]"),
    ('{"type": "array", "items": {"type": "integer"}}', "[1, null]"),
    ('{"type": "object", "properties": {"a": {"type": "integer"}}}', '{"a": 1, "a": 2}'),
    ('{"type": "boolean"}', "1"),
    (DRAFT_4, "999.99"),
    (DRAFT_4, "1000"),
    ('{"type": "any"}', "1.10"),
    ('{"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}', '[1, "a"]'),
    ('{"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}', '["a", 1]'),
    ('{"type": "string", "pattern": "(?P<word>a)"}', '"b"'),
    ('{"type": "number"}', "NaN"),
    ('{"type": "number"}', "-Infinity"),
    ('{"type": "string"}', '"\\ud800"'),
    ('{"type": "string"}', '"\\u0000"'),
    ("{}", '{"a":  1.10}'),
    (VERSION, "9223372036854775808"),
]  # fmt: skip
"""Property and value, each as JSON text, or what else of a message is odd."""


def _lines(name: str, spec: str, value: str) -> list[bytes]:
    if spec == VERSION:
        return [
            schema("s"),
            f'{{"type": "RECORD", "stream": "s", "version": {value}, "record": {{}}}}'.encode(),
        ]
    record = f'{{"type": "RECORD", "stream": "s", "record": {{"{name}": {value}}}}}'
    return [schema("s", {name: json.loads(spec)}), record.encode()]


def _together(stream: str, numbers: list[int]) -> list[bytes]:
    """One record that has them all."""
    properties = {f"c{number}": json.loads(INPUTS[number][0]) for number in numbers}
    values = ", ".join(f'"c{number}": {INPUTS[number][1]}' for number in numbers)
    record = f'{{"type": "RECORD", "stream": "{stream}", "record": {{{values}}}}}'
    return [schema(stream, properties), record.encode()]


def _taken(folder: Path, spec: str, value: str, *, check_values: bool) -> str:
    warned: list[logging.LogRecord] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = warned.append  # type: ignore[method-assign]
    logger = logging.getLogger("target-singerlake")
    logger.addHandler(handler)
    try:
        run(folder, _lines("v", spec, value), check_values=check_values)
    except InputError as error:
        assert "line 2" in str(error)
        return "rejected"
    finally:
        logger.removeHandler(handler)
    # A keyword that is passed over is another matter.
    told = any("cannot hold" in said.getMessage() for said in warned)
    return "accepted, with a warning" if told else "accepted"


def _read(spark: SparkSession, lake: Lake, stream: str, name: str) -> str:
    from singerlake.sql.queries.query import query

    try:
        [(value,)] = query(spark, lake, f"select {name} from tap_test.{stream}").rows()
    except DamagedError as error:
        assert f"of column '{name}'" in str(error)
        return "an error that names it"
    return f"`{text(value)}`".replace("\0", "\\u0000")


def outcomes(spark: SparkSession, folder: Path) -> list[list[str]]:
    """One row for each input: property, value, by default, with ``check_values``, as read."""
    rows = []
    for number, (spec, value) in enumerate(INPUTS):
        by_default, strictly = (
            _taken(folder / f"{number}-{check}", spec, value, check_values=check)
            for check in (False, True)
        )
        shown = spec if spec == VERSION else f"`{spec}`"
        rows.append([shown, f"`{value}`", by_default, strictly, "–"])
    taken = [number for number, row in enumerate(rows) if row[2] != "rejected"]
    by_stream: defaultdict[str, list[int]] = defaultdict(list)
    for number in taken:
        draft = draft_of({"properties": {"v": json.loads(INPUTS[number][0])}})
        by_stream[f"draft{draft.number}"].append(number)  # one word of a draft counts for all
    run(folder / "all", [line for name in by_stream for line in _together(name, by_stream[name])])
    lake = Lake.open(str(folder / "all"))
    for stream, numbers in by_stream.items():
        for number in numbers:
            rows[number][4] = _read(spark, lake, stream, f"c{number}")
    return rows


def table(rows: list[list[str]]) -> str:
    """The page's table."""
    head: list[list[str]] = [
        ["property", "value", "target", "with `check_values`", "a query reads"],
        ["---"] * 5,
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [*head, *rows])


def filled(page: str, rows: list[list[str]]) -> str:
    """The page with its table as it should be."""
    found = table(rows)
    return PLACE.sub(lambda match: f"{match[1]}\n{found}\n\n{match[2]}", page)


def main() -> None:
    """Write the table."""
    from singerlake.engine.spark.jvm.session import session

    with TemporaryDirectory() as folder:
        rows: list[list[Any]] = outcomes(session("local[1]", {}), Path(folder))
    PAGE.write_text(filled(PAGE.read_text("utf-8"), rows), "utf-8")


if __name__ == "__main__":
    main()
