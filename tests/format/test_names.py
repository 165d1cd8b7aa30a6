"""Names become one safe part of a path, and come back."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from singerlake.errors import InvalidNameError
from singerlake.format import names
from singerlake.format.names import FileNamer, TableName, TableRef, parse_ref

DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
anything = st.text(st.characters(), max_size=80) | st.text("ab.%/\\-_ ~\x00", max_size=8)


@settings(max_examples=500)
@given(anything)
@example("..")
@example(".")
@example("")
@example("NUL")
@example("com1.txt")
@example("catalogue.json")
@example("Catalogue.JSON")
@example("a/../../b")
@example("\ud800")
@example("x" * 181)
@example("%41")
def test_any_text_comes_back_or_is_refused(name: str) -> None:
    try:
        part = names.encode(name)
    except InvalidNameError:
        assert not name or not _encodable(name) or len(name.encode()) > 60
        return
    assert names.decode(part) == name
    assert part.isascii()
    assert re.fullmatch(r"[A-Za-z0-9._%-]+", part)
    assert len(part) <= names.MAX_PART
    assert not part.startswith(".")
    assert not part.endswith(".")
    assert not DEVICES.fullmatch(part)
    assert part.lower() != "catalogue.json"


def _encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


@given(st.text("aAbB.%é/", min_size=1, max_size=5), st.text("aAbB.%é/", min_size=1, max_size=5))
def test_two_names_never_share_a_part(one: str, other: str) -> None:
    assert (names.encode(one) == names.encode(other)) is (one == other)


@pytest.mark.parametrize("name", ["orders", "Orders_2", "a.b", "a-b", "x" * 180])
def test_plain_names_stay_as_they_are(name: str) -> None:
    assert names.encode(name) == name


@given(st.text("ab%2EeF.\x00é", max_size=8))
@example("%2e")
@example("%61")
@example("a%")
@example("%FF")
def test_decode_takes_only_what_encode_makes(part: str) -> None:
    try:
        name = names.decode(part)
    except InvalidNameError:
        return
    assert names.encode(name) == part


def test_a_tap_has_no_dot() -> None:
    with pytest.raises(InvalidNameError, match="dot"):
        names.tap_folder("tap.x")
    assert TableName("tap x", "a.b").folder == "raw/tap%20x/a.b/"


KNOWN = {TableName("t", "a"), TableName("t", "b.7"), TableName("t", "c"), TableName("t", "c.1")}


@pytest.mark.parametrize(
    ("text", "known", "expected"),
    [
        ("t.a", None, TableRef(TableName("t", "a"))),
        ("t.a.2", None, TableRef(TableName("t", "a"), "2")),
        ("t.a.b", None, TableRef(TableName("t", "a.b"))),
        ("t.a.b.3", None, TableRef(TableName("t", "a.b"), "3")),
        ("t.2", None, TableRef(TableName("t", "2"))),
        ("t..2", None, TableRef(TableName("t", ".2"))),
        ("t.a.²", None, TableRef(TableName("t", "a.²"))),
        ("t.a.2", KNOWN, TableRef(TableName("t", "a"), "2")),
        ("t.b.7", KNOWN, TableRef(TableName("t", "b.7"))),
        ("t.b.7.1", KNOWN, TableRef(TableName("t", "b.7"), "1")),
        ("t.c.1", KNOWN, TableRef(TableName("t", "c"), "1")),
        ("t.c.1.1", KNOWN, TableRef(TableName("t", "c.1"), "1")),
        ("t.new.1", KNOWN, TableRef(TableName("t", "new"), "1")),
    ],
)
def test_references(text: str, known: set[TableName] | None, expected: TableRef) -> None:
    assert parse_ref(text, known) == expected
    assert str(expected) == text


@pytest.mark.parametrize("text", ["", "t", ".", "t.", ".a"])
def test_what_is_no_reference(text: str) -> None:
    with pytest.raises(InvalidNameError):
        parse_ref(text)


@pytest.mark.parametrize(
    "file",
    [
        "../x.singer.gz",
        "abcdefg/../x.singer.gz",
        "abcdefg/x",
        "abcdefg",
        "short/x.singer.gz",
        "abcdefg/a/b.singer.gz",
        "abcdefg/.singer.gz",
        "/x.singer.gz",
        "abcdefg/a\\b.singer.gz",
    ],
)
def test_a_data_file_stays_in_its_table(file: str) -> None:
    with pytest.raises(InvalidNameError):
        TableName("t", "a").data(file)


def test_the_keys_of_a_table() -> None:
    table = TableName("tap-x", "a")
    assert table.transaction(82) == "raw/tap-x/a/transactions/000000000082.json"
    assert table.lock("abcdefg") == "raw/tap-x/a/abcdefg/singerlake.lock"
    assert table.data("abcdefg/a-1.singer.gz") == "raw/tap-x/a/abcdefg/a-1.singer.gz"
    assert table.index(7) == table.index(7, 3) == "index/tap-x/a/7/"
    assert table.index(7, 2) == "index/tap-x/a/7-rules-2/"
    for folder in ((7, 3), (7, 2), (7, 1)):
        assert names.IndexFolder.parse(str(names.IndexFolder(*folder))) == folder
    for other in ("7-rules-", "x", "7-2", "-rules-2", "", "٣"):
        assert names.IndexFolder.parse(other) is None
    assert names.transaction_number(table.transaction(82)) == 82
    assert names.transaction_number("x/y.json") is None


@pytest.mark.parametrize(
    ("text", "stream", "version"),
    [
        ("t.`x.1`", "x.1", None),
        ("t.`x.1`.2", "x.1", "2"),
        ("t.`x`.@7", "x", "@7"),
        ("t.`x``1`", "x`1", None),
        ("t.`x``.1`", "x`.1", None),
        ("t.```x```.2", "`x`", "2"),
        ("t.x.1", "x", "1"),
    ],
)
def test_backticks_name_a_stream_that_looks_like_a_version(
    text: str, stream: str, version: str | None
) -> None:
    known = {TableName("t", "x"), TableName("t", "x.1")}
    assert parse_ref(text, known) == TableRef(TableName("t", stream), version)


def test_a_data_file_s_name_never_comes_again() -> None:
    table = TableName("tap-x", "a.b")
    namer = FileNamer(table, "h", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
    base = f"{names.encode(table.stream)}-20260101T000000000000Z-20260102T000000000000Z"
    assert namer.stem == base
    paths = {namer.new_path() for _ in range(100)}
    assert len(paths) == 100
    for path in paths:
        folder, _, name = path.partition("/")
        assert folder == "h"
        assert re.fullmatch(re.escape(base) + r"-[0-9a-f]{16}\.singer\.gz", name)
        assert names.is_own_data_file(table, name)
    for name in (f"{base}.singer.gz", f"{base}-2.singer.gz"):  # of format 1
        assert names.is_own_data_file(table, name)
    for name in (f"{base}-x.singer.gz", f"{base}-0123456789abcde.singer", "b-1-2.singer.gz"):
        assert not names.is_own_data_file(table, name)


def test_the_longest_name_fits_a_file_system() -> None:
    table = TableName("t", "x" * names.MAX_PART)
    namer = FileNamer(table, "h", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
    assert len(namer.new_path().removeprefix("h/")) <= 255


@given(st.sets(st.text("x`.1@", min_size=1, max_size=5), min_size=1, max_size=4), st.booleans())
def test_written_name_means_its_table(streams: set[str], any_lake: bool) -> None:
    tables = {TableName("t", stream) for stream in streams}
    known = None if any_lake else tables
    for table in tables:
        assert parse_ref(names.written(table, known), known) == TableRef(table)


@given(st.text("ab.-_/\\\0\n", max_size=12), st.sampled_from([names.SUFFIX, ".singer", ""]))
def test_a_data_path_is_a_schema_folder_and_a_data_file(name: str, suffix: str) -> None:
    for folder in ("abcdefg", "-bcdefg", "abc.efg", "abcdef", "abcdefgh"):
        path = f"{folder}/{name}{suffix}"
        first, _, rest = path.partition("/")
        expected = names.is_schema_folder(first) and names.is_data_file(rest) and "/" not in rest
        assert names.is_data_path(path) == expected
