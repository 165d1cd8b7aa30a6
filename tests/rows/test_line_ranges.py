"""Files of lines, split anywhere: every line once, with its number."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import InputError
from singerlake.rows.input.json import line_ranges
from singerlake.rows.input.json.line_ranges import Range, count_ends, first_lines, ranges_of
from singerlake.rows.input.json.lines import lines_of


@dataclass(frozen=True)
class Bytes:
    """A file that a test makes up; reads come in pieces, as from a store."""

    name: str
    data: bytes
    piece: int = 1 << 20

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, start: int, length: int) -> bytes:
        return self.data[start : start + min(length, self.piece)]


def numbered(sources: list[Bytes], parts: list[Range]) -> list[tuple[int, int, bytes]]:
    firsts = first_lines(parts, [count_ends(sources[part.source], part) for part in parts])
    return [
        (part.source, number, line)
        for part, first in zip(parts, firsts, strict=True)
        for number, line in lines_of(sources[part.source], part, first)
    ]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.text(alphabet="a\n\r ", max_size=30).map(str.encode), min_size=1, max_size=3),
    st.integers(1, 9),
    st.integers(1, 5),
)
def test_every_line_once_and_under_its_number(texts: list[bytes], length: int, piece: int) -> None:
    sources = [Bytes(f"f{n}", text, piece) for n, text in enumerate(texts)]
    wanted = [
        (index, number, line)
        for index, text in enumerate(texts)
        for number, line in enumerate(text.split(b"\n"), start=1)
        if line and not line.isspace()
    ]
    assert numbered(sources, ranges_of(sources, length)) == wanted


def test_a_byte_order_mark_is_none_of_the_first_line() -> None:
    source = Bytes("f", b"\xef\xbb\xbf{}\n\xef\xbb\xbf{}\n")
    assert numbered([source], ranges_of([source])) == [(0, 1, b"{}"), (0, 2, b"\xef\xbb\xbf{}")]


def test_an_endless_line_is_refused(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    import pytest

    from singerlake.errors import UsageError

    monkeypatch.setattr(line_ranges, "LONGEST_LINE", 10)
    monkeypatch.setattr(line_ranges, "CHUNK", 4)
    source = Bytes("big.jsonl", b"x" * 50)
    with pytest.raises(UsageError, match=r"^big.jsonl has a line of more than 10 B"):
        list(lines_of(source, Range(0, 0, 50), 1))


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_json_in_another_encoding_is_refused_with_a_way_out(codec: str) -> None:
    source = Bytes("a.jsonl", '{"id": 1}\n'.encode(codec))
    with pytest.raises(
        InputError, match=f"is in {codec[:6].upper()}.*iconv -f {codec[:6].upper()}"
    ):
        line_ranges.check_encoding(source)


@pytest.mark.parametrize("text", [b"", b"{}", b'\xef\xbb\xbf{"id": 1}', '{"é": 1}'.encode()])
def test_json_in_utf_8_is_taken(text: bytes) -> None:
    line_ranges.check_encoding(Bytes("a.jsonl", text))
