"""SCHEMAs of one stream that take turns: the last says what queries show, and the run says so."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.cli import call
from tests.target.batches import rows_of
from tests.target.harness import TAP, record, run, schema

ID, TEXT = {"type": "integer"}, {"type": ["null", "string"]}
WIDE = schema("s", {"id": ID, "a": TEXT, "n": ID}, ["id"])
NARROW = schema("s", {"id": ID, "a": TEXT}, ["id"])
ROW, SHORT = record("s", {"id": 1, "a": "x", "n": 7}), record("s", {"id": 2, "a": "y"})


def warned(lake: Path, lines: list[bytes], caplog: Any, **config: Any) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        run(lake, lines, **config)
    return [text for text in caplog.messages if "earlier SCHEMA" in text]


def test_a_column_that_goes_in_the_run_is_named_and_comes_back_as_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lake = tmp_path / "lake"
    [said] = warned(lake, [WIDE, ROW, NARROW, SHORT], caplog)
    assert said.startswith(f"{TAP}.s: 1 column ('n') of an earlier SCHEMA in this run")
    assert said.endswith("show them again, have the tap send one SCHEMA with all columns")
    assert rows_of(lake, "s") == ['{"a":"x","id":1}', '{"a":"y","id":2}']
    assert not warned(lake, [WIDE], caplog)
    assert rows_of(lake, "s") == ['{"a":"x","id":1,"n":7}', '{"a":"y","id":2}']


@pytest.mark.parametrize("said", [["add-column", "n", "integer"], ["drop-column", "n"]])
def test_what_a_person_said_of_the_column_holds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, said: list[str]
) -> None:
    lake = tmp_path / "lake"
    run(lake, [NARROW if said[0] == "add-column" else WIDE, SHORT])
    assert call.run(str(lake), "alter", f"{TAP}.s", *said).exit_code == 0
    assert not warned(lake, [WIDE, ROW, NARROW, SHORT], caplog)


@pytest.mark.parametrize(
    "lines",
    [
        [NARROW, SHORT, WIDE, ROW],
        [WIDE, ROW, NARROW, SHORT, WIDE],
        [WIDE, NARROW, SHORT],
        [WIDE, ROW, WIDE, ROW],
    ],
    ids=["more", "and back", "without a record", "the same"],
)
def test_nothing_is_said_where_no_value_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lines: list[bytes]
) -> None:
    assert not warned(tmp_path / "lake", lines, caplog)


def test_many_columns_are_not_all_listed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wide = schema("s", {"id": ID, **{f"c{n}": TEXT for n in range(9)}}, ["id"])
    [said] = warned(tmp_path / "lake", [wide, record("s", {"id": 1}), NARROW], caplog)
    assert "9 columns ('c0', 'c1', 'c2', 'c3', 'c4', …) of an earlier" in said


def test_streams_that_a_map_puts_into_one_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    maps = {"t": {"__alias__": "s"}, "s": {"__alias__": "s"}}
    other = schema("t", {"id": ID, "a": TEXT}, ["id"])
    lines = [WIDE, ROW, other, record("t", {"id": 2, "a": "y"})]
    [said] = warned(tmp_path / "lake", lines, caplog, stream_maps=maps)
    assert "('n')" in said
