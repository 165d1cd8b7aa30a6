"""NaN, infinities and lone surrogates: refused, or taken as JSON by choice."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import InputError
from target_singerlake import non_finite
from target_singerlake.errors import InvalidRecordError
from tests.target.harness import (
    activate,
    lines_of,
    record,
    records_of,
    run,
    schema,
    state,
)

COLUMNS = {"id": {"type": "integer"}, "x": {}, "n": {"type": ["null", "number"]}}
NAN, INF, LONE = float("nan"), float("inf"), "a\ud800b"
SPELLED = {"NaN": "NaN", "Infinity": "Infinity", "-Infinity": "-Infinity"}


def _cell(value: Any, how: str) -> Any:
    """What a value becomes; told from the value, where the code goes by the text."""
    if isinstance(value, dict):
        return {_spell(name): _cell(inner, how) for name, inner in value.items()}
    if isinstance(value, list):
        return [_cell(inner, how) for inner in value]
    if isinstance(value, float) and json.dumps(value) in SPELLED:
        return None if how == "null" else json.dumps(value)
    if isinstance(value, str) and _spell(value) != value:
        return None if how == "null" else _spell(value)
    return value


def _spell(text: str) -> str:
    return re.sub("[\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)


texts = st.text(st.sampled_from(list('aä😀\ud800\udfff"\\/{}:,NI\n\x00')), max_size=6)
values = st.recursive(
    st.sampled_from([None, 1, 1.5, NAN, INF, -INF, "NaN", '"NaN"', "\\ud800", "Infinity"]) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(values, st.sampled_from(["null", "string"]), st.sampled_from([None, (",", ":")]))
def test_only_what_is_no_json_is_changed(value: Any, how: str, separators: Any) -> None:
    text = json.dumps({"x": value}, separators=separators)
    mended = non_finite.mended(text.encode(), how)
    expected = _cell(json.loads(text), how)  # in which two halves beside each other are one
    assert json.loads(mended) == expected
    mended.decode("utf-8")
    json.dumps(json.loads(mended), allow_nan=False).encode()
    _ = json.dumps(json.loads(mended), ensure_ascii=False).encode()
    if expected == json.loads(text):
        assert mended == text.encode()
    assert non_finite.mended(mended, how) is mended


def _run(lake: Path, lines: list[bytes], **config: Any) -> list[Any]:
    run(lake, [schema("s", COLUMNS, ["id"]), *lines], **config)
    return records_of(lake, "s")


ODD = {
    "nan": ({"id": 1, "n": NAN}, {"id": 1, "n": None}, None),
    "infinity": ({"id": 1, "x": [-INF]}, {"id": 1, "x": [None]}, {"id": 1, "x": ["-Infinity"]}),
    "surrogate": ({"id": 1, "x": LONE}, {"id": 1, "x": None}, {"id": 1, "x": "a\\ud800b"}),
    "name": ({"id": 1, LONE: 2}, {"id": 1, "a\\ud800b": 2}, {"id": 1, "a\\ud800b": 2}),
}


@pytest.mark.parametrize("many", [0, 1000])
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("case", ODD)
def test_what_each_choice_does(
    tmp_path: Path, case: str, mapped: bool, many: int, caplog: pytest.LogCaptureFixture
) -> None:
    given, as_null, as_string = ODD[case]
    around = [{"id": n, "x": 'NaN "Infinity"'} for n in range(2, 2 + many)]
    lines = [record("s", r) for r in (*around, given, *around)]
    config: dict[str, Any] = {"stream_maps": {"other": None}} if mapped else {}
    if mapped:
        config = {"add_record_metadata": True}

    def landed(folder: str, how: str) -> list[Any]:
        rows = _run(tmp_path / folder, lines, non_finite=how, **config)
        return [{k: v for k, v in row.items() if not k.startswith("_sdc_")} for row in rows]

    with pytest.raises(InputError, match=f"line {many + 2} .*non_finite"):
        _run(tmp_path / "fail", lines, **config)
    with caplog.at_level(logging.WARNING):
        assert landed("null", "null") == [*around, as_null, *around]
    assert "were in 1 record;" in caplog.text
    if as_string is not None:
        assert landed("string", "string") == [*around, as_string, *around]
    else:  # no number may be a string, so it is refused
        with pytest.raises(InvalidRecordError, match="'n'"):
            landed("string", "string")


def test_all_other_bytes_stay(tmp_path: Path) -> None:
    line = b'{"type": "RECORD",  "stream":"s","record":{"id":1.0 ,'
    line += b'"x":["NaN\\u00e4",NaN,"\\ud83d\\ude00"]}'
    line += b', "time_extracted":"2026-01-01T00:00:00Z" , "odd": 1E2}'
    _run(tmp_path / "lake", [line], non_finite="null")
    assert lines_of(tmp_path / "lake", "s") == [line.replace(b",NaN,", b",null,")]


@pytest.mark.parametrize(
    "line",
    [
        state({"position": NAN}),
        schema("s", {**COLUMNS, "y": {"default": NAN}}),
        activate("s", 1).replace(b"1", b"NaN"),
        record("s", {"id": 1, "n": NAN})[:-1],
        b'{"type": "RECORD", "stream": "s", "record": {"id": 1, "x": nan}}',
        b'{"type": "RECORD", "stream": "s", "record": {"id": 1, "x": +Infinity}}',
    ],
)
@pytest.mark.parametrize("how", ["fail", "null", "string"])
def test_nothing_else_is_taken(tmp_path: Path, line: bytes, how: str) -> None:
    good = [record("s", {"id": n}) for n in range(20)]
    with pytest.raises(InputError, match=r"line 22 ") as caught:
        _run(tmp_path / "lake", [*good, line, *good], non_finite=how)
    assert "non_finite" not in str(caught.value)


def test_a_chunk_is_mended_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one costs many times as much, and a table with NaN in it has them everywhere."""
    from target_singerlake import messages

    singly = []
    decode_line = messages.decode_line
    monkeypatch.setattr(
        messages, "decode_line", lambda *args: singly.append(args) or decode_line(*args)
    )
    lines = [record("s", {"id": n, "n": NAN if n % 7 == 0 else n}) for n in range(5000)]
    assert len(_run(tmp_path / "lake", lines, non_finite="null")) == 5000
    assert len(singly) < 10
