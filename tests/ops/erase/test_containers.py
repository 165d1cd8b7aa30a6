"""The check finds whatever bytes have, wherever in a container they are, and in any spelling."""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.format import block
from singerlake.format.types import Kind
from singerlake.lake import Lake
from singerlake.ops.erase import spelling
from singerlake.ops.erase.check import Report, check
from singerlake.ops.erase.sought import Key, KeyNames, Sought, Text
from tests.ops.erase import containers, planted
from tests.ops.erase.containers import ANYWHERE, IN_DICTIONARY, SPELLINGS
from tests.ops.erase.planted import KEY, NAME, ROW, TEXT

Look = Callable[..., Report]
BACKUP = "backup/x"
DATA = f"raw/tap/t/abcdefg/t-{'20260102T030405000006Z-' * 2}0123456789abcdef.singer.gz"
WORDS = st.text(st.sampled_from('abcXYZé0/@ ß😀"+&'), min_size=3, max_size=9)
ENDED_BY_ZERO = {
    what for what in containers.IN_GZIP if {"name", "comment", "header"} & {*what.split()}
}
IN_TURN = ("percent-encoded in small letters",)


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Look:
    """Look for something in a lake with one more object, which is taken away again."""
    lake = planted.innocent(Lake.open(str(tmp_path_factory.mktemp("lake") / "lake"), create=True))

    def look(data: bytes, *sought: Sought, key: str = BACKUP) -> Report:
        planted.plant(lake.store, key, data)
        try:
            return check(lake, [*sought], NAME)
        finally:
            lake.store.delete(key)

    return look


def key_of(text: str, kind: Kind = Kind.INTEGER, name: str = "id") -> Key:
    return Key("key 1", text, KeyNames(NAME, [(name,)], {name: frozenset({kind})}))


HERS = Text("text 1", TEXT)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([*ANYWHERE, *IN_DICTIONARY]),
    st.sampled_from([*SPELLINGS]),
    WORDS,
)
def test_text_is_found_in_any_spelling_anywhere(look: Look, what: str, how: str, word: str) -> None:
    person = f"Zoë {word} P"  # long enough to be in no other object by chance
    if how in IN_TURN:
        person = person.lower()
    spelled = SPELLINGS[how](person).encode()
    container = {**ANYWHERE, **IN_DICTIONARY}[what]
    report = look(container(spelled), Text("text 1", person))
    assert [(one.key, one.count) for one in report.found] == [(BACKUP, 1)]
    assert report.not_read == []
    assert look(container(spelled), Text("text 1", "Zoë somebody else")).is_clean


@pytest.mark.parametrize("what", [*ANYWHERE, *IN_DICTIONARY])
def test_short_texts_are_found_in_every_container(look: Look, what: str) -> None:
    container = {**ANYWHERE, **IN_DICTIONARY}[what]
    assert [one.key for one in look(container("Zoë".encode()), Text("text 1", "Zoë")).found] == [
        BACKUP
    ]


@pytest.mark.parametrize("what", [*containers.IN_GZIP, *containers.IN_PARQUET])
def test_other_encodings_are_found_in_every_container(look: Look, what: str) -> None:
    for encoding in ("latin-1", "utf-16-le"):
        data = ANYWHERE[what](TEXT.encode(encoding))
        if encoding == "latin-1" or what not in ENDED_BY_ZERO:
            assert [one.key for one in look(data, HERS).found] == [BACKUP], encoding


@pytest.mark.parametrize("what", ANYWHERE)
@pytest.mark.parametrize(
    "row",
    [
        json.dumps(ROW),
        json.dumps({"type": "RECORD", "stream": "t", "record": ROW}),
        json.dumps(ROW).replace("4711", "4.711e3"),
    ],
)
def test_row_is_found_anywhere(look: Look, what: str, row: str) -> None:
    if what == "a column of binary values" or "of Arrow" in what:
        pytest.skip("of columns, a key is looked for in those of its name")
    data = ANYWHERE[what](row.encode())
    assert [(one.key, one.count) for one in look(data, key_of(KEY)).found] == [(BACKUP, 1)]
    assert look(data, key_of("47119"), key_of("4")).is_clean


@pytest.mark.parametrize(
    "line",
    [
        '{"id": 4711, "id": 1}',
        '{"id": 1, "id": 4711}',
        '{"type": "RECORD", "stream": "t", "record": {"id": 4711, "id": 1}}',
        '{"type": "RECORD", "stream": "t", "record": {"id": 4711}, "record": {"id": 1}}',
        '{"type": "RECORD", "stream": "t", "stream": "u", "record": {"id": 4711}}',
        '{"id": 4711, "record": {"id": 1}}',
        '{"\\u0069d": 4711}',
        '{"id": 1}{"id": 4711}',
        '[{"id": 1}, {"id": 4711}]',
        '[{"id": 1}, {"id": 4711, "name": "Zo',
        '{"id": 1} {"id": 4711, "name": "Zo',
        '2026-01-02 INFO sent {"id": 4711} to the queue',
        '2026-01-02 INFO {"id": 1} {"a": {}} { {"id": 4711}',
        '{"type": "RECORD", "stream": "t", "record": {"\\u0069d": 4711, "x": 01}}',
    ],
)
def test_key_of_any_member_of_that_name_is_found(look: Look, line: str) -> None:
    for data in (line.encode(), gzip.compress(line.encode())):
        assert len(look(data, key_of(KEY), key=DATA).found) == 1
    assert look(line.encode(), key_of("2")).is_clean


@pytest.mark.parametrize(
    "line",
    [
        '{"a": {"id": 4711}, "id": 1}',
        'x {"a": {"id": 4711}, "id": 1}',
        '{"type": "RECORD", "stream": "u", "record": {"id": 4711}}',
        '{"type": "SCHEMA", "stream": "4711", "schema": {}, "id": 4711}',
        'x {"id": 4712}',
        "id 4711",
    ],
)
def test_what_is_no_row_of_the_key_is_not_found(look: Look, line: str) -> None:
    assert look(line.encode(), key_of(KEY)).is_clean


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("4711", Kind.TEXT, '"004711"'),
        ("0.5", Kind.DECIMAL, '".5"'),
        ("0.5", Kind.NUMBER, "5e-1"),
        ("5", Kind.DECIMAL, '".5e1"'),
        ("4711", Kind.TEXT, '"\\u0034711.0"'),
        ("0", Kind.NUMBER, "-0.0"),
        ("10", Kind.INTEGER, "1e1"),
    ],
)
def test_number_in_any_spelling_is_found(look: Look, text: str, kind: Kind, value: str) -> None:
    assert len(look(f'{{"id": {value}}}'.encode(), key_of(text, kind)).found) == 1


def test_key_in_a_first_of_two_equal_members_of_an_object_is_found(look: Look) -> None:
    data = b'{"id": {"a": 1, "a": 2, "b": [{"c": 1, "c": 3}]}}'
    for text, count in (('{"a":1,"b":[{"c":1}]}', 1), ('{"a":2,"b":[{"c":3}]}', 1), ('{"a":2}', 0)):
        assert len(look(data, key_of(text, Kind.STRUCT)).found) == count


def test_string_key_is_only_itself_where_text_is_percent_encoded(look: Look) -> None:
    key = key_of("a b", Kind.STRING)
    assert look(b'{"id": "a%20b"}', key).is_clean
    assert len(look(b'{"id": "a b"}', key).found) == 1


def test_key_in_both_of_two_columns_of_one_name_is_found(look: Look) -> None:
    columns = [pa.array([1, 2]), pa.array([int(KEY), 4])]
    data = containers.parquet(pa.Table.from_arrays(columns, names=["id", "id"]))
    assert [one.count for one in look(data, key_of(KEY)).found] == [1]


def test_string_key_in_a_dictionary_that_no_row_has_is_found(look: Look) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["x", "k-1"]))
    data = containers.parquet(pa.table({"id": column}))
    (found,) = look(data, key_of("k-1", Kind.STRING)).found
    assert (found.count, found.first) == (1, "the dictionary of column id")
    assert look(data, key_of("k-1", Kind.STRING, "no")).is_clean


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_columns_without_dictionaries_are_read(look: Look, encoding: str) -> None:
    options = {"use_dictionary": False, "column_encoding": {"a": encoding}}
    assert look(containers.parquet(pa.table({"a": [TEXT]}), **options), HERS).found


def test_header_of_a_whole_block_that_still_has_an_erased_key_is_found(look: Look) -> None:
    text = b'{"type":"RECORD","stream":"t","record":{"id":3}}\n'
    data = block.encode(text, 1, 1, None, {"id": (3, int(KEY))})
    assert len(look(data, key_of(KEY), key=DATA).found) == 1
    assert [one.count for one in look(data, key_of("3"), key=DATA).found] == [1]
    assert look(data, key_of("12"), key=DATA).is_clean


def test_ends_of_several_columns_are_no_key_of_a_whole_block(look: Look) -> None:
    text = b"".join(
        b'{"type":"RECORD","stream":"t","record":{"a":%d,"b":%d}}\n' % pair
        for pair in ((1, 9), (2, 8))
    )
    data = block.encode(text, 2, 1, None, {"a": (1, 2), "b": (8, 9)})
    names = KeyNames(NAME, [("a", "b")], dict.fromkeys("ab", frozenset({Kind.INTEGER})))
    assert look(data, Key("key 1", '["1","8"]', names), key=DATA).is_clean
    assert look(data, Key("key 1", '["1","9"]', names), key=DATA).found


@pytest.mark.parametrize("name", ["Zoë Planted", "Zo%C3%AB%20Planted", "Zo%25c3%25AB Planted"])
def test_name_of_an_object_is_found_in_any_encoding(look: Look, name: str) -> None:
    for key in (f"backup/{name}/x", f"raw/{name}/y", f"raw/tap/{name}.gz"):
        assert [one.key for one in look(b"{}", HERS, key=key).found] == [key]


def test_name_of_a_tap_is_found(lake: Lake) -> None:
    tap = planted.TableName(TEXT, "t")
    planted.commit(lake, {"id": 1, "name": "Ada"}, table=tap)
    assert {one.table for one in check(lake, [HERS]).found} >= {tap}


def test_refused_line_in_base64_is_found_where_its_row_is_cut_off_or_has_escapes(
    look: Look,
) -> None:
    text = base64.b64encode(json.dumps(ROW).encode() + "¿¿¿>>>???".encode()).decode()
    assert "/" in text
    for spelled in (text.replace("/", "\\/"), text[:-3], json.dumps(text)[1:-1]):
        data = f'{{"digest": "0", "message_base64": "{spelled}'.encode()
        assert len(look(data, key_of(KEY), HERS).found) == 2


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_base64_is_decoded_wherever_it_begins(data: bytes) -> None:
    text = base64.b64encode(data)
    for before in (b"", b"A", b"==+", b"xyzw\0ab"):
        found = b"\0".join(spelling.base64_in(before + text))
        letters = text.rstrip(b"=")
        assert len(letters) < 16 or data[: len(letters) // 4 * 3] in found


def test_shared_lake_is_clean_of_texts_in_its_own_packed_bytes(tmp_path: Path) -> None:
    """Texts of a few letters are in any packed bytes: that is no finding."""
    lake = planted.innocent(Lake.open(str(tmp_path / "lake"), create=True))
    noise = pa.array([base64.b16encode(bytes([n % 256, n // 256])).decode() for n in range(60_000)])
    planted.plant(lake.store, "x.parquet", containers.parquet(pa.table({"a": noise})))
    assert check(lake, [Text("text 1", f"z{n}") for n in range(10)]).is_clean


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (containers.avro(b"Zo", "deflate")[:-20], "is not a complete Avro file"),
        (containers.avro(b"Zo", "deflate").replace(b"deflate", b"secret1"), "'secret1', which"),
        (containers.avro(b"Zo", "null").replace(b"\x08null", b"\x06lz4"), "cannot be decompressed"),
        (gzip.compress(b"Obj\x01"), "is not a complete Avro file"),
        (b"ARROW1\0\0...", "is not a complete Arrow file,"),
        (containers.arrow(b"Zo", "zstd", pa.ipc.new_stream)[:-90], "is not a complete Arrow"),
    ],
)
def test_columns_that_cannot_be_unpacked_are_not_read(look: Look, data: bytes, why: str) -> None:
    report = look(data, HERS)
    assert [(one.key, why in one.why) for one in report.not_read] == [(BACKUP, True)]
    assert not report.packed


def test_bytes_that_only_begin_as_arrow_does_are_searched_as_bytes(look: Look) -> None:
    data = b"\xff\xff\xff\xff" + TEXT.encode()
    assert [one.key for one in look(data, HERS).found] == [BACKUP]
    assert look(data, Text("text 1", "nobody")).is_clean


@pytest.mark.parametrize("new", [pa.ipc.new_file, pa.ipc.new_stream])
def test_row_in_packed_columns_of_arrow_is_found(look: Look, new: Callable[..., object]) -> None:
    sink = io.BytesIO()
    table = pa.table({"id": [1, int(KEY)], "name": ["x" * 300, TEXT]})
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with new(sink, table.schema, options=options) as writer:  # type: ignore[attr-defined]
        writer.write_table(table)
    assert [one.count for one in look(sink.getvalue(), key_of(KEY), HERS).found] == [1, 1]
    assert look(sink.getvalue(), key_of("2")).is_clean


def test_avro_is_not_counted_as_packed(look: Look) -> None:
    report = look(containers.avro(b"Ada", "deflate"), HERS)
    assert report.is_clean
    assert not report.packed
