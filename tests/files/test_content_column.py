"""What files hold as a column of bytes, in small arrays, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from singerlake.errors import DamagedError, UsageError
from singerlake.files import content_column
from singerlake.files.content_column import ContentColumn
from singerlake.format.content import Place
from singerlake.log import file_lists
from tests.files.photos import NAME, sync, table_of
from tests.target.harness import records_of

ONE = Place(is_file=True)
MANY = Place(items=ONE)
TEXTS = {n: f"data:,{n}" for n in range(5)}


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.chdir(tmp_path)
    sync("lake", TEXTS)
    return [row["photo"] for row in records_of("lake", "photos")]


def column(place: Place = ONE, **more: Any) -> ContentColumn:
    table = table_of("lake")
    lists = file_lists.lists_of(table.snapshot().blocks)
    return ContentColumn(table.store, NAME, place, lists, **more)


def read(made: ContentColumn, *arrays: pa.Array) -> list[Any]:
    return [value for array in made(iter(arrays)) for value in array.to_pylist()]


def test_structs_texts_and_nulls(photos: list[Any]) -> None:
    texts = pa.array([f'{{"path": "{photo["path"]}"}}' for photo in photos] + [None, "{}"])
    expected = [b"%d" % n for n in range(5)]
    assert read(column(), pa.array(photos), texts[:0], texts) == [*expected, *expected, None, None]


def test_files_are_found_by_their_hash_where_rows_show_no_path(photos: list[Any]) -> None:
    shown = [{"uri": photo["uri"], "checksum": photo["checksum"]} for photo in photos]
    other = {"uri": "x", "checksum": "SHA-256:" + "0" * 64}
    assert read(column(), pa.array([*shown, other])) == [*(b"%d" % n for n in range(5)), None]


def test_lists_of_files(photos: list[Any]) -> None:
    rows = pa.array([photos[:2], [], None, [photos[4], None]])
    assert read(column(MANY), rows) == [[b"0", b"1"], [], None, [b"4", None]]
    texts = pa.array([f'[{{"path": "{photos[3]["path"]}"}}]', "null", None])
    assert read(column(MANY), texts) == [[b"3"], None, None]


def test_what_is_handed_on_at_once_is_bounded(
    photos: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.array(photos)
    monkeypatch.setattr(content_column, "_GROUP_BYTES", 2)
    assert [len(array) for array in column()(iter([rows]))] == [2, 2, 1]
    taken: list[int] = []

    def arrays() -> Iterator[pa.Array]:
        for number in range(3):
            taken.append(number)
            yield rows

    made = column()(arrays())
    next(made)
    assert taken == [0]  # nothing is read before somebody takes it
    unsized = pa.array([{"path": photo["path"]} for photo in photos])
    assert {len(array) for array in column()(iter([unsized]))} == {1, 0}


def test_a_file_that_is_too_large(photos: list[Any]) -> None:
    sync("lake", {9: "data:,123456789"})
    large = records_of("lake", "photos")[-1]["photo"]
    assert read(column(most=9), pa.array([large])) == [b"123456789"]
    for said in (large, {**large, "size": 1}):
        with pytest.raises(UsageError, match="is larger than the 8 B that a row may contain"):
            read(column(most=8), pa.array([said]))


def test_what_is_damaged_or_gone(photos: list[Any]) -> None:
    store = table_of("lake").store
    first, second = (Path(store.uri, NAME.key(photo["path"])) for photo in photos[:2])
    first.write_bytes(b"x")
    second.unlink()
    with pytest.raises(DamagedError, match="its bytes have another SHA-256"):
        read(column(), pa.array(photos[:1]))
    with pytest.raises(DamagedError, match="was deleted|is missing"):
        read(column(), pa.array(photos[1:2]))
    assert read(column(), pa.array(photos[2:])) == [b"2", b"3", b"4"]
